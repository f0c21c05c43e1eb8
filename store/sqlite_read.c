// SPDX-License-Identifier: MIT
#include <string.h>

#include "store/sqlite_conn.h"

#define DAY_NS 86400000000000

static struct slice column_slice(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return (struct slice){.data = text, .len = (size_t)sqlite3_column_bytes(statement, column)};
}

/* Copies a blob of exactly len bytes; false where the column holds anything else. */
static bool column_id(sqlite3_stmt *statement, int column, uint8_t *id, size_t len)
{
    const void *blob = sqlite3_column_blob(statement, column);
    if (!blob || (size_t)sqlite3_column_bytes(statement, column) != len)
        return false;
    memcpy(id, blob, len);
    return true;
}

static int64_t column_tokens(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? BATCH_TOKENS_NONE
               : sqlite3_column_int64(statement, column);
}

/* The columns of TRACE_COLUMNS. */
static int give_trace(sqlite3_stmt *statement, trace_sink *sink, void *arg)
{
    struct trace_row row = {
        .session = (const char *)sqlite3_column_text(statement, 1),
        .root_name = (const char *)sqlite3_column_text(statement, 2),
        .start_ns = sqlite3_column_int64(statement, 3),
        .end_ns = sqlite3_column_int64(statement, 4),
        .spans = sqlite3_column_int64(statement, 5),
        .errors = sqlite3_column_int64(statement, 6),
        .in_tok = sqlite3_column_int64(statement, 7),
        .out_tok = sqlite3_column_int64(statement, 8),
        .cost_micro = sqlite3_column_int64(statement, 9),
        .has_cost = sqlite3_column_type(statement, 9) != SQLITE_NULL,
        .last_seen_s = sqlite3_column_int64(statement, 10),
    };
    if (!column_id(statement, 0, row.trace_id, sizeof row.trace_id))
        return -1;
    return sink(arg, &row);
}

static void bind_cursor(struct sqlite_call *call, const struct trace_query *query)
{
    static const uint8_t past_all[TRACE_ID_LEN] = {0};
    sqlite_bind_int(call, query->has_cursor ? query->cursor_start_ns : INT64_MAX);
    sqlite_bind_blob(call, query->has_cursor ? query->cursor_trace_id : past_all, TRACE_ID_LEN);
}

int sqlite_list_traces(backend_conn_t *conn, const struct trace_query *query, trace_sink *sink,
                       void *arg, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_TRACE_LIST, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, query->project);
    sqlite_bind_int(&call, query->from_ns);
    sqlite_bind_int(&call, query->to_ns);
    bind_cursor(&call, query);
    sqlite_bind_text(&call, query->session);
    if (query->has_errors == -1)
        sqlite_bind_null(&call);
    else
        sqlite_bind_int(&call, query->has_errors);
    sqlite_bind_text(&call, query->model);
    sqlite_bind_text(&call, query->tool);
    sqlite_bind_text(&call, query->agent);
    sqlite_bind_int(&call, query->limit);

    conn->deadline_ms = query->deadline_ms;
    int rc;
    int result = 0;
    while (result == 0 && (rc = sqlite_conn_row(conn, &call, err)) == SQLITE_ROW)
        if (give_trace(call.statement, sink, arg) == -1)
            result = err_set(err, "the answer would be too large");
    if (result == 0 && rc != SQLITE_DONE)
        result = -1;
    sqlite3_reset(call.statement);
    conn->deadline_ms = 0;
    return result;
}

/* The columns of SPAN_LIST, in its order. */
static int give_span(sqlite3_stmt *statement, const struct trace_key *key, span_sink *sink,
                     void *arg)
{
    struct span span = {
        .kind = (enum span_kind)sqlite3_column_int(statement, 3),
        .status = (enum span_status)sqlite3_column_int(statement, 4),
        .start_ns = (uint64_t)sqlite3_column_int64(statement, 6),
        .end_ns = (uint64_t)sqlite3_column_int64(statement, 7),
        .name = column_slice(statement, 2),
        .error_type = column_slice(statement, 5),
        .op = column_slice(statement, 8),
        .provider = column_slice(statement, 9),
        .model = column_slice(statement, 10),
        .in_tok = column_tokens(statement, 11),
        .out_tok = column_tokens(statement, 12),
        .cache_tok = column_tokens(statement, 13),
        .reason_tok = column_tokens(statement, 14),
        .tool = column_slice(statement, 15),
        .agent = column_slice(statement, 16),
        .session = column_slice(statement, 17),
        .user_id = column_slice(statement, 18),
        .mcp_method = column_slice(statement, 19),
        .mcp_session = column_slice(statement, 20),
        .service = column_slice(statement, 21),
        .env = column_slice(statement, 22),
        .attrs = column_slice(statement, 23),
        .content = column_slice(statement, 24),
    };
    memcpy(span.trace_id, key->trace_id, sizeof span.trace_id);
    span.has_parent = column_id(statement, 1, span.parent_id, sizeof span.parent_id);
    if (!column_id(statement, 0, span.span_id, sizeof span.span_id))
        return -1;
    return sink(arg, &span);
}

/* The trace's spans; trace stands on its row of TRACE_READ. */
static int list_spans(backend_conn_t *conn, sqlite3_stmt *trace, const struct trace_key *key,
                      span_sink *sink, void *arg, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_LIST, &call, err) == -1)
        return -1;
    sqlite_bind_int(&call, sqlite3_column_int64(trace, 11));
    sqlite_bind_blob(&call, key->trace_id, sizeof key->trace_id);
    sqlite_bind_int(&call, sqlite3_column_int64(trace, 3) / DAY_NS);
    sqlite_bind_int(&call, sqlite3_column_int64(trace, 4) / DAY_NS);
    int rc;
    int result = 0;
    while (result == 0 && (rc = sqlite_conn_row(conn, &call, err)) == SQLITE_ROW)
        if (give_span(call.statement, key, sink, arg) == -1)
            result = err_set(err, "the answer would be too large");
    if (result == 0 && rc != SQLITE_DONE)
        result = -1;
    sqlite3_reset(call.statement);
    return result;
}

static int read_trace(backend_conn_t *conn, const struct trace_key *key, trace_sink *row_sink,
                      span_sink *sink, void *arg, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_TRACE_READ, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, key->project);
    sqlite_bind_blob(&call, key->trace_id, sizeof key->trace_id);
    int rc = sqlite_conn_row(conn, &call, err);
    int result = rc == SQLITE_ROW ? 0 : rc == SQLITE_DONE ? 1 : -1;
    if (result == 0 && give_trace(call.statement, row_sink, arg) == -1)
        result = err_set(err, "the answer would be too large");
    if (result == 0)
        result = list_spans(conn, call.statement, key, sink, arg, err);
    sqlite3_reset(call.statement);
    return result;
}

int sqlite_read_trace(backend_conn_t *conn, const struct trace_key *key, trace_sink *row_sink,
                      span_sink *sink, void *arg, struct err *err)
{
    conn->deadline_ms = key->deadline_ms;
    /* One transaction, so that the trace's row and its spans are of the same moment. */
    int result = -1;
    if (sqlite_conn_run(conn, STATEMENT_BEGIN_READ, err) == SQLITE_OK)
        result = read_trace(conn, key, row_sink, sink, arg, err);
    conn->deadline_ms = 0;
    sqlite_conn_rollback(conn);
    return result;
}
