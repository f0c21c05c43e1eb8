// SPDX-License-Identifier: MIT
/*
 * One transaction: the keys of all requests first, so that a request whose key is known, or is
 * being written elsewhere, costs nothing more; then the events of the others, their rollups, counts
 * and rejects; COMMIT.
 *
 * What happens when that fails: a deadlock, a day without a partition and a connection that broke
 * before COMMIT are tried again at once. Whatever may be one request's fault makes the group run
 * again one by one. Alone, a lock means "in flight"; and of a request that the database finds fault
 * with, the events that are to blame are found by halving and left out.
 */
#include "store/pg_write.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "store/pg_days.h"
#include "store/pg_events.h"
#include "store/pg_keys.h"

#define TRIES_MAX  3
#define BLAMED_MAX 64 /* single events found by halving; beyond that whole halves are left out */

/* A frozen daemon must not hold its rows for ever, and a server that was told not to wait for its
 * disk must wait here. */
#define BEGIN_SETTINGS(lock_timeout)                                               \
    "SELECT set_config('lock_timeout', '" lock_timeout "', true),"                 \
    " set_config('statement_timeout', '9s', true),"                                \
    " set_config('idle_in_transaction_session_timeout', '15s', true),"             \
    " set_config('synchronous_commit', CASE current_setting('synchronous_commit')" \
    " WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"

static const char settings_of_group[] = BEGIN_SETTINGS("200ms");
static const char settings_alone[] = BEGIN_SETTINGS("5s");

static const char trace_add[] =
    "INSERT INTO traces AS t (project, trace_id, session, root_name, start_ns, end_ns, spans, "
    "errors,"
    " in_tok, out_tok, root_ended, last_seen) SELECT u.*, extract(epoch FROM now())::bigint FROM"
    " unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],"
    " $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[]) u"
    " ON CONFLICT (project, trace_id) DO UPDATE SET session = coalesce(t.session, "
    "excluded.session),"
    "  root_name = coalesce(excluded.root_name, t.root_name),"
    "  start_ns = least(t.start_ns, excluded.start_ns), end_ns = greatest(t.end_ns, "
    "excluded.end_ns),"
    "  spans = t.spans + excluded.spans, errors = t.errors + excluded.errors,"
    "  in_tok = t.in_tok + excluded.in_tok, out_tok = t.out_tok + excluded.out_tok,"
    "  root_ended = greatest(t.root_ended, excluded.root_ended), last_seen = excluded.last_seen";
static const enum list_type trace_types[] = {LIST_INT, LIST_BYTES, LIST_TEXT, LIST_TEXT,
                                             LIST_INT, LIST_INT,   LIST_INT,  LIST_INT,
                                             LIST_INT, LIST_INT,   LIST_INT};

static const char reject_add[] =
    "INSERT INTO rejects (project, key, position, event_id, code, message, event, event_form,"
    " event_bytes, created_ns, expires_at) SELECT u.*, extract(epoch FROM now())::bigint *"
    " 1000000000, extract(epoch FROM now())::bigint + 7 * 86400 FROM unnest($1::bigint[],"
    " $2::bytea[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],"
    " $9::bigint[]) u";
static const enum list_type reject_types[] = {LIST_INT,  LIST_BYTES, LIST_INT,
                                              LIST_TEXT, LIST_TEXT,  LIST_TEXT,
                                              LIST_TEXT, LIST_TEXT,  LIST_INT};

/* Queues the rows gathered in the slice and empties it; every few of them the round is run. */
static int flush_rows(backend_conn_t *conn, const char *sql, const enum list_type *types,
                      size_t columns, struct pg_slice *slice, struct err *err)
{
    if (slice->count > 0)
        pg_queue_rows(conn, sql, types, columns, slice->rows, slice->count);
    slice->count = 0;
    if (conn->queued < PG_SLICES && conn->fault == PG_FINE)
        return 0;
    pg_round_begin(conn);
    return pg_round_done(conn, err);
}

static int write_rollup(backend_conn_t *conn, struct err *err)
{
    struct pg_slice *slice = pg_slices(conn);
    rollup_fold(&conn->rollup);
    slice->count = 0;
    for (size_t i = 0; i < conn->rollup.count; i++) {
        const struct trace_delta *delta = &conn->rollup.deltas[i];
        struct row *row = &slice->rows[slice->count++];
        row->count = 0;
        row_add_int(row, delta->project);
        row_add_bytes(row, delta->trace_id, sizeof delta->trace_id);
        row_add_text(row, delta->session);
        row_add_text(row, delta->root_name);
        row_add_int(row, delta->start_ns);
        row_add_int(row, delta->end_ns);
        row_add_int(row, delta->spans);
        row_add_int(row, delta->errors);
        row_add_int(row, delta->in_tok);
        row_add_int(row, delta->out_tok);
        row_add_int(row, delta->has_ended_root);
        if ((slice->count == PG_ROWS_MAX || i + 1 == conn->rollup.count) &&
            flush_rows(conn, trace_add, trace_types, 11, slice, err) == -1)
            return -1;
    }
    return 0;
}

static void add_reject(struct pg_slice *slice, const struct pg_key *key,
                       const struct reject *reject)
{
    struct row *row = &slice->rows[slice->count++];
    row->count = 0;
    row_add_int(row, key->project);
    row_add_bytes(row, key->request->key, sizeof key->request->key);
    row_add_int(row, reject->index);
    row_add_text(row, reject->id);
    row_add_word(row, reject_code_name(reject->code));
    row_add_required(row, reject->message);
    row_add_text(row, reject->source);
    row_add_word(row, source_form_name(reject->form));
    if (reject->form == SOURCE_NONE)
        row_add_null(row);
    else
        row_add_int(row, (int64_t)reject->source_bytes);
}

/* Keeps why events were rejected, since behind a relay nobody reads the answer. */
static int write_rejects(backend_conn_t *conn, const struct pg_group *group, struct err *err)
{
    struct pg_slice *slice = pg_slices(conn);
    for (size_t i = 0; i < group->count; i++) {
        const struct batch *batch = &group->keys[i].request->batch;
        if (group->keys[i].state != PG_KEY_NEW)
            continue;
        for (size_t at = 0; at < batch->reject_count; at++) {
            add_reject(slice, &group->keys[i], &batch->rejects[at]);
            if ((slice->count == PG_ROWS_MAX || at + 1 == batch->reject_count) &&
                flush_rows(conn, reject_add, reject_types, 9, slice, err) == -1)
                return -1;
        }
    }
    return 0;
}

/* Events of the only request that the database refused leave no trace, not even the key, when
 * nothing else is left. */
static bool is_all_refused(const struct pg_group *group)
{
    const struct backend_request *request = group->keys[0].request;
    return group->count == 1 && request->refused_count > 0 &&
           request->counts.accepted + request->counts.duplicate == 0;
}

static int commit(backend_conn_t *conn, struct err *err)
{
    pg_queue(conn, "COMMIT", NULL);
    conn->is_commit_sent = true;
    pg_round_begin(conn);
    return pg_round_done(conn, err);
}

static int write_group(backend_conn_t *conn, struct pg_group *group, struct err *err)
{
    pg_round_begin(conn);
    pg_queue(conn, PG_BEGIN, NULL);
    pg_queue(conn, group->count > 1 ? settings_of_group : settings_alone, NULL);
    if (pg_keys_take(conn, group, err) == -1)
        return -1;
    pg_group_list(group);
    if (pg_write_events(conn, group, err) == -1)
        return -1;
    pg_group_settle(group);
    if (is_all_refused(group)) {
        pg_rollback(conn);
        return 0;
    }
    if (write_rollup(conn, err) == -1 || write_rejects(conn, group, err) == -1)
        return -1;
    pg_keys_queue_counts(conn, group);
    return commit(conn, err);
}

/* Makes the days that the requests' events need. */
static int need_days(backend_conn_t *conn, struct backend_request *const *requests, size_t count,
                     struct err *err)
{
    size_t total = 0;
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        total += requests[i]->batch.event_count;
    int64_t *days = calloc(PG_FAMILY_COUNT * (total + 1), sizeof *days);
    assert(days);
    size_t counts[PG_FAMILY_COUNT] = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < requests[i]->batch.event_count; at++) {
            const struct event *event = &requests[i]->batch.events[at];
            enum pg_family family = event->type == EVENT_SPAN  ? PG_SPANS
                                    : event->type == EVENT_LOG ? PG_LOGS
                                                               : PG_METRICS;
            uint64_t ns = event->type == EVENT_SPAN  ? event->span.start_ns
                          : event->type == EVENT_LOG ? event->log.ts_ns
                                                     : event->metric.ts_ns;
            if (event->type <= EVENT_METRIC)
                days[family * (total + 1) + counts[family]++] = (int64_t)(ns / DAY_NS);
        }
    for (enum pg_family family = 0; rc == 0 && family < PG_FAMILY_COUNT; family++)
        rc = pg_days_need(conn, family, days + family * (total + 1), counts[family], err);
    free(days);
    return rc;
}

/* One try. left_out as in struct pg_group. */
static int attempt(backend_conn_t *conn, struct backend_request *const *requests, size_t count,
                   const bool *left_out, struct err *err)
{
    struct pg_group group;
    int64_t *projects = calloc(count, sizeof *projects);
    assert(projects);
    int rc = -1;
    conn->is_commit_sent = false;
    rollup_reset(&conn->rollup);
    for (size_t i = 0; i < count; i++) {
        requests[i]->is_resend = false;
        requests[i]->is_mismatch = false;
    }
    if (pg_conn_open(conn, clock_mono_ms() + PG_ROUND_LIMIT_MS, err) == 0 &&
        pg_keys_projects(conn, requests, projects, count, err) == 0 &&
        need_days(conn, requests, count, err) == 0) {
        pg_group_init(&group, requests, projects, count);
        group.left_out = left_out;
        rc = write_group(conn, &group, err);
        pg_group_fini(&group);
        if (rc == -1)
            pg_rollback(conn);
    }
    free(projects);
    return rc;
}

/* May a transaction that failed so be tried again at once? */
static bool is_passing(backend_conn_t *conn)
{
    if (conn->fault == PG_NO_DAY)
        pg_days_forget(conn->store->days);
    return conn->fault == PG_NO_DAY || conn->fault == PG_DEADLOCK || conn->fault == PG_TWICE ||
           (conn->fault == PG_LOST && !conn->is_commit_sent);
}

static int attempts(backend_conn_t *conn, struct backend_request *const *requests, size_t count,
                    const bool *left_out, struct err *err)
{
    int rc = attempt(conn, requests, count, left_out, err);
    for (int tries = 1; rc == -1 && tries < TRIES_MAX && is_passing(conn); tries++)
        rc = attempt(conn, requests, count, left_out, err);
    return rc;
}

/* What is known of a request with which the database finds fault. */
struct blame {
    backend_conn_t *conn;
    struct backend_request *request;
    bool *left_out; /* by position, as in struct pg_group */
    size_t count;   /* positions */
    size_t blamed;
};

/* Does the database take these positions by themselves? Nothing of it stays. 0; 1 where it finds
 * fault; -1 where it cannot be asked. */
static int try_part(struct blame *self, size_t from, size_t to, struct err *err)
{
    struct pg_group group;
    struct backend_request *const requests[] = {self->request};
    bool *others = malloc(self->count * sizeof *others);
    int64_t project;
    assert(others);
    for (size_t i = 0; i < self->count; i++)
        others[i] = i < from || i >= to;
    int rc = -1;
    rollup_reset(&self->conn->rollup);
    if (pg_conn_open(self->conn, clock_mono_ms() + PG_ROUND_LIMIT_MS, err) == 0 &&
        pg_keys_projects(self->conn, requests, &project, 1, err) == 0) {
        pg_group_init(&group, requests, &project, 1);
        group.left_out = others;
        group.keys[0].state = PG_KEY_NEW;
        pg_queue(self->conn, PG_BEGIN, NULL);
        pg_queue(self->conn, settings_alone, NULL);
        rc = pg_round_done(self->conn, err);
        pg_group_list(&group);
        if (rc == 0)
            rc = pg_write_events(self->conn, &group, err);
        if (rc == 0)
            rc = write_rollup(self->conn, err);
        if (rc == 0 && self->conn->queued > 0)
            rc = pg_round_done(self->conn, err);
        pg_rollback(self->conn);
        pg_group_fini(&group);
    }
    free(others);
    return rc == -1 && self->conn->fault == PG_DATA ? 1 : rc;
}

/* Finds those to blame among the positions. */
static int find_guilty(struct blame *self, size_t from, size_t to, struct err *err)
{
    int rc = try_part(self, from, to, err);
    if (rc != 1)
        return rc;
    if (to - from > 1 && self->blamed < BLAMED_MAX) {
        size_t middle = from + (to - from) / 2;
        rc = find_guilty(self, from, middle, err);
        return rc == 0 ? find_guilty(self, middle, to, err) : rc;
    }
    for (size_t i = from; i < to; i++, self->blamed++) {
        self->left_out[i] = true;
        if (i < self->request->batch.event_count)
            backend_request_refuse(self->request, i);
    }
    return 0;
}

/* The only request holds something that the database does not take: finds it, stores the rest. */
static int set_aside(backend_conn_t *conn, struct backend_request *request, struct err *err)
{
    const struct batch *batch = &request->batch;
    struct blame blame = {
        .conn = conn, .request = request, .count = batch->event_count + batch->derived_count};
    conn->copy_pause++; /* a part that is there already is not at fault */
    blame.left_out = calloc(blame.count, sizeof *blame.left_out);
    assert(blame.left_out);
    int rc = find_guilty(&blame, 0, blame.count, err);
    if (rc == 0)
        rc = attempts(conn, &request, 1, blame.left_out, err);
    if (rc == -1 && conn->fault == PG_DATA) {
        /* Each part by itself is good, together they are not: it would fail for ever. */
        memset(blame.left_out, true, blame.count);
        request->refused_count = 0;
        for (size_t i = 0; i < batch->event_count; i++)
            backend_request_refuse(request, i);
        rc = attempts(conn, &request, 1, blame.left_out, err);
    }
    free(blame.left_out);
    return rc;
}

static enum backend_status status_of(const backend_conn_t *conn, size_t count)
{
    switch (conn->fault) {
    case PG_DATA:
    case PG_LOCKED:
    case PG_DEADLOCK:
        if (count > 1)
            return BACKEND_RERUN;
        return conn->fault == PG_LOCKED ? BACKEND_IN_FLIGHT : BACKEND_AWAY;
    default:
        return BACKEND_AWAY;
    }
}

enum backend_status pg_write(backend_conn_t *conn, struct backend_request *const *requests,
                             size_t count, struct err *err)
{
    assert(count > 0);
    for (size_t i = 0; i < count; i++)
        requests[i]->refused_count = 0;
    if (conn->copy_pause > 0)
        conn->copy_pause--;
    int rc = attempts(conn, requests, count, NULL, err);
    if (rc == -1 && count == 1 && conn->fault == PG_DATA)
        rc = set_aside(conn, requests[0], err);
    return rc == 0 ? BACKEND_OK : status_of(conn, count);
}
