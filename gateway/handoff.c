// SPDX-License-Identifier: MIT
/*
 * The head of the list carries the number of the channel that is being filled, so that a worker
 * learns its channel with the same exchange that hands its request over, and the actor changes both
 * at once.
 */
#include "gateway/handoff.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHANNEL_MASK     ((uintptr_t)HANDOFF_CHANNELS - 1)
#define SMALL_BODY_BYTES ((size_t)16 * 1024) /* copying costs less than another allocation */

int handoff_init(struct handoff *self, struct err *err)
{
    memset(self, 0, sizeof *self);
    self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return self->fd == -1 ? err_set(err, "eventfd: %s", strerror(errno)) : 0;
}

void handoff_fini(struct handoff *self)
{
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}

void pending_hold(struct pending *self, unsigned references)
{
    atomic_fetch_add_explicit(&self->references, references, memory_order_relaxed);
}

void pending_release(struct pending *self)
{
    if (atomic_fetch_sub(&self->references, 1) != 1)
        return;
    free(self->large_body);
    free(self);
}

/* One allocation, as its parts would be freed on another thread than they were made on; only a
 * large body keeps the memory it came in. */
static struct pending *pending_new(struct slice meta, struct buf *body, uint64_t deadline_ms)
{
    size_t copied = body->len <= SMALL_BODY_BYTES ? body->len : 0;
    struct pending *self = malloc(sizeof *self + meta.len + copied);
    if (self == NULL)
        abort();
    assert(((uintptr_t)self & CHANNEL_MASK) == 0); /* max_align_t is 16 bytes */
    *self = (struct pending){.deadline_ms = deadline_ms};
    atomic_init(&self->references, 2); /* the worker's and the actor's */
    memcpy(self->bytes, meta.data, meta.len);
    self->meta = (struct slice){self->bytes, meta.len};
    self->body = (struct slice){self->bytes + meta.len, copied};
    if (copied > 0)
        memcpy(self->bytes + meta.len, body->data, copied);
    else if (body->len > 0)
        self->body.data = self->large_body = buf_steal(body, &self->body.len);
    return self;
}

static void post(struct handoff *self, struct pending *pending)
{
    uintptr_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    do {
        pending->channel = head & CHANNEL_MASK;
        pending->next = (struct pending *)(head & ~CHANNEL_MASK);
    } while (
        !atomic_compare_exchange_weak(&self->head, &head, (uintptr_t)pending | pending->channel));
    if (atomic_load(&self->is_sleeping) && atomic_exchange(&self->is_sleeping, false))
        (void)eventfd_write(self->fd, 1); /* fails only when it is readable anyway */
}

enum verdict handoff_submit(struct handoff *self, struct slice meta, struct buf *body,
                            uint64_t deadline_ms)
{
    struct pending *pending = pending_new(meta, body, deadline_ms);
    post(self, pending);
    atomic_uint *word = &self->channels[pending->channel].word;
    unsigned decision, seen = atomic_load(word);
    while ((decision = atomic_load(&pending->decision)) == 0) {
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        seen = atomic_load(word);
    }
    pending_release(pending);
    return (enum verdict)(decision - 1);
}

void handoff_close(struct handoff *self)
{
    atomic_store(&self->is_closed, true);
    (void)eventfd_write(self->fd, 1);
}

bool handoff_is_closed(struct handoff *self)
{
    return atomic_load_explicit(&self->is_closed, memory_order_relaxed);
}

struct pending *handoff_take(struct handoff *self)
{
    uintptr_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    struct pending *oldest = NULL;
    if ((head & ~CHANNEL_MASK) == 0)
        return NULL;
    head = atomic_exchange(&self->head, ((head & CHANNEL_MASK) + 1) & CHANNEL_MASK);
    struct pending *newest = (struct pending *)(head & ~CHANNEL_MASK);
    while (newest != NULL) {
        struct pending *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool handoff_may_sleep(struct handoff *self)
{
    atomic_store(&self->is_sleeping, true);
    if ((atomic_load(&self->head) & ~CHANNEL_MASK) == 0)
        return true;
    atomic_store(&self->is_sleeping, false);
    return false;
}

void handoff_woken(struct handoff *self, bool has_event)
{
    eventfd_t count;
    atomic_store(&self->is_sleeping, false);
    if (has_event)
        (void)eventfd_read(self->fd, &count);
}

void pending_decide(struct pending *self, enum verdict verdict, unsigned *channels)
{
    assert(atomic_load_explicit(&self->decision, memory_order_relaxed) == 0);
    *channels |= 1U << self->channel;
    atomic_store(&self->decision, 1 + (unsigned)verdict);
    pending_release(self);
}

void handoff_wake(struct handoff *self, unsigned channels)
{
    for (unsigned i = 0; i < HANDOFF_CHANNELS; i++) {
        if ((channels & 1U << i) == 0)
            continue;
        atomic_fetch_add(&self->channels[i].word, 1);
        syscall(SYS_futex, &self->channels[i].word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}
