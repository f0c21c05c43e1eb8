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

struct pending {
    struct mailbox_item item; /* first */
    atomic_uint references;
    atomic_uint state; /* futex: 0 nobody decided, 1 + verdict, or PENDING_ABANDONED */
    uint32_t tried;    /* actor: bits of the brokers it was sent to */
    enum verdict last; /* actor: what the last of them said */
    struct slice meta;
    struct slice body;
};

#define PENDING_ABANDONED 1000u

/* Takes the memory of both buffers. One reference, the worker's. */
struct pending *pending_new(struct buf *meta, struct buf *body) MUST_USE;
void pending_hold(struct pending *self, unsigned references);
void pending_release(struct pending *self);
static inline size_t pending_bytes(const struct pending *self)
{
    return self->meta.len + self->body.len;
}

/* The worker: blocks until a verdict or the deadline, then lets go. */
enum verdict pending_wait(struct pending *self, uint64_t deadline_ms);
/* The actor: decides, wakes the worker and lets go. */
void pending_decide(struct pending *self, enum verdict verdict);
bool pending_is_abandoned(const struct pending *self);

#endif
