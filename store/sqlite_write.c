// SPDX-License-Identifier: MIT
/*
 * Writing a group: one transaction, request after request. The key comes first: a request whose key
 * is known, from before or from a twin earlier in the group, writes nothing and is answered from
 * the counts in the key's row. Then its spans, each by its own identity; what they change in the
 * rows of their traces is gathered over the whole group and written last.
 *
 * A statement that fails for the data's sake undoes only itself. In a group that fails the group,
 * to be run again one by one; there, only the guilty event is left out.
 */
#include <string.h>

#include "store/sqlite_conn.h"

#define DAY_NS 86400000000000

/* How one step of a transaction went. */
enum step {
    STEP_NEW,   /* it changed something */
    STEP_KNOWN, /* it was there already */
    STEP_DATA,  /* refused for the data's sake */
    STEP_STORE, /* the store failed */
};

static enum step step_of(backend_conn_t *conn, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
        return sqlite3_changes(conn->db) > 0 ? STEP_NEW : STEP_KNOWN;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
        return STEP_DATA;
    default:
        return STEP_STORE;
    }
}

static enum step finish(backend_conn_t *conn, struct sqlite_call *call, struct err *err)
{
    return step_of(conn, sqlite_conn_finish(conn, call, err));
}

/* The project's number, given to it now where it is new. -1 with the reason. */
static int64_t project_id(backend_conn_t *conn, const char *name, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_PROJECT_FIND, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, name);
    int rc = sqlite_conn_row(conn, &call, err);
    int64_t id = rc == SQLITE_ROW ? sqlite3_column_int64(call.statement, 0) : -1;
    sqlite3_reset(call.statement);
    if (rc != SQLITE_DONE)
        return id;
    if (sqlite_conn_prepare(conn, STATEMENT_PROJECT_ADD, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, name);
    if (sqlite_conn_finish(conn, &call, err) != SQLITE_OK)
        return -1;
    return sqlite3_last_insert_rowid(conn->db);
}

static enum step take_key(backend_conn_t *conn, const struct backend_request *request,
                          int64_t project, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_KEY_TAKE, &call, err) == -1)
        return STEP_STORE;
    sqlite_bind_int(&call, project);
    sqlite_bind_blob(&call, request->key, sizeof request->key);
    sqlite_bind_blob(&call, request->body, sizeof request->body);
    sqlite_bind_int(&call, (int64_t)request->batch.event_count);
    sqlite_bind_int(&call, (int64_t)request->batch.rejected);
    sqlite_bind_int(&call, (int64_t)request->key_ttl_s);
    return finish(conn, &call, err);
}

/* Answers a resend from the counts of then. */
static enum step read_key(backend_conn_t *conn, struct backend_request *request, int64_t project,
                          struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_KEY_READ, &call, err) == -1)
        return STEP_STORE;
    sqlite_bind_int(&call, project);
    sqlite_bind_blob(&call, request->key, sizeof request->key);
    int rc = sqlite_conn_row(conn, &call, err);
    if (rc == SQLITE_ROW) {
        const void *body = sqlite3_column_blob(call.statement, 3);
        size_t len = (size_t)sqlite3_column_bytes(call.statement, 3);
        request->is_resend = true;
        request->is_mismatch = len != sizeof request->body || memcmp(body, request->body, len) != 0;
        request->counts = (struct backend_counts){
            .duplicate = (uint64_t)sqlite3_column_int64(call.statement, 0) +
                         (uint64_t)sqlite3_column_int64(call.statement, 1),
            .rejected = (uint64_t)sqlite3_column_int64(call.statement, 2),
        };
    }
    sqlite3_reset(call.statement);
    return rc == SQLITE_ROW ? STEP_KNOWN : STEP_STORE;
}

static enum step write_counts(backend_conn_t *conn, const struct backend_request *request,
                              int64_t project, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_KEY_COUNTS, &call, err) == -1)
        return STEP_STORE;
    sqlite_bind_int(&call, project);
    sqlite_bind_blob(&call, request->key, sizeof request->key);
    sqlite_bind_int(&call, (int64_t)request->counts.accepted);
    sqlite_bind_int(&call, (int64_t)request->counts.duplicate);
    sqlite_bind_int(&call, (int64_t)request->counts.rejected);
    return finish(conn, &call, err);
}

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
    enum step step = finish(conn, &call, err);
    if (step == STEP_NEW) {
        end.op = (struct slice){0}; /* its tokens are what counts, already */
        rollup_add(&conn->rollup, project, &end, &before);
    }
    return step;
}

static enum step write_span(backend_conn_t *conn, int64_t project, const struct span *span,
                            struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_SPAN_ADD, &call, err) == -1)
        return STEP_STORE;
    bind_span(&call, project, span);
    enum step step = finish(conn, &call, err);
    if (step == STEP_KNOWN)
        return complete_span(conn, project, span, err);
    if (step == STEP_NEW)
        rollup_add(&conn->rollup, project, span, NULL);
    return step;
}

/* Keeps why events were rejected, since behind a relay nobody reads the answer. */
static enum step write_rejects(backend_conn_t *conn, const struct backend_request *request,
                               int64_t project, struct err *err)
{
    for (size_t i = 0; i < request->batch.reject_count; i++) {
        const struct reject *reject = &request->batch.rejects[i];
        struct sqlite_call call;
        if (sqlite_conn_prepare(conn, STATEMENT_REJECT_ADD, &call, err) == -1)
            return STEP_STORE;
        sqlite_bind_int(&call, project);
        sqlite_bind_blob(&call, request->key, sizeof request->key);
        sqlite_bind_int(&call, reject->index);
        sqlite_bind_slice(&call, reject->id);
        sqlite_bind_text(&call, reject_code_name(reject->code));
        sqlite_bind_required(&call, reject->message);
        enum step step = finish(conn, &call, err);
        if (step != STEP_NEW)
            return step;
    }
    return STEP_NEW;
}

/* The events of a request whose key is new. is_alone: nothing else is in the transaction, so an
 * event that the database refuses is left out instead of failing all. */
static enum step write_events(backend_conn_t *conn, struct backend_request *request,
                              int64_t project, bool is_alone, struct err *err)
{
    struct backend_counts counts = {.rejected = request->batch.rejected};
    for (size_t i = 0; i < request->batch.event_count; i++) {
        enum step step = write_span(conn, project, &request->batch.events[i].span, err);
        if (step == STEP_STORE || (step == STEP_DATA && !is_alone))
            return step;
        if (step == STEP_DATA) {
            backend_request_refuse(request, i);
            counts.rejected++;
        } else if (step == STEP_NEW) {
            counts.accepted++;
        } else {
            counts.duplicate++;
        }
    }
    request->counts = counts;
    return STEP_NEW;
}

static enum step write_request(backend_conn_t *conn, struct backend_request *request, bool is_alone,
                               struct err *err)
{
    request->is_resend = false;
    request->is_mismatch = false;
    request->refused_count = 0;
    int64_t project = project_id(conn, request->project, err);
    if (project == -1)
        return STEP_STORE;
    enum step step = take_key(conn, request, project, err);
    if (step == STEP_KNOWN)
        return read_key(conn, request, project, err);
    if (step == STEP_NEW)
        step = write_events(conn, request, project, is_alone, err);
    if (step == STEP_NEW && request->counts.accepted != request->batch.event_count)
        step = write_counts(conn, request, project, err);
    if (step == STEP_NEW)
        step = write_rejects(conn, request, project, err);
    return step;
}

static enum step write_rollup(backend_conn_t *conn, struct err *err)
{
    rollup_fold(&conn->rollup);
    for (size_t i = 0; i < conn->rollup.count; i++) {
        const struct trace_delta *delta = &conn->rollup.deltas[i];
        struct sqlite_call call;
        if (sqlite_conn_prepare(conn, STATEMENT_TRACE_ADD, &call, err) == -1)
            return STEP_STORE;
        sqlite_bind_int(&call, delta->project);
        sqlite_bind_blob(&call, delta->trace_id, sizeof delta->trace_id);
        sqlite_bind_slice(&call, delta->session);
        sqlite_bind_slice(&call, delta->root_name);
        sqlite_bind_int(&call, delta->start_ns);
        sqlite_bind_int(&call, delta->end_ns);
        sqlite_bind_int(&call, delta->spans);
        sqlite_bind_int(&call, delta->errors);
        sqlite_bind_int(&call, delta->in_tok);
        sqlite_bind_int(&call, delta->out_tok);
        enum step step = finish(conn, &call, err);
        if (step != STEP_NEW)
            return STEP_STORE;
    }
    return STEP_NEW;
}

/* A lone request of which the database took nothing leaves nothing behind, not even its key. */
static bool is_all_refused(const struct backend_request *request)
{
    return request->refused_count > 0 && request->counts.accepted + request->counts.duplicate == 0;
}

enum backend_status sqlite_write(backend_conn_t *conn, struct backend_request *const *requests,
                                 size_t count, struct err *err)
{
    rollup_reset(&conn->rollup);
    if (sqlite_conn_run(conn, STATEMENT_BEGIN_WRITE, err) != SQLITE_OK)
        return BACKEND_AWAY;
    enum step step = STEP_NEW;
    for (size_t i = 0; i < count && (step == STEP_NEW || step == STEP_KNOWN); i++)
        step = write_request(conn, requests[i], count == 1, err);
    if (count == 1 && is_all_refused(requests[0]) && step == STEP_NEW) {
        sqlite_conn_rollback(conn);
        return BACKEND_OK;
    }
    if (step == STEP_NEW || step == STEP_KNOWN)
        step = write_rollup(conn, err);
    if (step == STEP_NEW && sqlite_conn_run(conn, STATEMENT_COMMIT, err) == SQLITE_OK)
        return BACKEND_OK;
    sqlite_conn_rollback(conn);
    return step == STEP_DATA && count > 1 ? BACKEND_RERUN : BACKEND_AWAY;
}
