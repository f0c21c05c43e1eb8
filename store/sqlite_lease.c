// SPDX-License-Identifier: MIT
/*
 * The lock on the data file keeps every other process away, so the row is here for its fence, which
 * rises with each start, and so that the code above need not know which store it runs on. A renewal
 * also counts when the row has expired: nobody else could have taken it.
 */
#include "common/clock.h"
#include "store/sqlite_conn.h"

/* For a fenced transaction. The claim's limit is there for bidders that wait for the row, of which
 * there are none; ingest, which never rests under load, makes way only now and then. */
#define FILE_WAIT_MS 5000

static void be_patient(backend_conn_t *self, uint64_t limit_ms)
{
    sqlite3_busy_timeout(self->db, (int)clock_sooner_ms(limit_ms, INT32_MAX));
}

/* Runs a statement on holder, fence and ttl. */
static int run_call(backend_conn_t *self, enum sqlite_statement id, const struct lease_call *call,
                    struct err *err)
{
    struct sqlite_call statement;
    be_patient(self, clock_until_ms(call->deadline_ms, clock_mono_ms()));
    if (sqlite_conn_prepare(self, id, &statement, err) == -1)
        return -1;
    sqlite_bind_text(&statement, call->holder);
    sqlite_bind_int(&statement, call->fence);
    if (sqlite3_bind_parameter_count(statement.statement) > 2)
        sqlite_bind_int(&statement, (int64_t)call->ttl_ms);
    return sqlite_conn_finish(self, &statement, err) == SQLITE_OK ? 0 : -1;
}

static enum backend_status read_row(backend_conn_t *self, bool is_ours, struct lease_row *row,
                                    struct err *err)
{
    struct sqlite_call statement;
    *row = (struct lease_row){0};
    if (sqlite_conn_prepare(self, STATEMENT_LEASE_READ, &statement, err) == -1)
        return BACKEND_AWAY;
    int rc = sqlite_conn_row(self, &statement, err);
    if (rc == SQLITE_ROW) {
        row->fence = sqlite3_column_int64(statement.statement, 0);
        row->left_ms = (uint64_t)sqlite3_column_int64(statement.statement, 1);
    }
    sqlite3_reset(statement.statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return BACKEND_AWAY;
    return is_ours ? BACKEND_OK : BACKEND_FENCED;
}

enum backend_status sqlite_lease_bid(backend_conn_t *conn, const struct lease_call *call,
                                     struct lease_row *row, struct err *err)
{
    if (run_call(conn, STATEMENT_LEASE_BID, call, err) == -1)
        return BACKEND_AWAY;
    return read_row(conn, true, row, err);
}

enum backend_status sqlite_lease_renew(backend_conn_t *conn, const struct lease_call *call,
                                       struct lease_row *row, struct err *err)
{
    if (run_call(conn, STATEMENT_LEASE_RENEW, call, err) == -1)
        return BACKEND_AWAY;
    return read_row(conn, sqlite3_changes(conn->db) > 0, row, err);
}

enum backend_status sqlite_lease_give_up(backend_conn_t *conn, const struct lease_call *call,
                                         struct err *err)
{
    if (run_call(conn, STATEMENT_LEASE_GIVE_UP, call, err) == -1)
        return BACKEND_AWAY;
    return sqlite3_changes(conn->db) > 0 ? BACKEND_OK : BACKEND_FENCED;
}

static enum backend_status check_claim(backend_conn_t *self, const struct lease_claim *claim,
                                       struct err *err)
{
    struct sqlite_call statement;
    if (sqlite_conn_prepare(self, STATEMENT_LEASE_CHECK, &statement, err) == -1)
        return BACKEND_AWAY;
    sqlite_bind_text(&statement, claim->holder);
    sqlite_bind_int(&statement, claim->fence);
    int rc = sqlite_conn_row(self, &statement, err);
    sqlite3_reset(statement.statement);
    if (rc == SQLITE_DONE)
        err_set(err, "not the leader any more");
    return rc == SQLITE_ROW ? BACKEND_OK : rc == SQLITE_DONE ? BACKEND_FENCED : BACKEND_AWAY;
}

enum backend_status sqlite_fenced_begin(backend_conn_t *self, const struct lease_claim *claim,
                                        struct err *err)
{
    be_patient(self, FILE_WAIT_MS);
    if (sqlite_conn_run(self, STATEMENT_BEGIN_WRITE, err) != SQLITE_OK)
        return BACKEND_AWAY;
    enum backend_status status = check_claim(self, claim, err);
    if (status != BACKEND_OK)
        sqlite_conn_rollback(self);
    return status;
}

enum backend_status sqlite_commit(backend_conn_t *self, struct err *err)
{
    if (sqlite_conn_run(self, STATEMENT_COMMIT, err) == SQLITE_OK)
        return BACKEND_OK;
    sqlite_conn_rollback(self);
    return BACKEND_AWAY;
}

enum backend_status sqlite_pass_mark(backend_conn_t *conn, const struct lease_claim *claim,
                                     const char *step, struct slice cursor, struct err *err)
{
    struct sqlite_call statement;
    enum backend_status status = sqlite_fenced_begin(conn, claim, err);
    if (status != BACKEND_OK)
        return status;
    if (sqlite_conn_prepare(conn, STATEMENT_PASS_MARK, &statement, err) == 0) {
        sqlite_bind_text(&statement, step);
        sqlite_bind_required(&statement, cursor);
        sqlite_bind_int(&statement, claim->fence);
        if (sqlite_conn_finish(conn, &statement, err) == SQLITE_OK)
            return sqlite_commit(conn, err);
    }
    sqlite_conn_rollback(conn);
    return BACKEND_AWAY;
}

int sqlite_pass_cursor(backend_conn_t *conn, const char *step, struct buf *cursor, struct err *err)
{
    struct sqlite_call statement;
    if (sqlite_conn_prepare(conn, STATEMENT_PASS_CURSOR, &statement, err) == -1)
        return -1;
    sqlite_bind_text(&statement, step);
    int rc = sqlite_conn_row(conn, &statement, err);
    int result = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
    if (rc == SQLITE_ROW && buf_add(cursor, sqlite3_column_text(statement.statement, 0),
                                    (size_t)sqlite3_column_bytes(statement.statement, 0)) == -1)
        result = err_set(err, "the cursor of %s is too long", step);
    sqlite3_reset(statement.statement);
    return result;
}

static int count_configs(backend_conn_t *conn, uint64_t recent_ms, int *configs, struct err *err)
{
    struct sqlite_call statement;
    if (sqlite_conn_prepare(conn, STATEMENT_REPLICA_CONFIGS, &statement, err) == -1)
        return -1;
    sqlite_bind_int(&statement, (int64_t)recent_ms);
    int rc = sqlite_conn_row(conn, &statement, err);
    if (rc == SQLITE_ROW)
        *configs = sqlite3_column_int(statement.statement, 0);
    sqlite3_reset(statement.statement);
    return rc == SQLITE_ROW ? 0 : -1;
}

int sqlite_replica_seen(backend_conn_t *conn, const struct replica *replica, int *configs,
                        struct err *err)
{
    struct sqlite_call statement;
    if (sqlite_conn_prepare(conn, STATEMENT_REPLICA_SEEN, &statement, err) == -1)
        return -1;
    sqlite_bind_text(&statement, replica->id);
    sqlite_bind_text(&statement, replica->holder);
    sqlite_bind_text(&statement, replica->url);
    sqlite_bind_text(&statement, replica->version);
    sqlite_bind_text(&statement, replica->config_hash);
    if (sqlite_conn_finish(conn, &statement, err) != SQLITE_OK ||
        sqlite_conn_run(conn, STATEMENT_REPLICAS_FORGET, err) != SQLITE_OK)
        return -1;
    return count_configs(conn, replica->recent_ms, configs, err);
}
