// SPDX-License-Identifier: MIT
#include "gateway/pending.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

struct pending *pending_new(struct buf *meta, struct buf *body)
{
    struct pending *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    atomic_init(&self->references, 1);
    atomic_init(&self->state, 0);
    self->meta.data = buf_steal(meta, &self->meta.len);
    self->body.data = buf_steal(body, &self->body.len);
    return self;
}

void pending_hold(struct pending *self, unsigned references)
{
    atomic_fetch_add_explicit(&self->references, references, memory_order_relaxed);
}

void pending_release(struct pending *self)
{
    if (atomic_fetch_sub(&self->references, 1) != 1)
        return;
    free((char *)self->meta.data);
    free((char *)self->body.data);
    free(self);
}

static void futex_wait(atomic_uint *word, uint64_t wait_ms)
{
    struct timespec limit = {.tv_sec = (time_t)(wait_ms / 1000),
                             .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
}

enum verdict pending_wait(struct pending *self, uint64_t deadline_ms)
{
    unsigned state = atomic_load(&self->state);
    while (state == 0) {
        uint64_t now_ms = clock_mono_ms();
        if (now_ms < deadline_ms)
            futex_wait(&self->state, deadline_ms - now_ms);
        else if (atomic_compare_exchange_strong(&self->state, &state, PENDING_ABANDONED))
            break;
        state = atomic_load(&self->state);
    }
    pending_release(self);
    return state == 0 ? VERDICT_TIMED_OUT : (enum verdict)(state - 1);
}

void pending_decide(struct pending *self, enum verdict verdict)
{
    unsigned undecided = 0;
    if (atomic_compare_exchange_strong(&self->state, &undecided, 1 + (unsigned)verdict))
        syscall(SYS_futex, &self->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pending_release(self);
}

bool pending_is_abandoned(const struct pending *self)
{
    return atomic_load(&self->state) == PENDING_ABANDONED;
}
