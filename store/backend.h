// SPDX-License-Identifier: MIT
/*
 * backend: what the daemon asks of a store, as a table of functions, so that SQLite is one answer
 * and a database server another. Decoding, keys, grouping and HTTP stay outside; SQL and what a
 * given database does on failure stay inside.
 *
 * A store is opened once. Everything is done over connections, each used by one thread at a time.
 */
#ifndef MCPD_STORE_BACKEND_H
#define MCPD_STORE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/grant.h"
#include "proto/batch.h"
#include "store/listing.h"
#include "store/score_job.h"

typedef struct backend_store backend_store_t;
typedef struct backend_conn backend_conn_t;

#define BACKEND_DIGEST_LEN 16
#define TRACE_ID_LEN       16
#define SPAN_ID_LEN        8

struct backend_counts {
    uint64_t accepted;
    uint64_t duplicate;
    uint64_t rejected;
};

/* One ingest request, decoded, and what became of it. */
struct backend_request {
    const char *project; /* lives as long as the request; see backend_request_of */
    char project_name[GRANT_PROJECT_MAX + 1];
    uint8_t key[BACKEND_DIGEST_LEN];  /* digest of the request's idempotency key */
    uint8_t body[BACKEND_DIGEST_LEN]; /* digest of the decoded body */
    uint64_t key_ttl_s;
    struct batch batch; /* owned */

    /* Set by backend write when it answered BACKEND_OK. */
    struct backend_counts counts; /* as the sender gets them */
    bool is_resend;               /* the key was known: nothing was written */
    bool is_mismatch;             /* ... and the body is another one */
    uint32_t *refused;            /* owned: positions of events that the database itself refused; */
    size_t refused_count;         /* they are counted as rejected */
};

/* Zeroed, its batch ready for a decoder. */
struct backend_request *backend_request_new(void) MUST_USE;
void backend_request_destroy(struct backend_request **request_p);
/* Sets its project, as a copy. */
void backend_request_of(struct backend_request *request, const char *project);
/* Notes that the database refused the event at this position of the batch. */
void backend_request_refuse(struct backend_request *request, size_t position);

enum backend_status {
    BACKEND_OK,    /* committed; the results are set */
    BACKEND_RERUN, /* nothing written, for a reason that lies in one of the requests: run each
                      alone. Never the answer for a single request */
    BACKEND_AWAY, /* nothing written (or nobody knows): the store is full, broken or out of reach */
    BACKEND_IN_FLIGHT, /* nothing written: another transaction holds what the only request needs, as
                          its twin on another daemon; it is to be sent again soon */
    BACKEND_FENCED,    /* nothing written: the lease is not the caller's (any more) */
};

/* The lease: one row of the store, whose holder is the leader of all daemons on it. `holder` is
 * made at random for each process, `fence` rises with every change of holder and never falls. Time
 * is the database's own clock. How it is used: leader.h. */
#define LEASE_HOLDER_LEN 32 /* hex digits */

/* A bid or renewal, or giving up. */
struct lease_call {
    const char *holder;
    int64_t fence;        /* the leader's; of a bid: the fence to go above */
    uint64_t ttl_ms;      /* from now on */
    uint64_t deadline_ms; /* clock_mono_ms; the call fails with BACKEND_AWAY when it comes */
};

/* The row as a call left or found it. */
struct lease_row {
    int64_t fence;
    uint64_t left_ms; /* until it expires; 0: nobody holds it */
    int64_t server;   /* which start of the database server answered */
};

/* What a write of the leader is made under. Every function that takes one runs one short fenced
 * transaction: it writes only where the lease's row has this holder and fence and has not expired,
 * and keeps the row from changing hands until it has committed; else BACKEND_FENCED. */
struct lease_claim {
    char holder[LEASE_HOLDER_LEN + 1];
    int64_t fence;
    uint64_t limit_ms; /* of each statement of the transaction, by the database's own watch */
};

/* A daemon, for the list of replicas. */
struct replica {
    const char *id; /* --name, or made of host and process */
    const char *holder;
    const char *url;
    const char *version;
    const char *config_hash; /* of the settings file, "" without one */
    uint64_t recent_ms;      /* a replica seen within this time runs */
};

/* What a project keeps: today and so many days before it. */
struct retention {
    const char *project;
    uint64_t days; /* 0: everything */
};

struct trace_key {
    const char *project;
    uint8_t trace_id[TRACE_ID_LEN];
    uint64_t deadline_ms; /* clock_mono_ms; reading that takes longer fails */
};

/* Takes one row, its values in the order of the listing's columns; they live until the sink
 * returned. -1 (no room) ends the reading, which then fails. */
typedef int row_sink(void *arg, const struct list_value *values);

/* Counts the rows on their way to another sink: pass row_count with a struct row_count as arg. */
struct row_count {
    row_sink *sink;
    void *arg;
    size_t rows;
};
row_sink row_count;

struct backend {
    const char *name;
    unsigned writers; /* connections that are worth writing on at once; 0: two a core, at most 8 */

    /* Opens, creates or refuses the store that `where` names; blocks. Null with the reason. */
    backend_store_t *(*open)(const char *where, struct err *err);
    void (*close)(backend_store_t **self_p); /* after all its connections */

    backend_conn_t *(*connect)(backend_store_t *store, bool is_writer, struct err *err);
    void (*disconnect)(backend_conn_t **conn_p);

    /* All requests in one transaction: rows, rollups and key rows of all, or nothing. */
    enum backend_status (*write)(backend_conn_t *conn, struct backend_request *const *requests,
                                 size_t count, struct err *err);

    /* Does the store answer? is_deep also proves that it can commit. 0 or -1. */
    int (*probe)(backend_conn_t *conn, bool is_deep, struct err *err);

    /* Forgets what is past its time, at most `max_rows` of each kind. Returns the rows removed of
     * the kind that had most, or -1. */
    int (*sweep)(backend_conn_t *conn, int max_rows, struct err *err);

    /* Deletes what projects no longer keep, by the store's own clock and whole days of it; a
     * project that is not named keeps everything. All that somebody may send to are to be named, so
     * that nothing is dropped under one whose first events are just being stored. At most max_rows
     * rows of a kind and project. Returns the rows removed of the kind that had most (max_rows:
     * there may be more), or -1. Deleting twice, or by two replicas at once, does no harm. */
    int (*forget)(backend_conn_t *conn, const struct retention *kept, size_t count, int max_rows,
                  struct err *err);

    /* The lease. BACKEND_OK: the caller holds it, with row->fence. BACKEND_FENCED: somebody else
     * does, see row. A bid of the holder itself wins, too, with a new fence. Giving up leaves the
     * row with its fence; row is not set. Nothing waits beyond the deadline. */
    enum backend_status (*lease_bid)(backend_conn_t *conn, const struct lease_call *call,
                                     struct lease_row *row, struct err *err);
    enum backend_status (*lease_renew)(backend_conn_t *conn, const struct lease_call *call,
                                       struct lease_row *row, struct err *err);
    enum backend_status (*lease_give_up)(backend_conn_t *conn, const struct lease_call *call,
                                         struct err *err);

    /* Fenced: notes how far a step of the passes has come, with fence and time. */
    enum backend_status (*pass_mark)(backend_conn_t *conn, const struct lease_claim *claim,
                                     const char *step, struct slice cursor, struct err *err);
    /* The cursor that the step's last mark left, added to *cursor; nothing where there is none. */
    int (*pass_cursor)(backend_conn_t *conn, const char *step, struct buf *cursor, struct err *err);

    /* Scoring, see score_job.h. Fenced: settles up to max_rows traces and leaves their jobs. */
    enum backend_status (*settle)(backend_conn_t *conn, const struct lease_claim *claim,
                                  const struct settle_call *call, size_t *settled, struct err *err);
    /* The jobs of a scorer that are due, those that wait longest first: up to `limit`, and *count
     * says how many. 0 or -1. */
    int (*score_due)(backend_conn_t *conn, const char *scorer, size_t limit, struct score_job *jobs,
                     size_t *count, struct err *err);
    /* How many jobs of a scorer there are, up to SCORE_COUNT_MAX. 0 or -1. */
    int (*score_waiting)(backend_conn_t *conn, const char *scorer, int64_t *count, struct err *err);
    /* Fenced: all of them, in one transaction. */
    enum backend_status (*score_write)(backend_conn_t *conn, const struct lease_claim *claim,
                                       const struct score_outcome *outcomes, size_t count,
                                       struct err *err);

    /* Enters the daemon into the list of replicas, or that it still runs, and forgets those not
     * seen for a day. *configs: how many different settings the running replicas have. 0 or -1. */
    int (*replica_seen)(backend_conn_t *conn, const struct replica *replica, int *configs,
                        struct err *err);

    /* Reading: 0, or -1 with the reason. */
    int (*list)(backend_conn_t *conn, const struct list_query *query, row_sink *sink, void *arg,
                struct err *err);
    /* The trace goes to trace_sink as a row of LISTING_TRACES, then its spans to span_sink as rows
     * of LISTING_SPANS, in order of start. 0; 1 when there is no such trace; -1. */
    int (*read_trace)(backend_conn_t *conn, const struct trace_key *key, row_sink *trace_sink,
                      row_sink *span_sink, void *arg, struct err *err);
};

#endif
