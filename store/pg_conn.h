// SPDX-License-Identifier: MIT
/*
 * pg_conn: one connection to a Postgres store, made when it is first used and made anew whenever it
 * was lost. One thread at a time.
 *
 * Nothing here blocks without limit: every call ends by the connection's deadline, past which the
 * connection is dropped, whatever it was doing. Only unnamed statements and SET LOCAL are used, so
 * that a pooler in transaction mode may stand in between.
 *
 * Statements travel in rounds: queue several, then take their results in order; a round is one
 * trip.
 *
 *     if (pg_conn_open(conn, LIMIT_MS, err) == -1) ...
 *     pg_queue(conn, "INSERT ... VALUES ($1)", &params);
 *     pg_queue(conn, "COMMIT", NULL);
 *     PGresult *results[2];
 *     if (pg_round(conn, results, 2, err) == -1) ... conn->fault says what happened
 */
#ifndef MCPD_STORE_PG_CONN_H
#define MCPD_STORE_PG_CONN_H

#include <postgresql/libpq-fe.h>
#include <pthread.h>

#include "store/backend.h"
#include "store/pg_target.h"
#include "store/rollup.h"
#include "store/sql_text.h"

/* Why a statement failed; a table of SQLSTATEs in the .c decides. */
enum pg_fault {
    PG_FINE,
    PG_LOST,     /* the connection broke: nobody knows what the server did last */
    PG_LATE,     /* no answer in time, so the connection was dropped: likewise */
    PG_AWAY,     /* the server does not do it now: full, starting, stopping, read-only, ... */
    PG_DATA,     /* the data's fault; it would fail again */
    PG_TWICE,    /* a row that is there already, in a COPY; it may be run again without COPY */
    PG_NO_DAY,   /* a row's day has no partition */
    PG_LOCKED,   /* waited too long for another transaction */
    PG_DEADLOCK, /* chosen as the victim; it may be run again at once */
    PG_REFUSED,  /* needs a person: password, no such database, no right to do it */
};

struct pg_slice; /* see pg_events.h */
struct pg_days;  /* which day partitions are known to exist, see pg_days.h */

struct backend_store {
    struct pg_target target;
    pthread_mutex_t lock;
    bool is_schema_sure;   /* this process has seen the tables at their version */
    unsigned schema_looks; /* how often it had to look */
    struct pg_days *days;
};

#define PG_PROJECTS_KNOWN 8
#define PG_PROJECT_SIZE   64

struct backend_conn {
    backend_store_t *store;
    PGconn *pg;           /* null: not connected */
    uint64_t deadline_ms; /* of the call under way */
    uint64_t retry_at_ms; /* not connected before; so long the last reason stands */
    struct err reason;
    enum pg_fault fault;  /* of the last failure */
    unsigned schema_look; /* the last one that this connection knows of */
    size_t queued;        /* statements whose results were not taken yet */
    /* Projects whose number is known, by name; as long as the connection lasts. */
    struct {
        char name[PG_PROJECT_SIZE];
        int64_t id;
    } projects[PG_PROJECTS_KNOWN];
    /* Of a writing transaction. */
    struct rollup rollup;
    struct pg_slice *slices; /* made when first used */
    bool is_commit_sent;
    unsigned copy_pause; /* so many groups more do without COPY */
};

backend_conn_t *pg_conn_new(backend_store_t *store) MUST_USE; /* does not connect */
void pg_conn_destroy(backend_conn_t **self_p);

/* Starts a call that may take until deadline_ms: connects where needed and ensures, once a process,
 * that the tables are there. -1 with the reason; then conn->fault is set. */
int pg_conn_open(backend_conn_t *self, uint64_t deadline_ms, struct err *err) MUST_USE;
/* The same without a look at the tables; for pg_schema. */
int pg_conn_connect(backend_conn_t *self, uint64_t deadline_ms, struct err *err) MUST_USE;
/* Lets the connection go; the next call makes another one. */
void pg_conn_drop(backend_conn_t *self);

/* Values of a statement, in binary, in the order of $1, $2, ... They must live until it is queued.
 */
#define PG_PARAMS_MAX SQL_VALUES_MAX
struct pg_params {
    int count;
    Oid types[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX];
    char numbers[PG_PARAMS_MAX][8];
};
void pg_bind_int(struct pg_params *params, int64_t value);
void pg_bind_text(struct pg_params *params, const char *text);
void pg_bind_bytes(struct pg_params *params, const void *bytes, size_t len);
void pg_bind_value(struct pg_params *params, const struct list_value *value);

/* How every transaction of ours begins, whatever the database's own settings are. */
#define PG_BEGIN "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

/* Adds a statement to the round. A failure shows when the round is taken. params may be null. */
void pg_queue(backend_conn_t *self, const char *sql, const struct pg_params *params);
/* Ends the round and takes its results, one for each of the count statements queued; the caller
 * clears them (PQclear). -1 where one failed, with its fault and reason: then the caller has none
 * to clear, and an open transaction is only good for pg_rollback. */
int pg_round(backend_conn_t *self, PGresult **results, size_t count, struct err *err) MUST_USE;
/* Clears them all. */
void pg_clear(PGresult **results, size_t count);
/* The same round for results that nobody wants. */
int pg_round_done(backend_conn_t *self, struct err *err) MUST_USE;
/* A round in which the rows of the wanted-th statement (from 0) go to the sink one by one, so that
 * a large result is never held whole. */
int pg_round_rows(backend_conn_t *self, size_t wanted, row_sink *sink, void *arg,
                  struct err *err) MUST_USE;
/* Queues and runs one statement. */
int pg_run(backend_conn_t *self, const char *sql, const struct pg_params *params, PGresult **result,
           struct err *err) MUST_USE;
/* The same for a statement without values whose result nobody wants. */
int pg_run_done(backend_conn_t *self, const char *sql, struct err *err) MUST_USE;
/* Runs one statement that removes rows; *most grows to how many it were. */
int pg_remove(backend_conn_t *self, const char *sql, const struct pg_params *params, int *most,
              struct err *err) MUST_USE;
/* Ends whatever transaction is open; drops the connection where that fails. */
void pg_rollback(backend_conn_t *self);

/* A value of a result. An integer of any width, a real, text or bytes; it lives as long as the
 * result. */
struct list_value pg_value(const PGresult *result, int row, int column);
int64_t pg_int(const PGresult *result, int row, int column); /* 0 for NULL */

#endif
