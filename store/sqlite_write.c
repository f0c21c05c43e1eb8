// SPDX-License-Identifier: MIT
/*
 * Writing a group: one transaction, request after request. The key comes first: a request whose key
 * is known, from before or from a twin earlier in the group, writes nothing and is answered from
 * the counts in the key's row. Then its events, each by its own identity; what they change in the
 * rows of their traces is gathered over the whole group and written last.
 *
 * A statement that fails for the data's sake undoes only itself. In a group that fails the group,
 * to be run again one by one; there, only the guilty event is left out.
 */
#include <string.h>

#include "store/sqlite_step.h"

static step_fn *const steps[EVENT_TYPE_COUNT] = {
    [EVENT_SPAN] = step_span,   [EVENT_LOG] = step_log, [EVENT_METRIC] = step_metric,
    [EVENT_SCORE] = step_score, [EVENT_RUN] = step_run,
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

enum step step_finish(backend_conn_t *conn, struct sqlite_call *call, struct err *err)
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
    return step_finish(conn, &call, err);
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
    return step_finish(conn, &call, err);
}

static void bind_length(struct sqlite_call *call, const struct reject *reject)
{
    if (reject->form == SOURCE_NONE)
        sqlite_bind_null(call);
    else
        sqlite_bind_int(call, (int64_t)reject->source_bytes);
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
        sqlite_bind_slice(&call, reject->source);
        sqlite_bind_text(&call, source_form_name(reject->form));
        bind_length(&call, reject);
        enum step step = step_finish(conn, &call, err);
        if (step != STEP_NEW)
            return step;
    }
    return STEP_NEW;
}

/* What follows from the events; nobody sent it, so nobody is told what became of it. */
static enum step write_derived(struct writing *writing, bool is_alone)
{
    for (size_t i = 0; i < writing->request->batch.derived_count; i++) {
        const struct event *event = &writing->request->batch.derived[i];
        enum step step = steps[event->type](writing, event);
        if (step == STEP_STORE || (step == STEP_DATA && !is_alone))
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
    struct writing writing = {.conn = conn, .request = request, .project = project, .err = err};
    for (size_t i = 0; i < request->batch.event_count; i++) {
        const struct event *event = &request->batch.events[i];
        enum step step = steps[event->type](&writing, event);
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
    return write_derived(&writing, is_alone);
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
        sqlite_bind_int(&call, delta->has_ended_root);
        enum step step = step_finish(conn, &call, err);
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
    if (step == STEP_NEW && sqlite_conn_in_place(conn, err) == 0 &&
        sqlite_conn_run(conn, STATEMENT_COMMIT, err) == SQLITE_OK)
        return BACKEND_OK;
    sqlite_conn_rollback(conn);
    return step == STEP_DATA && count > 1 ? BACKEND_RERUN : BACKEND_AWAY;
}
