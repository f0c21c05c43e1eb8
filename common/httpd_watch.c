// SPDX-License-Identifier: MIT
/*
 * The library waits for each piece of a body anew, so a sender of one byte a second holds a thread
 * for ever. A signal without a restart makes the poll inside its read return early, and the read
 * with it; the worker then looks at the clock itself. The signal does nothing else, may come at any
 * moment, and is sent again until the worker reports the end of its read: one that hits between two
 * waits is lost.
 *
 * An interrupted read of a body with a length can go on, so such a worker is woken once a second to
 * look at its sender's pace. A chunked read that was interrupted is broken; there the watcher
 * judges by the bytes reported, and generously.
 *
 * The same signal ends all waits at the stop, which otherwise takes the library's poll of two
 * seconds.
 */
#include "common/httpd_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/httpd_pace.h"

#define TICK_MS        100
#define ENDING_TICK_MS 2
#define HURRY_TICK_MS \
    50 /* thousands of threads that are woken all the time get in each other's way */
#define WAKE_SIGNAL (SIGRTMIN + 3)

struct watch {
    pthread_t thread;
    pthread_mutex_t lock; /* registration, and against ending a thread that is being signalled */
    pthread_cond_t changed;
    bool is_ending;
    bool is_hurrying;
    size_t count;
    struct watch_slot *slots;
};

static void do_nothing(int number)
{
    (void)number;
}

/* What a read under way needs. */
enum need { NEED_NOTHING, NEED_A_LOOK, NEED_AN_END };

static enum need need_of(const struct watch_slot *slot, uint64_t now_ms)
{
    uint64_t due_ms = atomic_load(&slot->due_ms);
    if (due_ms == 0)
        return NEED_NOTHING;
    if (now_ms >= due_ms)
        return NEED_AN_END;
    uint64_t elapsed_ms = now_ms - atomic_load(&slot->since_ms);
    if (elapsed_ms < PACE_GRACE_MS)
        return NEED_NOTHING;
    if (atomic_load(&slot->is_resumable))
        return elapsed_ms % 1000 < TICK_MS ? NEED_A_LOOK : NEED_NOTHING;
    bool is_slow = pace_is_too_slow(elapsed_ms, atomic_load(&slot->bytes) + PACE_CHUNKED_STEP);
    return is_slow ? NEED_AN_END : NEED_NOTHING;
}

/* Returns after how many milliseconds to look again. */
static uint64_t look_at_all(watch_t *self)
{
    uint64_t now_ms = clock_mono_ms();
    bool is_any_ending = false;
    for (size_t i = 0; i < self->count; i++) {
        struct watch_slot *slot = &self->slots[i];
        if (!slot->is_registered)
            continue;
        enum need need = self->is_hurrying ? NEED_AN_END : need_of(slot, now_ms);
        is_any_ending |= need == NEED_AN_END;
        if (need == NEED_NOTHING)
            continue;
        atomic_store(&slot->was_woken, true);
        pthread_kill(slot->thread, WAKE_SIGNAL);
    }
    if (self->is_hurrying)
        return HURRY_TICK_MS;
    return is_any_ending ? ENDING_TICK_MS : TICK_MS;
}

static void wait_for_tick(watch_t *self, uint64_t tick_ms)
{
    struct timespec until;
    uint64_t at_ms = clock_mono_ms() + tick_ms;
    until.tv_sec = (time_t)(at_ms / 1000);
    until.tv_nsec = (long)(at_ms % 1000) * 1000000;
    pthread_cond_timedwait(&self->changed, &self->lock, &until);
}

static void *watch_run(void *arg)
{
    watch_t *self = arg;
    pthread_mutex_lock(&self->lock);
    while (!self->is_ending)
        wait_for_tick(self, look_at_all(self));
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void init_sync(watch_t *self)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&self->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&self->lock, NULL);
}

static void free_all(watch_t *self)
{
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    free(self->slots);
    free(self);
}

watch_t *watch_new(size_t count, struct err *err)
{
    watch_t *self = calloc(1, sizeof *self);
    struct watch_slot *slots = aligned_alloc(sizeof *slots, count * sizeof *slots);
    if (!self || !slots)
        abort();
    memset(slots, 0, count * sizeof *slots);
    self->slots = slots;
    self->count = count;
    init_sync(self);
    struct sigaction action = {.sa_handler = do_nothing};
    int error = sigaction(WAKE_SIGNAL, &action, NULL) == -1 ? errno : 0;
    if (error == 0)
        error = pthread_create(&self->thread, NULL, watch_run, self);
    if (error == 0)
        return self;
    err_set(err, "cannot start the thread that watches slow senders: %s", strerror(error));
    free_all(self);
    return NULL;
}

void watch_destroy(watch_t **self_p)
{
    watch_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    pthread_mutex_lock(&self->lock);
    self->is_ending = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    free_all(self);
}

struct watch_slot *watch_register(watch_t *self)
{
    sigset_t set; /* the role has blocked every signal in all threads; ours alone comes through */
    sigfillset(&set);
    sigdelset(&set, WAKE_SIGNAL);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    struct watch_slot *slot = NULL;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < self->count && !slot; i++)
        if (!self->slots[i].is_registered)
            slot = &self->slots[i];
    if (!slot)
        abort(); /* the library started more threads than it was told */
    slot->thread = pthread_self();
    slot->is_registered = true;
    pthread_mutex_unlock(&self->lock);
    return slot;
}

void watch_unregister(watch_t *self, struct watch_slot *slot)
{
    pthread_mutex_lock(&self->lock);
    slot->is_registered = false;
    pthread_mutex_unlock(&self->lock);
}

void watch_hurry(watch_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->is_hurrying = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

bool watch_is_any_busy(watch_t *self)
{
    for (size_t i = 0; i < self->count; i++)
        if (atomic_load(&self->slots[i].is_busy))
            return true;
    return false;
}
