// SPDX-License-Identifier: MIT
#include "store/gate.h"

#include <errno.h>

#include "common/wait.h"

void gate_init(struct gate *self, unsigned slots, size_t max_bytes)
{
    *self = (struct gate){.slots = slots, .max_bytes = max_bytes};
    pthread_mutex_init(&self->lock, NULL);
    wait_init(&self->changed);
}

void gate_fini(struct gate *self)
{
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
}

static bool is_open(const struct gate *self)
{
    return self->slots > 0 && self->held_bytes < self->max_bytes;
}

bool gate_enter(struct gate *self, uint64_t deadline_ms)
{
    int rc = 0;
    pthread_mutex_lock(&self->lock);
    while (!is_open(self) && rc != ETIMEDOUT)
        rc = wait_until(&self->changed, &self->lock, deadline_ms);
    bool is_in = is_open(self);
    if (is_in)
        self->slots--;
    pthread_mutex_unlock(&self->lock);
    return is_in;
}

static void change(struct gate *self, unsigned slots, size_t more_bytes, size_t less_bytes)
{
    pthread_mutex_lock(&self->lock);
    bool was_over = self->held_bytes >= self->max_bytes;
    self->slots += slots;
    self->held_bytes += more_bytes;
    self->held_bytes -= less_bytes;
    bool is_freed = is_open(self);
    /* After a while without memory several may go on; otherwise one slot is free for one. */
    if (is_freed && was_over)
        pthread_cond_broadcast(&self->changed);
    else if (is_freed && slots > 0)
        pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

void gate_leave(struct gate *self, size_t held_bytes)
{
    change(self, 1, held_bytes, 0);
}

void gate_release(struct gate *self, size_t held_bytes)
{
    change(self, 0, 0, held_bytes);
}
