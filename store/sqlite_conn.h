// SPDX-License-Identifier: MIT
/*
 * sqlite_conn: one connection to the SQLite store with its prepared statements; what the writing
 * and the reading half of the backend stand on. One thread at a time.
 */
#ifndef MCPD_STORE_SQLITE_CONN_H
#define MCPD_STORE_SQLITE_CONN_H

#include <sqlite3.h>
#include <sys/types.h>

#include "store/backend.h"
#include "store/rollup.h"
#include "store/rows.h"

/* The database's clock, in nanoseconds since 1970 by whole milliseconds. */
#define SQLITE_NOW_NS "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000000)"

enum sqlite_statement {
#define STATEMENT(id, sql) STATEMENT_##id,
#include "store/sqlite_statements.def"
#undef STATEMENT
    STATEMENT_COUNT
};

struct backend_conn {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT]; /* prepared when first used */
    struct rollup rollup;                      /* of the transaction under way */
    uint64_t deadline_ms;                      /* of the reading under way; 0: none */
    ino_t log_inode;                           /* of the write-ahead log; 0: not seen yet */
};

/* Opens the file, which exists, and changes nothing in it. Null with the reason. */
backend_conn_t *sqlite_conn_new(const char *path, struct err *err) MUST_USE;
/* Sets what holds for every connection to a store. -1 with the reason. */
int sqlite_conn_set_up(backend_conn_t *self, bool is_writer, struct err *err) MUST_USE;
/* Are the open file and its log still those that their paths name? What is written to another one
 * would be gone with the process. 0, or -1 with the reason. */
int sqlite_conn_in_place(backend_conn_t *self, struct err *err) MUST_USE;
void sqlite_conn_destroy(backend_conn_t **self_p);

/* A statement that is given its values, in the order of its parameters. The values must live until
 * it was reset. */
struct sqlite_call {
    sqlite3_stmt *statement;
    int next; /* parameter */
    int rc;   /* the first failure */
};

/* The statement, reset and ready for its values. -1 with the reason. */
int sqlite_conn_prepare(backend_conn_t *self, enum sqlite_statement id, struct sqlite_call *call,
                        struct err *err) MUST_USE;
void sqlite_bind_int(struct sqlite_call *call, int64_t value);
void sqlite_bind_null(struct sqlite_call *call);
void sqlite_bind_real(struct sqlite_call *call, double value);
void sqlite_bind_blob(struct sqlite_call *call, const uint8_t *bytes, size_t len);
void sqlite_bind_slice(struct sqlite_call *call, struct slice text);    /* empty: NULL */
void sqlite_bind_required(struct sqlite_call *call, struct slice text); /* empty: '' */
void sqlite_bind_text(struct sqlite_call *call, const char *text);      /* null: NULL */
void sqlite_bind_value(struct sqlite_call *call, const struct list_value *value);
void sqlite_bind_row(struct sqlite_call *call, const struct row *row);

/* Steps a statement that has its values and gives no rows, and resets it. Returns SQLite's code,
 * SQLITE_OK for done, else with the reason. */
int sqlite_conn_finish(backend_conn_t *self, struct sqlite_call *call, struct err *err) MUST_USE;
/* Steps one that gives at most one row: SQLITE_ROW, SQLITE_DONE or a failure with the reason. */
int sqlite_conn_row(backend_conn_t *self, struct sqlite_call *call, struct err *err) MUST_USE;
/* Runs a statement that gives no rows and has no values; as finish. */
int sqlite_conn_run(backend_conn_t *self, enum sqlite_statement id, struct err *err) MUST_USE;
/* Ends whatever transaction is open. */
void sqlite_conn_rollback(backend_conn_t *self);
/* Writes SQLite's own words for the last failure. -1. */
int sqlite_conn_error(backend_conn_t *self, const char *doing, struct err *err);

/* Begins a fenced transaction, see struct lease_claim, and waits some seconds for the file.
 * BACKEND_OK: steps of the transaction may follow, then its commit, or a rollback. */
enum backend_status sqlite_fenced_begin(backend_conn_t *self, const struct lease_claim *claim,
                                        struct err *err) MUST_USE;
/* BACKEND_OK or BACKEND_AWAY; the transaction is over either way. */
enum backend_status sqlite_commit(backend_conn_t *self, struct err *err) MUST_USE;

/* The backend's functions, see backend.h. */
enum backend_status sqlite_write(backend_conn_t *conn, struct backend_request *const *requests,
                                 size_t count, struct err *err);
int sqlite_list(backend_conn_t *conn, const struct list_query *query, row_sink *sink, void *arg,
                struct err *err);
int sqlite_read_trace(backend_conn_t *conn, const struct trace_key *key, row_sink *trace_sink,
                      row_sink *span_sink, void *arg, struct err *err);
enum backend_status sqlite_lease_bid(backend_conn_t *conn, const struct lease_call *call,
                                     struct lease_row *row, struct err *err);
enum backend_status sqlite_lease_renew(backend_conn_t *conn, const struct lease_call *call,
                                       struct lease_row *row, struct err *err);
enum backend_status sqlite_lease_give_up(backend_conn_t *conn, const struct lease_call *call,
                                         struct err *err);
enum backend_status sqlite_pass_mark(backend_conn_t *conn, const struct lease_claim *claim,
                                     const char *step, struct slice cursor, struct err *err);
int sqlite_pass_cursor(backend_conn_t *conn, const char *step, struct buf *cursor, struct err *err);
enum backend_status sqlite_settle(backend_conn_t *conn, const struct lease_claim *claim,
                                  const struct settle_call *call, size_t *settled, struct err *err);
int sqlite_score_due(backend_conn_t *conn, const char *scorer, size_t limit, struct score_job *jobs,
                     size_t *count, struct err *err);
int sqlite_score_waiting(backend_conn_t *conn, const char *scorer, int64_t *count, struct err *err);
enum backend_status sqlite_score_write(backend_conn_t *conn, const struct lease_claim *claim,
                                       const struct score_outcome *outcomes, size_t count,
                                       struct err *err);
int sqlite_replica_seen(backend_conn_t *conn, const struct replica *replica, int *configs,
                        struct err *err);

#endif
