// SPDX-License-Identifier: MIT
/*
 * A new key is written with the counts of a request that is new as a whole, which most are. A key
 * that is there already tells what became of its request; one past its time, which is only not
 * swept yet, is taken over.
 */
#include "store/pg_keys.h"

#include <stdio.h>
#include <string.h>

#include "store/pg_events.h"
#include "store/pg_rows.h"

static const char key_take[] =
    "INSERT INTO idem (project, key, body, accepted, duplicate, rejected, expires_at)"
    " SELECT project, key, body, accepted, 0, rejected, extract(epoch FROM now())::bigint + ttl"
    " FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])"
    " AS u (project, key, body, accepted, rejected, ttl)"
    " ON CONFLICT (project, key) DO NOTHING RETURNING project, key";
static const char key_take_over[] =
    "UPDATE idem i SET body = u.body, accepted = u.accepted, duplicate = 0, rejected = u.rejected,"
    " expires_at = extract(epoch FROM now())::bigint + u.ttl"
    " FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])"
    " AS u (project, key, body, accepted, rejected, ttl)"
    " WHERE i.project = u.project AND i.key = u.key"
    " AND i.expires_at <= extract(epoch FROM now())::bigint RETURNING i.project, i.key";
static const enum list_type take_types[] = {LIST_INT, LIST_BYTES, LIST_BYTES,
                                            LIST_INT, LIST_INT,   LIST_INT};

static const char key_read[] =
    "SELECT i.project, i.key, i.accepted, i.duplicate, i.rejected, i.body"
    " FROM unnest($1::bigint[], $2::bytea[]) AS u (project, key)"
    " JOIN idem i ON i.project = u.project AND i.key = u.key"
    " WHERE i.expires_at > extract(epoch FROM now())::bigint";
static const enum list_type read_types[] = {LIST_INT, LIST_BYTES};

static const char key_counts[] =
    "UPDATE idem i SET accepted = u.accepted, duplicate = u.duplicate, rejected = u.rejected"
    " FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[])"
    " AS u (project, key, accepted, duplicate, rejected)"
    " WHERE i.project = u.project AND i.key = u.key";
static const enum list_type count_types[] = {LIST_INT, LIST_BYTES, LIST_INT, LIST_INT, LIST_INT};

static int64_t ask_project(backend_conn_t *conn, const char *name, struct err *err)
{
    struct pg_params params = {0};
    PGresult *results[2];
    pg_bind_text(&params, name);
    pg_queue(conn,
             "INSERT INTO projects (name) SELECT $1 WHERE NOT EXISTS"
             " (SELECT FROM projects WHERE name = $1) ON CONFLICT DO NOTHING",
             &params);
    pg_queue(conn, "SELECT id FROM projects WHERE name = $1", &params);
    if (pg_round(conn, results, 2, err) == -1)
        return -1;
    int64_t id = PQntuples(results[1]) == 1 ? pg_int(results[1], 0, 0) : -1;
    pg_clear(results, 2);
    if (id == -1) {
        conn->fault = PG_DEADLOCK; /* another daemon is giving it its number right now */
        err_set(err, "%s: the project is not visible yet", conn->store->target.label);
    }
    return id;
}

static int64_t find_project(backend_conn_t *conn, const char *name, struct err *err)
{
    for (size_t i = 0; i < PG_PROJECTS_KNOWN; i++)
        if (strcmp(conn->projects[i].name, name) == 0)
            return conn->projects[i].id;
    int64_t id = ask_project(conn, name, err);
    if (id != -1 && strlen(name) < PG_PROJECT_SIZE) {
        size_t last = PG_PROJECTS_KNOWN - 1;
        memmove(&conn->projects[1], &conn->projects[0], last * sizeof conn->projects[0]);
        snprintf(conn->projects[0].name, PG_PROJECT_SIZE, "%s", name);
        conn->projects[0].id = id;
    }
    return id;
}

int pg_keys_projects(backend_conn_t *conn, struct backend_request *const *requests,
                     int64_t *projects, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        projects[i] = -1;
        for (size_t earlier = 0; earlier < i && projects[i] == -1; earlier++)
            if (strcmp(requests[earlier]->project, requests[i]->project) == 0)
                projects[i] = projects[earlier];
        if (projects[i] == -1)
            projects[i] = find_project(conn, requests[i]->project, err);
        if (projects[i] == -1)
            return -1;
    }
    return 0;
}

static void add_key(struct pg_slice *slice, const struct pg_key *key)
{
    struct row *row = &slice->rows[slice->count++];
    row->count = 0;
    row_add_int(row, key->project);
    row_add_bytes(row, key->request->key, sizeof key->request->key);
    row_add_bytes(row, key->request->body, sizeof key->request->body);
    row_add_int(row, (int64_t)key->request->batch.event_count);
    row_add_int(row, (int64_t)key->request->batch.rejected);
    row_add_int(row, (int64_t)key->request->key_ttl_s);
}

/* Puts the keys in that state into the slice. */
static size_t gather(struct pg_slice *slice, const struct pg_group *group, enum pg_key_state state)
{
    slice->count = 0;
    for (size_t i = 0; i < group->count; i++)
        if (group->keys[i].state == state)
            add_key(slice, &group->keys[i]);
    return slice->count;
}

/* Those whose project and key the result names are new. */
static void mark_taken(const struct pg_group *group, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++) {
        struct list_value digest = pg_value(result, i, 1);
        struct pg_key *key = pg_group_find_key(group, pg_int(result, i, 0), digest.bytes);
        if (key)
            key->state = PG_KEY_NEW;
    }
}

/* Answers a resend from the counts of then. */
static void answer_known(struct pg_key *key, const PGresult *result, int at)
{
    struct backend_request *request = key->request;
    struct slice body = pg_value(result, at, 5).bytes;
    key->state = PG_KEY_KNOWN;
    request->is_resend = true;
    request->is_mismatch =
        body.len != sizeof request->body || memcmp(body.data, request->body, body.len) != 0;
    request->counts = (struct backend_counts){
        .duplicate = (uint64_t)pg_int(result, at, 2) + (uint64_t)pg_int(result, at, 3),
        .rejected = (uint64_t)pg_int(result, at, 4),
    };
}

/* Runs the statement with the keys that are not settled yet. */
static int ask(backend_conn_t *conn, const struct pg_group *group, const char *sql,
               const enum list_type *types, size_t columns, PGresult **result, struct err *err)
{
    struct pg_slice *slice = pg_slices(conn);
    size_t count = gather(slice, group, PG_KEY_UNKNOWN);
    *result = NULL;
    if (count == 0)
        return 0;
    pg_round_begin(conn);
    pg_queue_rows(conn, sql, types, columns, slice->rows, count);
    return pg_round(conn, result, 1, err);
}

/* Of keys that are there: a resend, or past its time. */
static int settle_known(backend_conn_t *conn, struct pg_group *group, struct err *err)
{
    PGresult *result;
    if (ask(conn, group, key_read, read_types, 2, &result, err) == -1)
        return -1;
    for (int i = 0; i < PQntuples(result); i++) {
        struct list_value digest = pg_value(result, i, 1);
        struct pg_key *key = pg_group_find_key(group, pg_int(result, i, 0), digest.bytes);
        if (key)
            answer_known(key, result, i);
    }
    PQclear(result);
    if (ask(conn, group, key_take_over, take_types, 6, &result, err) == -1)
        return -1;
    mark_taken(group, result);
    PQclear(result);
    if (gather(pg_slices(conn), group, PG_KEY_UNKNOWN) == 0)
        return 0;
    conn->fault = PG_DEADLOCK; /* swept, or taken over by another, in between */
    return err_set(err, "%s: a key changed hands", conn->store->target.label);
}

int pg_keys_take(backend_conn_t *conn, struct pg_group *group, struct err *err)
{
    struct pg_slice *slice = pg_slices(conn);
    PGresult *results[3];
    size_t count = conn->queued + 1;
    pg_queue_rows(conn, key_take, take_types, 6, slice->rows, gather(slice, group, PG_KEY_UNKNOWN));
    if (pg_round(conn, results, count, err) == -1)
        return -1;
    mark_taken(group, results[count - 1]);
    pg_clear(results, count);
    return settle_known(conn, group, err);
}

void pg_keys_queue_counts(backend_conn_t *conn, const struct pg_group *group)
{
    struct pg_slice *slice = pg_slices(conn);
    slice->count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct pg_key *key = &group->keys[i];
        const struct backend_counts *counts = &key->request->counts;
        if (key->state != PG_KEY_NEW || counts->accepted == key->request->batch.event_count)
            continue;
        struct row *row = &slice->rows[slice->count++];
        row->count = 0;
        row_add_int(row, key->project);
        row_add_bytes(row, key->request->key, sizeof key->request->key);
        row_add_int(row, (int64_t)counts->accepted);
        row_add_int(row, (int64_t)counts->duplicate);
        row_add_int(row, (int64_t)counts->rejected);
    }
    if (slice->count > 0)
        pg_queue_rows(conn, key_counts, count_types, 5, slice->rows, slice->count);
}
