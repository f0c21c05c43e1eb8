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

static void open_span_tokens(sqlite3_stmt *statement, struct span *end,
                             struct rollup_before *before)
{
    struct slice op = {.data = (const char *)sqlite3_column_text(statement, 1),
                       .len = (size_t)sqlite3_column_bytes(statement, 1)};
    int64_t in_tok = column_tokens(statement, 2);
    int64_t out_tok = column_tokens(statement, 3);
    before->is_error = sqlite3_column_int(statement, 0) == SPAN_STATUS_ERROR;
    before->in_tok = rollup_tokens(op, in_tok);
    before->out_tok = rollup_tokens(op, out_tok);
    /* What the end leaves out stays as it was, so it counts as it did. */
    if (end->op.len > 0)
        op = end->op;
    end->in_tok = rollup_tokens(op, end->in_tok == BATCH_TOKENS_NONE ? in_tok : end->in_tok);
    end->out_tok = rollup_tokens(op, end->out_tok == BATCH_TOKENS_NONE ? out_tok : end->out_tok);
}

/* The span is stored already. If it is open there and closed here, completes it. */
static enum step complete_span(backend_conn_t *conn, int64_t project, const struct span *span,
                               const struct row *row, struct err *err)
{
    struct sqlite_call call;
    if (span->end_ns == 0)
        return STEP_KNOWN;
    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_OPEN, &call, err) == -1)
        return STEP_STORE;
    for (size_t i = 0; i < row_table(EVENT_SPAN)->key_count; i++)
        sqlite_bind_value(&call, &row->values[i]);
    int rc = sqlite_conn_row(conn, &call, err);
    struct rollup_before before = {0};
    struct span end = *span;
    if (rc == SQLITE_ROW)
        open_span_tokens(call.statement, &end, &before);
    sqlite3_reset(call.statement);
    if (rc != SQLITE_ROW)
        return rc == SQLITE_DONE ? STEP_KNOWN : STEP_STORE;

    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_COMPLETE, &call, err) == -1)
        return STEP_STORE;
    sqlite_bind_row(&call, row);
    enum step step = step_finish(conn, &call, err);
    if (step == STEP_NEW) {
        end.op = (struct slice){0}; /* its tokens are what counts, already */
        rollup_add(&conn->rollup, project, &end, &before);
    }
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
        rollup_add(&writing->conn->rollup, writing->project, span, NULL);
    return step;
}
