// SPDX-License-Identifier: MIT
#include "common/wait.h"

#include <errno.h>
#include <time.h>

void wait_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

static struct timespec time_of(uint64_t at_ms)
{
    return (struct timespec){.tv_sec = (time_t)(at_ms / 1000),
                             .tv_nsec = (long)(at_ms % 1000) * 1000000};
}

int wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ms)
{
    struct timespec at = time_of(at_ms);
    return pthread_cond_timedwait(cond, lock, &at);
}

bool wait_for(sem_t *semaphore, uint64_t at_ms)
{
    struct timespec at = time_of(at_ms);
    int rc;
    do {
        rc = sem_clockwait(semaphore, CLOCK_MONOTONIC, &at);
    } while (rc == -1 && errno == EINTR);
    return rc == 0;
}
