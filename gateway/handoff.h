// SPDX-License-Identifier: MIT
/*
 * handoff: requests on their way from worker threads to the submitter's actor, and verdicts back.
 * A request (struct pending) is shared by the worker that waits, the actor, and the message frames
 * that carry its bytes without a copy; the last one to let go frees it.
 *
 * Workers that are taken together sleep on one channel, so that one system call wakes them all;
 * whoever is woken and finds nothing decided sleeps again.
 */
#ifndef MCPD_HANDOFF_H
#define MCPD_HANDOFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/verdict.h"

#define HANDOFF_CHANNELS 16u /* what fits into the low bits of an aligned address */

struct pending {
    struct pending *next;
    atomic_uint references;
    atomic_uint decision; /* 0: none yet; else 1 + verdict */
    unsigned channel;
    uint32_t tried;    /* the actor's: bits of the brokers it was sent to */
    enum verdict last; /* the actor's: what the last of them said */
    uint64_t deadline_ms;
    struct slice meta;
    struct slice body;
    char *large_body; /* what body points to, unless it is small */
    char bytes[];     /* meta, and a small body */
};

struct handoff {
    _Atomic(uintptr_t) head; /* newest pending, and in the low bits the channel being filled */
    atomic_bool is_sleeping;
    atomic_bool is_closed;
    int fd;
    struct {
        _Alignas(64) atomic_uint word; /* counts wake-ups */
    } channels[HANDOFF_CHANNELS];
};

int handoff_init(struct handoff *self, struct err *err) MUST_USE;
void handoff_fini(struct handoff *self);

/* --- workers --- */

/* Hands the request over and blocks until it is decided. meta and a small body are copied, so that
 * the worker keeps its buffers; the memory of a large body is taken. */
enum verdict handoff_submit(struct handoff *self, struct slice meta, struct buf *body,
                            uint64_t deadline_ms);

/* Tells the actor to end, once nothing is handed over any more. */
void handoff_close(struct handoff *self);

/* --- the actor --- */

bool handoff_is_closed(struct handoff *self) MUST_USE;

/* All requests handed over so far, oldest first; null: none. Those handed over from now on wait on
 * another channel. */
struct pending *handoff_take(struct handoff *self) MUST_USE;
/* As in common/mailbox. */
bool handoff_may_sleep(struct handoff *self) MUST_USE;
void handoff_woken(struct handoff *self, bool has_event);

/* Decides and lets go; the worker wakes at the next handoff_wake of the channels, a bit each, which
 * are collected in *channels. */
void pending_decide(struct pending *self, enum verdict verdict, unsigned *channels);
void handoff_wake(struct handoff *self, unsigned channels);

/* --- any thread --- */

void pending_hold(struct pending *self, unsigned references);
void pending_release(struct pending *self);

static inline size_t pending_bytes(const struct pending *self)
{
    return self->meta.len + self->body.len;
}

#endif
