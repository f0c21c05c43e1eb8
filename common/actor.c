// SPDX-License-Identifier: MIT
#include "common/actor.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

int actor_start(struct actor *self, void *(*run)(void *), void *arg, struct err *err)
{
    int rc = pthread_create(&self->thread, NULL, run, arg);
    self->is_running = rc == 0;
    return rc == 0 ? 0 : err_set(err, "cannot start a thread: %s", strerror(rc));
}

void actor_join(struct actor *self)
{
    if (self->is_running)
        pthread_join(self->thread, NULL);
    self->is_running = false;
}

uint32_t actor_sleep(const int *fds, unsigned count, uint64_t wait_ms)
{
    struct pollfd polled[ACTOR_FDS_MAX];
    uint32_t readable = 0;
    assert(count <= ACTOR_FDS_MAX);
    for (unsigned i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    if (poll(polled, count, wait_ms < INT_MAX ? (int)wait_ms : INT_MAX) <= 0)
        return 0;
    for (unsigned i = 0; i < count; i++)
        readable |= polled[i].revents != 0 ? 1U << i : 0;
    return readable;
}
