// SPDX-License-Identifier: MIT
/*
 * The lock is one of the transaction, which a pooler in transaction mode keeps apart. Whoever
 * waited for it looks again and finds the work done.
 */
#include "store/pg_schema.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "store/pg_days.h"
#include "store/pg_migrations.h"

/* A step may build an index over everything that is stored. */
#define MIGRATION_LIMIT_MS 600000
#define CHECK_LIMIT_MS     10000

/* The version of the tables; 0 where there are none. */
static int read_version(backend_conn_t *conn, int64_t *version, struct err *err)
{
    PGresult *result;
    *version = 0;
    /* Not to_regclass: a session that found no such table remembers that while it waits. */
    if (pg_run(conn,
               "SELECT count(*) FROM pg_class WHERE relname = 'schema_version'"
               " AND pg_table_is_visible(oid)",
               NULL, &result, err) == -1)
        return -1;
    bool is_there = pg_int(result, 0, 0) != 0;
    PQclear(result);
    if (!is_there)
        return 0;
    if (pg_run(conn, "SELECT version, first_day FROM schema_version WHERE program = 'mcpd'", NULL,
               &result, err) == -1)
        return -1;
    bool is_ours = PQntuples(result) == 1;
    if (is_ours) {
        *version = pg_int(result, 0, 0);
        pg_days_begin(conn->store->days, pg_int(result, 0, 1));
    }
    PQclear(result);
    if (is_ours)
        return 0;
    conn->fault = PG_REFUSED;
    return err_set(err, "%s: the database belongs to another program", conn->store->target.label);
}

static int run_step(backend_conn_t *conn, size_t step, struct err *err)
{
    for (pg_migration statement = pg_migration_step(step); *statement; statement++) {
        pg_queue(conn, *statement, NULL);
        if (pg_round_done(conn, err) == -1)
            return -1;
    }
    return 0;
}

static int migrate_locked(backend_conn_t *conn, struct err *err)
{
    struct pg_params params = {0};
    int64_t version;
    pg_queue(conn, PG_BEGIN, NULL);
    pg_queue(conn, "SELECT pg_advisory_xact_lock(hashtext('mcpd.schema'))", NULL);
    if (pg_round_done(conn, err) == -1 || read_version(conn, &version, err) == -1)
        return -1;
    for (size_t step = (size_t)version; step < pg_migration_count(); step++)
        if (run_step(conn, step, err) == -1)
            return -1;
    pg_bind_int(&params, (int64_t)pg_migration_count());
    pg_queue(conn, "UPDATE schema_version SET version = $1 WHERE version < $1", &params);
    pg_queue(conn, "COMMIT", NULL);
    if (pg_round_done(conn, err) == -1)
        return -1;
    if ((size_t)version < pg_migration_count())
        log_at(LEVEL_INFO, "store.migrated", NULL, LOG_TEXT("store", conn->store->target.label),
               LOG_NUM("from", version), LOG_NUM("to", pg_migration_count()));
    return 0;
}

static int migrate(backend_conn_t *conn, struct err *err)
{
    conn->deadline_ms = clock_mono_ms() + MIGRATION_LIMIT_MS;
    if (migrate_locked(conn, err) == 0)
        return 0;
    pg_rollback(conn);
    return -1;
}

/* Of another encoding most events would be refused, or their lengths counted wrongly. */
static int check_encoding(backend_conn_t *conn, struct err *err)
{
    PGresult *result;
    if (pg_run(conn,
               "SELECT current_setting('server_encoding'), current_setting('client_encoding')",
               NULL, &result, err) == -1)
        return -1;
    struct slice database = pg_value(result, 0, 0).bytes;
    struct slice own = pg_value(result, 0, 1).bytes;
    bool is_good = slice_equals(database, "UTF8") && slice_equals(own, "UTF8");
    if (!is_good) {
        conn->fault = PG_REFUSED;
        err_set(err,
                "%s: the encoding of the database is " SLICE_FORMAT
                ", of the connection " SLICE_FORMAT "; both must be UTF8",
                conn->store->target.label, SLICE_ARGS(database), SLICE_ARGS(own));
    }
    PQclear(result);
    return is_good ? 0 : -1;
}

/* A server that does not sync its log loses at a power cut what was answered with 2xx. */
static void check_settings(backend_conn_t *conn)
{
    PGresult *result;
    if (pg_run(conn,
               "SELECT (current_setting('fsync') = 'on')::int,"
               " (current_setting('full_page_writes') = 'on')::int",
               NULL, &result, NULL) == -1)
        return;
    if (!pg_int(result, 0, 0) || !pg_int(result, 0, 1))
        log_at(LEVEL_ERROR, "store.not_durable", NULL, LOG_TEXT("store", conn->store->target.label),
               LOG_TEXT("reason", "the server runs with fsync or full_page_writes off: a power cut "
                                  "loses what was answered with 2xx"));
    PQclear(result);
}

static int ensure(backend_conn_t *conn, struct err *err)
{
    int64_t version;
    int64_t known = (int64_t)pg_migration_count();
    conn->deadline_ms = clock_mono_ms() + CHECK_LIMIT_MS;
    if (check_encoding(conn, err) == -1 || read_version(conn, &version, err) == -1)
        return -1;
    if (version < known && (migrate(conn, err) == -1 || read_version(conn, &version, err) == -1))
        return -1;
    if (version > known) {
        conn->fault = PG_REFUSED;
        return err_set(err, "%s: the tables have version %lld, this program knows %lld",
                       conn->store->target.label, (long long)version, (long long)known);
    }
    check_settings(conn);
    return 0;
}

int pg_schema_ensure(backend_conn_t *conn, struct err *err)
{
    backend_store_t *store = conn->store;
    uint64_t deadline_ms = conn->deadline_ms;
    pthread_mutex_lock(&store->lock);
    bool is_sure = store->is_schema_sure;
    unsigned look = store->schema_looks;
    pthread_mutex_unlock(&store->lock);
    if (is_sure && conn->schema_look == look)
        return 0;
    /* What the connection knows may be of tables that are gone. */
    memset(conn->projects, 0, sizeof conn->projects);
    conn->schema_look = look;
    if (is_sure)
        return 0;
    int rc = ensure(conn, err);
    conn->deadline_ms = deadline_ms;
    if (rc == 0) {
        pthread_mutex_lock(&store->lock);
        store->is_schema_sure = true;
        conn->schema_look = ++store->schema_looks;
        pthread_mutex_unlock(&store->lock);
    }
    return rc;
}
