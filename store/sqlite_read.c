// SPDX-License-Identifier: MIT
/* Runs the statements of list_sql and hands out their rows. */
#include "store/list_sql.h"
#include "store/sqlite_conn.h"

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

/* Runs a statement that was put together, and is used once. */
static int run_text(backend_conn_t *conn, struct sql_text *sql, const struct listing *listing,
                    row_sink *sink, void *arg, struct err *err)
{
    struct sqlite_call call = {.next = 1, .rc = SQLITE_OK};
    int result = -1;
    if (sqlite3_prepare_v2(conn->db, sql->text.data, (int)sql->text.len, &call.statement, NULL) !=
        SQLITE_OK) {
        sqlite_conn_error(conn, "cannot prepare the list", err);
    } else {
        for (size_t i = 0; i < sql->value_count; i++)
            sqlite_bind_value(&call, &sql->values[i]);
        result = give_rows(conn, &call, listing_columns(listing), sink, arg, err);
    }
    sqlite3_finalize(call.statement);
    return result;
}

int sqlite_list(backend_conn_t *conn, const struct list_query *query, row_sink *sink, void *arg,
                struct err *err)
{
    struct sql_text sql;
    int result = -1;
    conn->deadline_ms = query->deadline_ms;
    sql_text_init(&sql, EXPR_SQLITE);
    if (list_sql_page(&sql, query) == -1)
        err_set(err, "the query is too long");
    else
        result = run_text(conn, &sql, query->listing, sink, arg, err);
    sql_text_fini(&sql);
    conn->deadline_ms = 0;
    return result;
}

/* The trace's row, then, where there is one, its spans. */
static int read_both(backend_conn_t *conn, const struct trace_key *key, struct row_count *traces,
                     row_sink *span_sink, struct err *err)
{
    struct sql_text trace;
    struct sql_text spans;
    int result = -1;
    sql_text_init(&trace, EXPR_SQLITE);
    sql_text_init(&spans, EXPR_SQLITE);
    if (list_sql_trace(&trace, key) == -1 || list_sql_spans(&spans, key) == -1)
        err_set(err, "the query is too long");
    else
        result = run_text(conn, &trace, listing_row(LISTING_TRACES), row_count, traces, err);
    if (result == 0)
        result = traces->rows == 0 ? 1
                                   : run_text(conn, &spans, listing_row(LISTING_SPANS), span_sink,
                                              traces->arg, err);
    sql_text_fini(&spans);
    sql_text_fini(&trace);
    return result;
}

int sqlite_read_trace(backend_conn_t *conn, const struct trace_key *key, row_sink *trace_sink,
                      row_sink *span_sink, void *arg, struct err *err)
{
    struct row_count traces = {.sink = trace_sink, .arg = arg};
    int result = -1;
    conn->deadline_ms = key->deadline_ms;
    /* One transaction, so that the trace's row and its spans are of the same moment. */
    if (sqlite_conn_run(conn, STATEMENT_BEGIN_READ, err) == SQLITE_OK)
        result = read_both(conn, key, &traces, span_sink, err);
    conn->deadline_ms = 0;
    sqlite_conn_rollback(conn);
    return result;
}
