// SPDX-License-Identifier: MIT
/*
 * Lists are made from the tables of listing.c: only the filters that are set go into the statement,
 * so that SQLite can choose an index for them. Every value is bound, never written into the text.
 */
#include <string.h>

#include "store/expr.h"
#include "store/sqlite_conn.h"

#define SQL_MAX_BYTES ((size_t)256 * 1024) /* mostly for conditions */

static int add_columns(struct buf *sql, const struct listing *listing)
{
    for (const struct column *column = listing->columns; column->name; column++)
        if (buf_printf(sql, "%s%s", column == listing->columns ? " " : ", ",
                       column->source ? column->source : column->name) == -1)
            return -1;
    return 0;
}

static const char *source_of(const struct column *column)
{
    return column->source ? column->source : column->name;
}

/* The condition of one filter, with a ? for its value. */
static int add_filter(struct buf *sql, const struct filter *filter)
{
    const char *source = filter->source ? filter->source : filter->name;
    switch (filter->match) {
    case MATCH_TEXT:
    case MATCH_TRACE_ID:
        return buf_printf(sql, " AND t.%s = ?", source);
    case MATCH_AT_LEAST:
        return buf_printf(sql, " AND t.%s >= ?", source);
    case MATCH_MIN_MS:
        return buf_add_str(sql, " AND t.end_ns - t.start_ns >= ? * 1000000");
    case MATCH_HAS_ERRORS:
        return buf_printf(sql, " AND (t.%s > 0) = ?", source);
    case MATCH_SPAN_OF_TRACE:
        return buf_printf(sql,
                          " AND EXISTS (" LISTING_SQLITE_DAYS
                          " SELECT 1 FROM days CROSS JOIN spans s"
                          " ON s.project = t.project AND s.day = days.day"
                          " AND s.trace_id = t.trace_id WHERE s.%s = ?)",
                          source);
    }
    return -1;
}

static int write_sql(struct buf *sql, const struct list_query *query)
{
    size_t parameters = 3;
    const struct listing *listing = query->listing;
    const char *key = source_of(&listing->columns[0]);
    const char *time = source_of(&listing->columns[1]);
    if (buf_add_str(sql, "SELECT") == -1 || add_columns(sql, listing) == -1 ||
        buf_printf(sql, " FROM %s t WHERE %st.%s >= ? AND t.%s < ?", listing->table,
                   listing->is_global ? ""
                                      : "t.project = (SELECT id FROM projects WHERE name = ?) AND ",
                   time, time) == -1)
        return -1;
    if (query->cursor_key.type != LIST_NULL) {
        parameters += 2;
        if (buf_printf(sql, " AND (t.%s, t.%s) < (?, ?)", time, key) == -1)
            return -1;
    }
    for (size_t i = 0; listing->filters[i].name; i++) {
        if (query->filters[i].type == LIST_NULL)
            continue;
        parameters++;
        if (add_filter(sql, &listing->filters[i]) == -1)
            return -1;
    }
    if (query->where && (buf_add_str(sql, " AND ") == -1 ||
                         expr_sql(query->where, EXPR_SQLITE, parameters + 1, sql) == -1))
        return -1;
    return buf_printf(sql, " ORDER BY t.%s DESC, t.%s DESC LIMIT ?", time, key);
}

static void bind_value(struct sqlite_call *call, const struct list_value *value)
{
    if (value->type == LIST_INT)
        sqlite_bind_int(call, value->integer);
    else if (value->type == LIST_REAL)
        sqlite_bind_real(call, value->real);
    else if (value->type == LIST_BYTES)
        sqlite_bind_blob(call, (const uint8_t *)value->bytes.data, value->bytes.len);
    else
        sqlite_bind_required(call, value->bytes);
}

static void bind_query(struct sqlite_call *call, const struct list_query *query)
{
    if (!query->listing->is_global)
        sqlite_bind_text(call, query->project);
    sqlite_bind_int(call, query->from_ns);
    sqlite_bind_int(call, query->to_ns);
    if (query->cursor_key.type != LIST_NULL) {
        sqlite_bind_int(call, query->cursor_ns);
        bind_value(call, &query->cursor_key);
    }
    for (size_t i = 0; query->listing->filters[i].name; i++)
        if (query->filters[i].type != LIST_NULL)
            bind_value(call, &query->filters[i]);
    if (query->where) {
        const struct list_value *values;
        size_t count = expr_values(query->where, &values);
        for (size_t i = 0; i < count; i++)
            bind_value(call, &values[i]);
    }
    sqlite_bind_int(call, query->limit);
}

static struct list_value column_value(sqlite3_stmt *statement, int column)
{
    struct list_value value = {.type = LIST_NULL};
    int type = sqlite3_column_type(statement, column);
    if (type == SQLITE_INTEGER) {
        value.type = LIST_INT;
        value.integer = sqlite3_column_int64(statement, column);
    } else if (type == SQLITE_FLOAT) {
        value.type = LIST_REAL;
        value.real = sqlite3_column_double(statement, column);
    } else if (type != SQLITE_NULL) {
        value.type = type == SQLITE_TEXT ? LIST_TEXT : LIST_BYTES;
        value.bytes.data = sqlite3_column_blob(statement, column);
        value.bytes.len = (size_t)sqlite3_column_bytes(statement, column);
    }
    return value;
}

/* Gives every row of the statement, which has its values, to the sink, and resets it. */
static int give_rows(backend_conn_t *conn, struct sqlite_call *call, size_t columns, row_sink *sink,
                     void *arg, struct err *err)
{
    struct list_value values[LISTING_COLUMNS_MAX];
    int rc;
    int result = 0;
    while (result == 0 && (rc = sqlite_conn_row(conn, call, err)) == SQLITE_ROW) {
        for (size_t i = 0; i < columns; i++)
            values[i] = column_value(call->statement, (int)i);
        if (sink(arg, values) == -1)
            result = err_set(err, "the answer would be too large");
    }
    if (result == 0 && rc != SQLITE_DONE)
        result = -1;
    sqlite3_reset(call->statement);
    return result;
}

/* Prepares a statement that is used once; the caller finalizes it. */
static int prepare_once(backend_conn_t *conn, const struct buf *sql, struct sqlite_call *call,
                        struct err *err)
{
    *call = (struct sqlite_call){.next = 1, .rc = SQLITE_OK};
    if (sqlite3_prepare_v2(conn->db, sql->data, (int)sql->len, &call->statement, NULL) != SQLITE_OK)
        return sqlite_conn_error(conn, "cannot prepare the list", err);
    return 0;
}

int sqlite_list(backend_conn_t *conn, const struct list_query *query, row_sink *sink, void *arg,
                struct err *err)
{
    struct buf sql;
    struct sqlite_call call = {0};
    int result = -1;
    conn->deadline_ms = query->deadline_ms;
    buf_init(&sql, SQL_MAX_BYTES);
    if (write_sql(&sql, query) == -1) {
        err_set(err, "the query is too long");
    } else if (prepare_once(conn, &sql, &call, err) == 0) {
        bind_query(&call, query);
        result = give_rows(conn, &call, listing_columns(query->listing), sink, arg, err);
    }
    sqlite3_finalize(call.statement);
    buf_fini(&sql);
    conn->deadline_ms = 0;
    return result;
}

static const char trace_rest[] =
    " FROM traces t WHERE t.project = (SELECT id FROM projects WHERE name = ?) AND t.trace_id = ?";
static const char spans_rest[] =
    " FROM (WITH RECURSIVE days (project, trace_id, day, last) AS ("
    "  SELECT project, trace_id, start_ns / 86400000000000, end_ns / 86400000000000 FROM traces"
    "  WHERE project = (SELECT id FROM projects WHERE name = ?) AND trace_id = ?"
    "  UNION ALL SELECT project, trace_id, day + 1, last FROM days WHERE day < last)"
    " SELECT s.* FROM days d CROSS JOIN spans s ON s.project = d.project AND s.day = d.day"
    "  AND s.trace_id = d.trace_id) ORDER BY start_ns, span_id";

/* One trace's rows of a listing; rest is what follows the columns. */
static int list_of_trace(backend_conn_t *conn, enum listing_id id, const char *rest,
                         const struct trace_key *key, row_sink *sink, void *arg, struct err *err)
{
    const struct listing *listing = listing_row(id);
    struct buf sql;
    struct sqlite_call call = {0};
    int result = -1;
    buf_init(&sql, SQL_MAX_BYTES);
    if (buf_add_str(&sql, "SELECT") == -1 || add_columns(&sql, listing) == -1 ||
        buf_add_str(&sql, rest) == -1) {
        err_set(err, "the query is too long");
    } else if (prepare_once(conn, &sql, &call, err) == 0) {
        sqlite_bind_text(&call, key->project);
        sqlite_bind_blob(&call, key->trace_id, sizeof key->trace_id);
        result = give_rows(conn, &call, listing_columns(listing), sink, arg, err);
    }
    sqlite3_finalize(call.statement);
    buf_fini(&sql);
    return result;
}

/* Counts the rows on their way to the sink. */
struct counted {
    row_sink *sink;
    void *arg;
    size_t rows;
};

static int count_row(void *arg, const struct list_value *values)
{
    struct counted *counted = arg;
    counted->rows++;
    return counted->sink(counted->arg, values);
}

int sqlite_read_trace(backend_conn_t *conn, const struct trace_key *key, row_sink *trace_sink,
                      row_sink *span_sink, void *arg, struct err *err)
{
    struct counted traces = {.sink = trace_sink, .arg = arg};
    conn->deadline_ms = key->deadline_ms;
    /* One transaction, so that the trace's row and its spans are of the same moment. */
    int result = -1;
    if (sqlite_conn_run(conn, STATEMENT_BEGIN_READ, err) == SQLITE_OK)
        result = list_of_trace(conn, LISTING_TRACES, trace_rest, key, count_row, &traces, err);
    if (result == 0)
        result = traces.rows == 0
                     ? 1
                     : list_of_trace(conn, LISTING_SPANS, spans_rest, key, span_sink, arg, err);
    conn->deadline_ms = 0;
    sqlite_conn_rollback(conn);
    return result;
}
