// SPDX-License-Identifier: MIT
#include "store/backend_pg.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "store/pg_conn.h"
#include "store/pg_days.h"
#include "store/pg_forget.h"
#include "store/pg_lease.h"
#include "store/pg_read.h"
#include "store/pg_write.h"
#include "store/pg_score.h"

#define OPEN_LIMIT_MS  5000
#define PROBE_LIMIT_MS 3000
#define SWEEP_LIMIT_MS 10000
#define DAY_S          86400

static void close_store(backend_store_t **self_p)
{
    backend_store_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    pg_target_fini(&self->target);
    pg_days_destroy(&self->days);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

/* A first look, so that what only a person can mend stops the start. */
static int look(backend_store_t *self, struct err *err)
{
    backend_conn_t *conn = pg_conn_new(self);
    int rc = pg_conn_open(conn, clock_mono_ms() + OPEN_LIMIT_MS, err);
    bool is_away = rc == -1 && conn->fault != PG_REFUSED;
    pg_conn_destroy(&conn);
    if (is_away)
        log_at(LEVEL_WARN, "store.away", NULL, LOG_TEXT("reason", err->text));
    return is_away ? 0 : rc;
}

static backend_store_t *open_store(const char *where, struct err *err)
{
    backend_store_t *self = calloc(1, sizeof *self);
    assert(self);
    pthread_mutex_init(&self->lock, NULL);
    self->days = pg_days_new();
    if (pg_target_init(&self->target, where, err) == -1 || look(self, err) == -1)
        close_store(&self);
    return self;
}

static backend_conn_t *connect_store(backend_store_t *store, bool is_writer, struct err *err)
{
    (void)is_writer;
    (void)err;
    return pg_conn_new(store);
}

static int probe(backend_conn_t *conn, bool is_deep, struct err *err)
{
    if (pg_conn_open(conn, clock_mono_ms() + PROBE_LIMIT_MS, err) == -1)
        return -1;
    pg_queue(conn,
             is_deep ? "UPDATE schema_version SET checked_at = extract(epoch FROM now())::bigint"
                     : "SELECT version FROM schema_version",
             NULL);
    return pg_round_done(conn, err);
}

/* A daemon that froze amid a COPY, or lost its way to the server there, leaves a session that waits
 * for more of it: no statement_timeout ends such a wait. Its keys would be in flight for all
 * others. Any daemon ends it, and long after it would have been late. */
static int end_stuck(backend_conn_t *conn, struct err *err)
{
    PGresult *result;
    if (pg_run(conn,
               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active'"
               " AND datname = current_database() AND usename = current_user"
               " AND wait_event = 'ClientRead' AND query LIKE 'COPY % FROM STDIN (FORMAT binary)'"
               " AND query_start < clock_timestamp() - interval '15 seconds'",
               NULL, &result, err) == -1)
        return -1;
    if (PQntuples(result) > 0)
        log_at(LEVEL_WARN, "store.stuck_ended", NULL, LOG_NUM("sessions", PQntuples(result)));
    PQclear(result);
    return 0;
}

static int sweep(backend_conn_t *conn, int max_rows, struct err *err)
{
    static const char *const sweeps[] = {
        "DELETE FROM idem WHERE ctid = ANY (ARRAY(SELECT ctid FROM idem"
        " WHERE expires_at <= extract(epoch FROM now())::bigint LIMIT $1 FOR UPDATE SKIP LOCKED))",
        "DELETE FROM rejects WHERE ctid = ANY (ARRAY(SELECT ctid FROM rejects"
        " WHERE expires_at <= extract(epoch FROM now())::bigint LIMIT $1 FOR UPDATE SKIP LOCKED))",
        /* All but the newest 10,000 of each project. */
        "DELETE FROM rejects WHERE id IN (SELECT r.id FROM projects p JOIN rejects r"
        " ON r.project = p.id WHERE r.id < (SELECT id FROM rejects WHERE project = p.id"
        " ORDER BY created_ns DESC, id DESC LIMIT 1 OFFSET 9999) LIMIT $1)",
        /* Of scorers that are gone, or of judges that answer nobody. */
        "DELETE FROM score_jobs WHERE ctid = ANY (ARRAY(SELECT ctid FROM score_jobs"
        " WHERE due_at < extract(epoch FROM now())::bigint - 7 * 86400 LIMIT $1"
        " FOR UPDATE SKIP LOCKED))",
    };
    struct pg_params params = {0};
    int most = 0;
    pg_bind_int(&params, max_rows);
    if (pg_conn_open(conn, clock_mono_ms() + SWEEP_LIMIT_MS, err) == -1 ||
        end_stuck(conn, err) == -1 ||
        pg_days_ahead(conn, (int64_t)(clock_wall_s() / DAY_S), err) == -1)
        return -1;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        if (pg_remove(conn, sweeps[i], &params, &most, err) == -1)
            return -1;
    return most;
}

const struct backend backend_pg = {
    .name = "postgres",
    .writers = 0,
    .open = open_store,
    .close = close_store,
    .connect = connect_store,
    .disconnect = pg_conn_destroy,
    .write = pg_write,
    .probe = probe,
    .sweep = sweep,
    .forget = pg_forget,
    .lease_bid = pg_lease_bid,
    .lease_renew = pg_lease_renew,
    .lease_give_up = pg_lease_give_up,
    .pass_mark = pg_pass_mark,
    .pass_cursor = pg_pass_cursor,
    .settle = pg_settle,
    .score_due = pg_score_due,
    .score_waiting = pg_score_waiting,
    .score_write = pg_score_write,
    .replica_seen = pg_replica_seen,
    .list = pg_list,
    .read_trace = pg_read_trace,
};
