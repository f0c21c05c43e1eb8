// SPDX-License-Identifier: MIT
/*
 * One file, one version. Times are nanoseconds since 1970 (_ns) or seconds (expires_at, last_seen,
 * by the database's own clock); a day is start_ns / 86400e9 of the row itself, never of its
 * arrival. Projects are numbers in every other table.
 */
#include "store/sqlite_schema.h"

#define SCHEMA_VERSION 1
/* "mcpd", in the file's header. */
#define APPLICATION_ID 0x6d637064

#define STRINGIFY(x) #x
#define TEXT_OF(x)   STRINGIFY(x)

static const char tables[] =
    "CREATE TABLE schema_version (version INTEGER NOT NULL, checked_at INTEGER NOT NULL);"
    "INSERT INTO schema_version VALUES (" TEXT_OF(
        SCHEMA_VERSION) ", unixepoch());"
                        "PRAGMA application_id = " TEXT_OF(
                            APPLICATION_ID) ";"

                                            "CREATE TABLE projects ("
                                            " id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
                                            "retention_days INTEGER);"

                                            "CREATE TABLE idem ("
                                            " project INTEGER NOT NULL, key BLOB NOT NULL, body "
                                            "BLOB NOT NULL, accepted INTEGER NOT NULL,"
                                            " duplicate INTEGER NOT NULL, rejected INTEGER NOT "
                                            "NULL, expires_at INTEGER NOT NULL,"
                                            " PRIMARY KEY (project, key)) WITHOUT ROWID;"
                                            "CREATE INDEX idem_expiry ON idem (expires_at);"

                                            "CREATE TABLE spans ("
                                            " seq INTEGER PRIMARY KEY, project INTEGER NOT NULL, "
                                            "day INTEGER NOT NULL,"
                                            " trace_id BLOB NOT NULL, span_id BLOB NOT NULL, "
                                            "parent_id BLOB, name TEXT NOT NULL,"
                                            " kind INTEGER NOT NULL, status INTEGER NOT NULL, "
                                            "error_type TEXT, start_ns INTEGER NOT NULL,"
                                            " end_ns INTEGER, op TEXT, provider TEXT, model TEXT, "
                                            "in_tok INTEGER, out_tok INTEGER,"
                                            " cache_tok INTEGER, reason_tok INTEGER, cost_micro "
                                            "INTEGER, tool TEXT, agent TEXT,"
                                            " session TEXT, user_id TEXT, mcp_method TEXT, "
                                            "mcp_session TEXT, service TEXT, env TEXT,"
                                            " attrs TEXT NOT NULL, content TEXT, UNIQUE (project, "
                                            "day, trace_id, span_id));"

                                            "CREATE TABLE traces ("
                                            " project INTEGER NOT NULL, trace_id BLOB NOT NULL, "
                                            "session TEXT, root_name TEXT,"
                                            " start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, "
                                            "spans INTEGER NOT NULL,"
                                            " errors INTEGER NOT NULL, in_tok INTEGER NOT NULL, "
                                            "out_tok INTEGER NOT NULL,"
                                            " cost_micro INTEGER, last_seen INTEGER NOT NULL, "
                                            "state TEXT NOT NULL DEFAULT 'open',"
                                            " first_seen INTEGER NOT NULL DEFAULT (unixepoch()),"
                                            " root_ended INTEGER NOT NULL DEFAULT 0,"
                                            " decision TEXT, PRIMARY KEY (project, trace_id)) "
                                            "WITHOUT ROWID;"
                                            "CREATE INDEX traces_newest ON traces (project, "
                                            "start_ns DESC, trace_id DESC);"
                                            "CREATE INDEX traces_session ON traces (project, "
                                            "session, start_ns DESC)"
                                            " WHERE session IS NOT NULL;"
                                            "CREATE INDEX traces_open ON traces (first_seen)"
                                            " WHERE state = 'open';"
                                            "CREATE INDEX traces_ended ON traces (first_seen)"
                                            " WHERE state = 'open' AND root_ended = 1;"

                                            "CREATE TABLE rejects ("
                                            " id INTEGER PRIMARY KEY, project INTEGER NOT NULL, "
                                            "key BLOB NOT NULL,"
                                            " position INTEGER NOT NULL, event_id TEXT, code TEXT "
                                            "NOT NULL, message TEXT NOT NULL,"
                                            " event TEXT, event_form TEXT, event_bytes INTEGER,"
                                            " created_ns INTEGER NOT NULL, expires_at INTEGER NOT "
                                            "NULL);"
                                            "CREATE INDEX rejects_expiry ON rejects (expires_at);"
                                            "CREATE INDEX rejects_newest ON rejects (project, "
                                            "created_ns DESC, id DESC);"

                                            "CREATE TABLE logs ("
                                            " seq INTEGER PRIMARY KEY, project INTEGER NOT NULL, "
                                            "day INTEGER NOT NULL, id BLOB NOT NULL,"
                                            " ts_ns INTEGER NOT NULL, observed_ns INTEGER, "
                                            "severity INTEGER, severity_text TEXT,"
                                            " event_name TEXT, body TEXT, body_is_json INTEGER NOT "
                                            "NULL, trace_id BLOB, span_id BLOB,"
                                            " op TEXT, model TEXT, tool TEXT, agent TEXT, session "
                                            "TEXT, user_id TEXT, service TEXT,"
                                            " env TEXT, attrs TEXT NOT NULL, content TEXT, UNIQUE "
                                            "(project, day, id));"
                                            "CREATE INDEX logs_newest ON logs (project, ts_ns "
                                            "DESC, seq DESC);"
                                            "CREATE INDEX logs_trace ON logs (project, trace_id) "
                                            "WHERE trace_id IS NOT NULL;"

                                            "CREATE TABLE metrics ("
                                            " seq INTEGER PRIMARY KEY, project INTEGER NOT NULL, "
                                            "day INTEGER NOT NULL, id BLOB NOT NULL,"
                                            " ts_ns INTEGER NOT NULL, start_ns INTEGER, name TEXT "
                                            "NOT NULL, kind TEXT NOT NULL, unit TEXT,"
                                            " temporality TEXT, is_monotonic INTEGER, value REAL, "
                                            "value_int INTEGER, point_count INTEGER,"
                                            " op TEXT, provider TEXT, model TEXT, tool TEXT, agent "
                                            "TEXT, service TEXT, env TEXT,"
                                            " data TEXT NOT NULL, attrs TEXT NOT NULL, UNIQUE "
                                            "(project, day, id));"
                                            "CREATE INDEX metrics_newest ON metrics (project, "
                                            "ts_ns DESC, seq DESC);"
                                            "CREATE INDEX metrics_name ON metrics (project, name, "
                                            "ts_ns DESC, seq DESC);"

                                            "CREATE TABLE scores ("
                                            " project INTEGER NOT NULL, id TEXT NOT NULL, name "
                                            "TEXT NOT NULL, type TEXT NOT NULL, num REAL,"
                                            " txt TEXT, source TEXT, comment TEXT, scorer TEXT, "
                                            "version TEXT, trace_id BLOB, span_id BLOB,"
                                            " session TEXT, run TEXT, error TEXT, created_ns "
                                            "INTEGER NOT NULL,"
                                            " PRIMARY KEY (project, id)) WITHOUT ROWID;"
                                            "CREATE INDEX scores_newest ON scores (project, "
                                            "created_ns DESC, id DESC);"
                                            "CREATE INDEX scores_trace ON scores (project, "
                                            "trace_id) WHERE trace_id IS NOT NULL;"

                                            "CREATE TABLE runs ("
                                            " project INTEGER NOT NULL, id TEXT NOT NULL, state "
                                            "TEXT NOT NULL, trace_id BLOB,"
                                            " start_ns INTEGER, end_ns INTEGER, agent TEXT, "
                                            "session TEXT, service TEXT, env TEXT,"
                                            " attrs TEXT NOT NULL, seen_ns INTEGER NOT NULL, "
                                            "PRIMARY KEY (project, id)) WITHOUT ROWID;"
                                            "CREATE INDEX runs_newest ON runs (project, seen_ns "
                                            "DESC, id DESC);"

                                            "CREATE TABLE score_jobs ("
                                            " project INTEGER NOT NULL, trace_id BLOB NOT NULL, "
                                            "scorer TEXT NOT NULL,"
                                            " tries INTEGER NOT NULL DEFAULT 0, due_at INTEGER NOT "
                                            "NULL DEFAULT (unixepoch()),"
                                            " PRIMARY KEY (project, trace_id, scorer)) WITHOUT "
                                            "ROWID;"
                                            "CREATE INDEX score_jobs_due ON score_jobs (scorer, "
                                            "due_at);"

                                            "CREATE TABLE lease ("
                                            " name TEXT PRIMARY KEY, holder TEXT, fence INTEGER "
                                            "NOT "
                                            "NULL, acquired_ns INTEGER NOT NULL,"
                                            " renewed_ns INTEGER NOT NULL, expires_ns INTEGER NOT "
                                            "NULL);"
                                            "CREATE TABLE passes ("
                                            " step TEXT PRIMARY KEY, cursor TEXT NOT NULL, fence "
                                            "INTEGER NOT NULL, marked_ns INTEGER NOT NULL);"
                                            "CREATE TABLE replicas ("
                                            " id TEXT PRIMARY KEY, holder TEXT NOT NULL, url TEXT "
                                            "NOT NULL, version TEXT NOT NULL,"
                                            " config_hash TEXT NOT NULL, seen_ns INTEGER NOT NULL);"
                                            "CREATE VIEW replica_list AS"
                                            " SELECT r.id, r.seen_ns, iif(l.fence IS NULL, "
                                            "'follower', 'leader') AS role, l.fence,"
                                            " r.url, r.version, r.config_hash FROM replicas r"
                                            " LEFT JOIN lease l ON l.holder = r.holder AND "
                                            "l.expires_ns > " SQLITE_NOW_NS ";";

/* One number that a query gives, or -1 where it gives none. */
static int read_number(backend_conn_t *conn, const char *sql, int64_t *number, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    *number = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    bool is_read = rc == SQLITE_ROW || rc == SQLITE_DONE;
    if (!is_read)
        sqlite_conn_error(conn, "cannot read the data file", err);
    sqlite3_finalize(statement);
    return is_read ? 0 : -1;
}

static int create_tables(backend_conn_t *conn, struct err *err)
{
    if (sqlite3_exec(conn->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(conn->db, tables, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(conn->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    sqlite_conn_error(conn, "cannot create the tables", err);
    sqlite_conn_rollback(conn);
    return -1;
}

int sqlite_schema_ensure(backend_conn_t *conn, struct err *err)
{
    int64_t table_count;
    int64_t application;
    int64_t version;
    if (read_number(conn, "SELECT count(*) FROM sqlite_master", &table_count, err) == -1 ||
        read_number(conn, "PRAGMA application_id", &application, err) == -1)
        return -1;
    if (table_count == 0)
        return create_tables(conn, err);
    if (application != APPLICATION_ID)
        return err_set(err, "the data file is a database of another program");
    if (read_number(conn, "SELECT version FROM schema_version", &version, err) == -1)
        return -1;
    if (version != SCHEMA_VERSION)
        return err_set(err, "the data file has version %lld, this program writes version %d",
                       (long long)version, SCHEMA_VERSION);
    return 0;
}
