// SPDX-License-Identifier: MIT
/*
 * submitter: hands requests to the broker and waits until they are on disk. It owns one actor,
 * which gathers what the door's worker threads bring into SUBMIT messages, and the actor owns the
 * socket to the broker.
 *
 * submitter_submit and submitter_health may be called by any number of threads at once; new and
 * destroy by the one that runs the role, destroy only when no submit is under way.
 */
#ifndef MCPD_SUBMITTER_H
#define MCPD_SUBMITTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/role.h"
#include "proto/verdict.h"

typedef struct submitter submitter_t;

/* What the broker said of itself last, for /readyz and for refusing early. All zero (and empty)
 * until the first STATUS and again when the broker is gone, except max_record, which is kept. */
struct broker_health {
    bool is_alive;         /* a broker answers; when false nothing else counts */
    uint64_t used_bytes;   /* of the spool */
    uint64_t max_bytes;    /* its limit */
    char intake[24];       /* "ok", "full", "low disk", "write error" */
    bool has_upstreams;    /* a courier has told the broker of its upstreams */
    uint32_t upstreams_up; /* answered in the last 30 s */
    uint32_t upstreams_total;
    uint32_t oldest_s;   /* age of the oldest request waiting */
    char note[128];      /* what else is wrong: "3 corrupt records"; or empty */
    uint64_t max_record; /* largest body the broker takes; 0 = not told yet */
};

/* Connects to env->gateway_endpoint in the background (a broker in the same process has bound it
 * already). Null with the reason. */
submitter_t *submitter_new(const struct role_env *env, struct err *err) MUST_USE;

/* Submits one request (two frames, proto/request.h) and blocks until the broker's verdict, or until
 * deadline_ms (clock_mono_ms), whichever is first: STORED means that its bytes are on disk, all
 * else that the sender must send again, although the request may have been stored.
 * meta is copied; the body's content is gone afterwards, whatever the verdict. */
enum verdict submitter_submit(submitter_t *self, struct slice meta, struct buf *body,
                              uint64_t deadline_ms);

/* What a request would be told now, as far as the brokers' own news of the last seconds goes:
 * STORED when it is worth submitting, else what every broker would say. Does not block. */
enum verdict submitter_outlook(const submitter_t *self);

/* A consistent copy; does not block. */
void submitter_health(submitter_t *self, struct broker_health *health);

/* Tells the broker BYE, ends the actor. Null is allowed. */
void submitter_destroy(submitter_t **self_p);

#endif
