// SPDX-License-Identifier: MIT
/*
 * A span is stored once for its identity. One that is stored open may be completed once; anything
 * else that comes again is a duplicate. What really changed goes to the rollup of the transaction.
 */
#include "store/sqlite_step.h"

static int64_t column_tokens(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? BATCH_TOKENS_NONE
               : sqlite3_column_int64(statement, column);
}

/* The span is stored already. If it is open there and closed here, completes it. */
static enum step complete_span(backend_conn_t *conn, int64_t project, const struct span *span,
                               const struct row *row, struct err *err)
{
    struct sqlite_call open;
    struct sqlite_call call;
    if (span->end_ns == 0)
        return STEP_KNOWN;
    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_OPEN, &open, err) == -1)
        return STEP_STORE;
    for (size_t i = 0; i < row_table(EVENT_SPAN)->key_count; i++)
        sqlite_bind_value(&open, &row->values[i]);
    size_t deltas = conn->rollup.count;
    int rc = sqlite_conn_row(conn, &open, err);
    if (rc == SQLITE_ROW) {
        struct stored_span stored = {
            .status = sqlite3_column_int(open.statement, 0),
            .op = {.data = (const char *)sqlite3_column_text(open.statement, 1),
                   .len = (size_t)sqlite3_column_bytes(open.statement, 1)},
            .in_tok = column_tokens(open.statement, 2),
            .out_tok = column_tokens(open.statement, 3),
        };
        rollup_complete(&conn->rollup, project, span, &stored);
    }
    sqlite3_reset(open.statement);
    if (rc != SQLITE_ROW)
        return rc == SQLITE_DONE ? STEP_KNOWN : STEP_STORE;

    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_COMPLETE, &call, err) == -1)
        return STEP_STORE;
    sqlite_bind_row(&call, row);
    enum step step = step_finish(conn, &call, err);
    if (step != STEP_NEW)
        conn->rollup.count = deltas; /* a refused end changes nothing */
    return step;
}

enum step step_span(struct writing *writing, const struct event *event)
{
    const struct span *span = &event->span;
    struct row row;
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, STATEMENT_SPAN_ADD, &call, writing->err) == -1)
        return STEP_STORE;
    row_of_event(writing->request, writing->project, event, &row);
    sqlite_bind_row(&call, &row);
    enum step step = step_finish(writing->conn, &call, writing->err);
    if (step == STEP_KNOWN)
        return complete_span(writing->conn, writing->project, span, &row, writing->err);
    if (step == STEP_NEW)
        rollup_add(&writing->conn->rollup, writing->project, span);
    return step;
}
