// SPDX-License-Identifier: MIT
/*
 * pending: one request on its way from a worker thread to a broker and its verdict back. Shared by
 * the worker that waits, the submitter's actor, and the message frames that carry its bytes without
 * a copy; the last one to let go frees it. A worker that gives up just lets go: a verdict that
 * comes later finds nobody, and no freed memory.
 */
#ifndef MCPD_PENDING_H
#define MCPD_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/mailbox.h"
#include "proto/verdict.h"

/* Where workers sleep. A batch is decided at once, so all workers of a wave sleep on one word and
 * waking them is one system call. Two waves take turns, so that those whose request gathers for the
 * next batch are left asleep; a worker that is woken early looks and sleeps on. */
struct waves {
    atomic_uint open;     /* the wave new requests join; the actor moves it */
    atomic_uint words[2]; /* futexes, raised when some of the wave were decided */
    unsigned due;         /* actor: bits of the waves that have decided requests to wake */
};

struct pending {
    struct mailbox_item item; /* first */
    struct waves *waves;
    unsigned wave;
    atomic_uint references;
    atomic_uint state; /* 0 nobody decided, 1 + verdict, or PENDING_ABANDONED */
    uint32_t tried;    /* actor: bits of the brokers it was sent to */
    enum verdict last; /* actor: what the last of them said */
    struct slice meta;
    struct slice body;
    char *large_body; /* what body points to, unless it is small */
    char bytes[];     /* meta, and a small body */
};

#define PENDING_ABANDONED 1000u

/* Copies meta and a small body, so that the worker keeps its buffers and this is one allocation;
 * takes the memory of a large body. One reference, the worker's. waves outlives it. */
struct pending *pending_new(struct waves *waves, struct slice meta, struct buf *body) MUST_USE;
void pending_hold(struct pending *self, unsigned references);
void pending_release(struct pending *self);
static inline size_t pending_bytes(const struct pending *self)
{
    return self->meta.len + self->body.len;
}

/* The worker: blocks until a verdict or the deadline, then lets go. */
enum verdict pending_wait(struct pending *self, uint64_t deadline_ms);
/* The actor: decides and lets go. The worker wakes with the next waves_wake. */
void pending_decide(struct pending *self, enum verdict verdict);
bool pending_is_abandoned(const struct pending *self);

/* The actor: the requests so far are taken, new ones join the other wave. */
void waves_turn(struct waves *self);
/* The actor: wakes those that were decided since the last call. */
void waves_wake(struct waves *self);

#endif
