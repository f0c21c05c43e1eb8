// SPDX-License-Identifier: MIT
/*
 * actor: a thread with a loop of its own that others talk to through a mailbox. It is told to end
 * by closing that mailbox. Started and joined by the same thread.
 */
#ifndef MCPD_ACTOR_H
#define MCPD_ACTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct actor {
    pthread_t thread;
    bool is_running;
};

int actor_start(struct actor *self, void *(*run)(void *), void *arg, struct err *err) MUST_USE;
/* Waits for its end; at once when it never started. */
void actor_join(struct actor *self);

#define ACTOR_FDS_MAX 20

/* Sleeps until one of count descriptors is readable (a bit each in the result) or the time is up
 * (0).
 */
uint32_t actor_sleep(const int *fds, unsigned count, uint64_t wait_ms);

#endif
