// SPDX-License-Identifier: MIT
/*
 * A span is stored once for its identity. One that is stored open may be completed once; anything
 * else that comes again is a duplicate. What really changed goes to the rollup of the transaction.
 */
#include "store/sqlite_step.h"

static void bind_identity(struct sqlite_call *call, int64_t project, const struct span *span)
{
    sqlite_bind_int(call, project);
    sqlite_bind_int(call, (int64_t)(span->start_ns / DAY_NS));
    sqlite_bind_blob(call, span->trace_id, sizeof span->trace_id);
    sqlite_bind_blob(call, span->span_id, sizeof span->span_id);
}

static void bind_tokens(struct sqlite_call *call, int64_t tokens)
{
    if (tokens == BATCH_TOKENS_NONE)
        sqlite_bind_null(call);
    else
        sqlite_bind_int(call, tokens);
}

/* All values of SPAN_ADD and SPAN_COMPLETE. */
static void bind_span(struct sqlite_call *call, int64_t project, const struct span *span)
{
    bind_identity(call, project, span);
    if (span->has_parent)
        sqlite_bind_blob(call, span->parent_id, sizeof span->parent_id);
    else
        sqlite_bind_null(call);
    sqlite_bind_required(call, span->name);
    sqlite_bind_int(call, span->kind);
    sqlite_bind_int(call, span->status);
    sqlite_bind_slice(call, span->error_type);
    sqlite_bind_int(call, (int64_t)span->start_ns);
    if (span->end_ns)
        sqlite_bind_int(call, (int64_t)span->end_ns);
    else
        sqlite_bind_null(call);
    sqlite_bind_slice(call, span->op);
    sqlite_bind_slice(call, span->provider);
    sqlite_bind_slice(call, span->model);
    bind_tokens(call, span->in_tok);
    bind_tokens(call, span->out_tok);
    bind_tokens(call, span->cache_tok);
    bind_tokens(call, span->reason_tok);
    sqlite_bind_slice(call, span->tool);
    sqlite_bind_slice(call, span->agent);
    sqlite_bind_slice(call, span->session);
    sqlite_bind_slice(call, span->user_id);
    sqlite_bind_slice(call, span->mcp_method);
    sqlite_bind_slice(call, span->mcp_session);
    sqlite_bind_slice(call, span->service);
    sqlite_bind_slice(call, span->env);
    sqlite_bind_required(call, span->attrs);
    sqlite_bind_slice(call, span->content);
}

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
                               struct err *err)
{
    struct sqlite_call call;
    if (span->end_ns == 0)
        return STEP_KNOWN;
    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_OPEN, &call, err) == -1)
        return STEP_STORE;
    bind_identity(&call, project, span);
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
    bind_span(&call, project, span);
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
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, STATEMENT_SPAN_ADD, &call, writing->err) == -1)
        return STEP_STORE;
    bind_span(&call, writing->project, span);
    enum step step = step_finish(writing->conn, &call, writing->err);
    if (step == STEP_KNOWN)
        return complete_span(writing->conn, writing->project, span, writing->err);
    if (step == STEP_NEW)
        rollup_add(&writing->conn->rollup, writing->project, span, NULL);
    return step;
}
