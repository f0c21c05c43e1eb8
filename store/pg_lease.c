// SPDX-License-Identifier: MIT
/*
 * Time is clock_timestamp(), the database's own, as now() stands still within a transaction. A
 * statement that waits for the row looks at it again when it has it, so that of any number of
 * bidders one wins.
 *
 * Limits are set in the transaction they are for (set_config with is_local), which is safe behind a
 * pooler. They are the database's: a client that gives up, or is frozen, leaves nothing behind that
 * could hold the row for longer, or win it late.
 */
#include "store/pg_lease.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"

#define SERVER  "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
#define LEFT_MS "greatest(0, extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint"

/* What a call answers: whether it went through, then the row as it is, also for those refused. */
#define CALL(name, statement)                                                                   \
    "WITH " name " AS (" statement " RETURNING fence, expires_at)"                              \
    " SELECT 1::bigint, fence, " LEFT_MS ", " SERVER " FROM " name                              \
    " UNION ALL SELECT 0, fence, CASE WHEN holder IS NULL THEN 0 ELSE " LEFT_MS " END, " SERVER \
    " FROM lease WHERE name = 'live' AND NOT EXISTS (SELECT FROM " name ")"

/* $1 holder, $2 fence, $3 ttl. The holder's own bid wins, too: it follows one whose answer was
 * lost, or a leadership that ended. */
static const char bid_sql[] = CALL(
    "bid", "INSERT INTO lease AS l (name, holder, fence, acquired_at, renewed_at, expires_at)"
           " VALUES ('live', $1, $2 + 1, clock_timestamp(), clock_timestamp(),"
           " clock_timestamp() + $3 * interval '1 millisecond') ON CONFLICT (name) DO UPDATE"
           " SET holder = $1, fence = greatest(l.fence, $2) + 1, acquired_at = clock_timestamp(),"
           " renewed_at = clock_timestamp(),"
           " expires_at = clock_timestamp() + $3 * interval '1 millisecond'"
           " WHERE l.holder IS NULL OR l.holder = $1 OR l.expires_at <= clock_timestamp()");
static const char renew_sql[] =
    CALL("renewal", "UPDATE lease SET renewed_at = clock_timestamp(),"
                    " expires_at = clock_timestamp() + $3 * interval '1 millisecond'"
                    " WHERE name = 'live' AND holder = $1 AND fence = $2"
                    " AND expires_at > clock_timestamp()");
static const char give_up_sql[] = CALL(
    "gift", "UPDATE lease SET holder = NULL, expires_at = clock_timestamp() + $3 * interval '0'"
            " WHERE name = 'live' AND holder = $1 AND fence = $2");
static const char check_sql[] =
    "SELECT fence FROM lease WHERE name = 'live' AND holder = $1 AND fence = $2"
    " AND expires_at > clock_timestamp() FOR SHARE";

/* Begins a transaction in which the database itself lets no statement, no wait for a lock and no
 * pause last longer than the limit. Queued, not run. */
static void queue_begin(backend_conn_t *conn, uint64_t limit_ms)
{
    struct pg_params params = {0};
    char limit[24];
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)(limit_ms > 0 ? limit_ms : 1));
    pg_bind_text(&params, limit);
    pg_queue(conn, PG_BEGIN, NULL);
    pg_queue(conn,
             "SELECT set_config('idle_in_transaction_session_timeout', $1, true),"
             " set_config('lock_timeout', $1, true), set_config('statement_timeout', $1, true)",
             &params);
}

static void bind_call(struct pg_params *params, const struct lease_call *call)
{
    pg_bind_text(params, call->holder);
    pg_bind_int(params, call->fence);
    pg_bind_int(params, (int64_t)call->ttl_ms);
}

static enum backend_status run_call(backend_conn_t *conn, const char *sql,
                                    const struct lease_call *call, struct lease_row *row,
                                    struct err *err)
{
    enum { BEGIN, LIMITS, CALL_ITSELF, COMMIT, STATEMENTS };
    PGresult *results[STATEMENTS];
    struct pg_params params = {0};
    *row = (struct lease_row){0};
    if (pg_conn_open(conn, call->deadline_ms, err) == -1)
        return BACKEND_AWAY;
    queue_begin(conn, clock_until_ms(call->deadline_ms, clock_mono_ms()));
    bind_call(&params, call);
    pg_queue(conn, sql, &params);
    pg_queue(conn, "COMMIT", NULL);
    if (pg_round(conn, results, STATEMENTS, err) == -1) {
        pg_rollback(conn);
        return BACKEND_AWAY;
    }
    enum backend_status status = BACKEND_FENCED;
    /* No row: another's first bid has just won, which this one's snapshot does not show. */
    if (PQntuples(results[CALL_ITSELF]) > 0) {
        status = pg_int(results[CALL_ITSELF], 0, 0) ? BACKEND_OK : BACKEND_FENCED;
        row->fence = pg_int(results[CALL_ITSELF], 0, 1);
        row->left_ms = (uint64_t)pg_int(results[CALL_ITSELF], 0, 2);
        row->server = pg_int(results[CALL_ITSELF], 0, 3);
    }
    pg_clear(results, STATEMENTS);
    return status;
}

enum backend_status pg_lease_bid(backend_conn_t *conn, const struct lease_call *call,
                                 struct lease_row *row, struct err *err)
{
    return run_call(conn, bid_sql, call, row, err);
}

enum backend_status pg_lease_renew(backend_conn_t *conn, const struct lease_call *call,
                                   struct lease_row *row, struct err *err)
{
    return run_call(conn, renew_sql, call, row, err);
}

enum backend_status pg_lease_give_up(backend_conn_t *conn, const struct lease_call *call,
                                     struct err *err)
{
    struct lease_row row;
    return run_call(conn, give_up_sql, call, &row, err);
}

enum backend_status pg_fenced_begin(backend_conn_t *conn, const struct lease_claim *claim,
                                    struct err *err)
{
    enum { BEGIN, LIMITS, CHECK, STATEMENTS };
    PGresult *results[STATEMENTS];
    struct pg_params params = {0};
    if (pg_conn_open(conn, clock_mono_ms() + 3 * claim->limit_ms, err) == -1)
        return BACKEND_AWAY;
    queue_begin(conn, claim->limit_ms);
    pg_bind_text(&params, claim->holder);
    pg_bind_int(&params, claim->fence);
    pg_queue(conn, check_sql, &params);
    if (pg_round(conn, results, STATEMENTS, err) == -1) {
        pg_rollback(conn);
        return BACKEND_AWAY;
    }
    bool is_held = PQntuples(results[CHECK]) > 0;
    pg_clear(results, STATEMENTS);
    if (is_held)
        return BACKEND_OK;
    pg_rollback(conn);
    err_set(err, "not the leader any more");
    return BACKEND_FENCED;
}

enum backend_status pg_fenced_commit(backend_conn_t *conn, struct err *err)
{
    pg_queue(conn, "COMMIT", NULL);
    if (pg_round_done(conn, err) == 0)
        return BACKEND_OK;
    pg_rollback(conn);
    return BACKEND_AWAY;
}

enum backend_status pg_pass_mark(backend_conn_t *conn, const struct lease_claim *claim,
                                 const char *step, struct slice cursor, struct err *err)
{
    struct pg_params params = {0};
    struct list_value text = {.type = LIST_TEXT, .bytes = cursor};
    enum backend_status status = pg_fenced_begin(conn, claim, err);
    if (status != BACKEND_OK)
        return status;
    pg_bind_text(&params, step);
    pg_bind_value(&params, &text);
    pg_bind_int(&params, claim->fence);
    pg_queue(conn,
             "INSERT INTO passes (step, cursor, fence, marked_at)"
             " VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (step) DO UPDATE"
             " SET cursor = excluded.cursor, fence = excluded.fence,"
             " marked_at = excluded.marked_at",
             &params);
    return pg_fenced_commit(conn, err);
}

#define CALL_LIMIT_MS 3000

int pg_pass_cursor(backend_conn_t *conn, const char *step, struct buf *cursor, struct err *err)
{
    PGresult *result;
    struct pg_params params = {0};
    int rc = 0;
    pg_bind_text(&params, step);
    if (pg_conn_open(conn, clock_mono_ms() + CALL_LIMIT_MS, err) == -1 ||
        pg_run(conn, "SELECT cursor FROM passes WHERE step = $1", &params, &result, err) == -1)
        return -1;
    if (PQntuples(result) > 0) {
        struct slice text = pg_value(result, 0, 0).bytes;
        if (buf_add(cursor, text.data, text.len) == -1)
            rc = err_set(err, "the cursor of %s is too long", step);
    }
    PQclear(result);
    return rc;
}

int pg_replica_seen(backend_conn_t *conn, const struct replica *replica, int *configs,
                    struct err *err)
{
    enum { SEEN, FORGOTTEN, CONFIGS, STATEMENTS };
    PGresult *results[STATEMENTS];
    struct pg_params params = {0};
    struct pg_params recent = {0};
    pg_bind_text(&params, replica->id);
    pg_bind_text(&params, replica->holder);
    pg_bind_text(&params, replica->url);
    pg_bind_text(&params, replica->version);
    pg_bind_text(&params, replica->config_hash);
    pg_bind_int(&recent, (int64_t)replica->recent_ms);
    if (pg_conn_open(conn, clock_mono_ms() + CALL_LIMIT_MS, err) == -1)
        return -1;
    pg_queue(conn,
             "INSERT INTO replicas (id, holder, url, version, config_hash, seen_at)"
             " VALUES ($1, $2, $3, $4, $5, clock_timestamp()) ON CONFLICT (id) DO UPDATE"
             " SET holder = excluded.holder, url = excluded.url, version = excluded.version,"
             " config_hash = excluded.config_hash, seen_at = excluded.seen_at",
             &params);
    pg_queue(conn, "DELETE FROM replicas WHERE seen_at < clock_timestamp() - interval '1 day'",
             NULL);
    pg_queue(conn,
             "SELECT count(DISTINCT config_hash) FROM replicas"
             " WHERE seen_at > clock_timestamp() - $1 * interval '1 millisecond'",
             &recent);
    if (pg_round(conn, results, STATEMENTS, err) == -1)
        return -1;
    *configs = (int)pg_int(results[CONFIGS], 0, 0);
    pg_clear(results, STATEMENTS);
    return 0;
}
