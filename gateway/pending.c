// SPDX-License-Identifier: MIT
#include "gateway/pending.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

#define SMALL_BODY_BYTES ((size_t)16 * 1024) /* copying costs less than another allocation */

struct pending *pending_new(struct waves *waves, struct slice meta, struct buf *body)
{
    size_t copied = body->len <= SMALL_BODY_BYTES ? body->len : 0;
    struct pending *self = malloc(sizeof *self + meta.len + copied);
    if (self == NULL)
        abort();
    *self = (struct pending){.waves = waves, .wave = atomic_load(&waves->open)};
    atomic_init(&self->references, 1);
    atomic_init(&self->state, 0);
    memcpy(self->bytes, meta.data, meta.len);
    self->meta = (struct slice){self->bytes, meta.len};
    self->body = (struct slice){self->bytes + meta.len, copied};
    if (copied > 0)
        memcpy(self->bytes + meta.len, body->data, copied);
    else if (body->len > 0)
        self->body.data = self->large_body = buf_steal(body, &self->body.len);
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
    free(self->large_body);
    free(self);
}

static void futex_wait(atomic_uint *word, unsigned while_value, uint64_t wait_ms)
{
    struct timespec limit = {.tv_sec = (time_t)(wait_ms / 1000),
                             .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, &limit, NULL, 0);
}

enum verdict pending_wait(struct pending *self, uint64_t deadline_ms)
{
    atomic_uint *word = &self->waves->words[self->wave];
    unsigned state;
    for (;;) {
        unsigned seen = atomic_load(word); /* before the state: a wake-up in between is seen */
        state = atomic_load(&self->state);
        if (state != 0)
            break;
        uint64_t now_ms = clock_mono_ms();
        if (now_ms < deadline_ms)
            futex_wait(word, seen, deadline_ms - now_ms);
        else if (atomic_compare_exchange_strong(&self->state, &state, PENDING_ABANDONED))
            break;
    }
    pending_release(self);
    return state == 0 ? VERDICT_TIMED_OUT : (enum verdict)(state - 1);
}

void pending_decide(struct pending *self, enum verdict verdict)
{
    unsigned undecided = 0;
    if (atomic_compare_exchange_strong(&self->state, &undecided, 1 + (unsigned)verdict))
        self->waves->due |= 1U << self->wave;
    pending_release(self);
}

bool pending_is_abandoned(const struct pending *self)
{
    return atomic_load(&self->state) == PENDING_ABANDONED;
}

void waves_turn(struct waves *self)
{
    atomic_fetch_xor(&self->open, 1);
}

void waves_wake(struct waves *self)
{
    for (unsigned wave = 0; wave < 2; wave++) {
        if ((self->due & 1U << wave) == 0)
            continue;
        atomic_fetch_add(&self->words[wave], 1);
        syscall(SYS_futex, &self->words[wave], FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    self->due = 0;
}
