// SPDX-License-Identifier: MIT
/* wait: conditions and semaphores that wait until a moment of clock_mono_ms. */
#ifndef MCPD_WAIT_H
#define MCPD_WAIT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

void wait_init(pthread_cond_t *cond);
/* As pthread_cond_timedwait: 0 or ETIMEDOUT. */
int wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ms);

/* Takes one from the semaphore; false when there was none by then. */
bool wait_for(sem_t *semaphore, uint64_t at_ms);

#endif
