// SPDX-License-Identifier: MIT
/*
 * appender: owns the active segment: admission, group commit, rolling, marks and seals, and what is
 * done about failed writes. Intake's thread only; every call but appender_admit may block on the
 * disk. Nothing is made on disk before the first append.
 */
#ifndef MCPD_APPENDER_H
#define MCPD_APPENDER_H

#include "broker/spool.h"

typedef struct appender appender_t;

appender_t *appender_new(spool_t *spool) MUST_USE;
/* Seals the active segment (a clean stop) and frees. */
void appender_destroy(appender_t **self_p);

enum admission {
    ADMIT_OK,
    ADMIT_FULL,      /* VERDICT_FULL: over the limit, or low disk */
    ADMIT_TOO_LARGE, /* VERDICT_TOO_LARGE */
    ADMIT_REFUSING   /* VERDICT_FAILED: after a write error */
};
/* May a request of these lengths go into the next batch? ADMIT_OK sets its space aside until
 * the next appender_append. Ask for each item, in the order of the batch. */
enum admission appender_admit(appender_t *self, size_t meta_len, size_t body_len);
/* The same for moved records and retried dead letters: they may also use the reserve. */
enum admission appender_admit_move(appender_t *self, size_t meta_len, size_t body_len);

struct append_item {
    struct slice meta;
    struct slice body;
    uint64_t arrival_ns;
    const struct record_origin *origin; /* null for a new request */
};

enum append_result {
    APPEND_OK,
    APPEND_FULL,  /* the file system has no space for it; nothing was written */
    APPEND_FAILED /* not accepted; parts of it may be on disk all the same */
};

/* Writes n (1 to APPEND_MAX) admitted items as one batch: one write, one sync; all or none. On
 * APPEND_OK refs[i] describes items[i], durable and readable from now on. */
#define APPEND_MAX 1024
enum append_result appender_append(appender_t *self, const struct append_item *items, size_t n,
                                   struct record_ref *refs, uint64_t now_ms,
                                   struct err *err) MUST_USE;

/* Bytes of meta and body that go well into one batch, 4 MiB or less; a single larger item is fine.
 */
uint64_t appender_batch_bytes(const appender_t *self);

/* Between batches: the mark 100 ms after the last one, sealing of a segment that is idle and
 * settled, another try after a failure. Returns milliseconds until it wants to be called again,
 * UINT64_MAX when nothing is due. An idle appender writes nothing. */
uint64_t appender_tick(appender_t *self, uint64_t now_ms);

struct appender_health {
    uint64_t write_errors; /* since start; behind /readyz's first word */
    bool is_refusing;      /* /readyz 503 `write error` */
    bool must_fail;        /* refusing for 30 s: end the process, the supervisor acts (role_fail) */
};
void appender_health(const appender_t *self, uint64_t now_ms, struct appender_health *out);

#endif
