// SPDX-License-Identifier: MIT
/*
 * One thread that asks the store and one lock over the state, which is never held while the store
 * is asked. Who asks for a claim looks at the clock himself (leader_tick), so a thread that is
 * stuck or frozen prolongs no belief.
 */
#include "store/leading.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/wait.h"
#include "proto/codec.h"
#include "store/leader.h"

#define LOG_EVERY_MS 10000

struct leading {
    const struct backend *backend;
    backend_conn_t *conn; /* the thread's */
    char holder[LEASE_HOLDER_LEN + 1];
    uint64_t pass_ms;
    struct log_limit log_limit; /* the thread's */
    pthread_t thread;
    bool is_started;
    pthread_mutex_t lock;
    pthread_cond_t stirred; /* for the thread */
    pthread_cond_t changed; /* for leading_wait */
    struct leader leader;
    unsigned changes; /* won or lost, or woken */
    bool is_stopping;
};

/* Tells of a change; the lock is held, so that the lines come in order. */
static void tell(leading_t *self, enum leader_change change, int64_t fence)
{
    metrics_set(METRIC_lease_held, self->leader.is_leader);
    metrics_set(METRIC_lease_fence, self->leader.highest_fence);
    if (change == LEADER_STAYS)
        return;
    if (change == LEADER_WON)
        log_at(LEVEL_INFO, "lease.won", NULL, LOG_NUM("fence", fence),
               LOG_TEXT("holder", self->holder));
    else
        log_at(LEVEL_WARN, "lease.lost", NULL, LOG_NUM("fence", fence),
               LOG_TEXT("reason", self->leader.lost_reason));
    self->changes++;
    pthread_cond_broadcast(&self->changed);
    pthread_cond_signal(&self->stirred);
}

/* The lock is held. */
static void tick(leading_t *self, uint64_t now_ms)
{
    int64_t fence = self->leader.fence;
    if (leader_tick(&self->leader, now_ms) != LEADER_STAYS)
        tell(self, LEADER_LOST, fence);
}

static void note_failure(leading_t *self, const struct err *err)
{
    metrics_add(METRIC_lease_failures, 1);
    if (log_allowed(&self->log_limit, LOG_EVERY_MS, clock_mono_ms()))
        log_at(LEVEL_WARN, "lease.failing", NULL, LOG_TEXT("reason", err->text),
               LOG_NUM("swallowed", self->log_limit.swallowed));
}

/* One bid or renewal. The lock is held, but not while the store is asked. */
static void ask(leading_t *self, uint64_t now_ms)
{
    struct lease_row row = {0};
    struct err err = {{0}};
    bool is_leader = self->leader.is_leader;
    int64_t fence = is_leader ? self->leader.fence : self->leader.highest_fence;
    struct lease_call call = {
        .holder = self->holder,
        .fence = fence,
        .ttl_ms = leader_ttl_ms(self->pass_ms),
        .deadline_ms = clock_mono_ms() + leader_limit_ms(&self->leader, now_ms),
    };
    pthread_mutex_unlock(&self->lock);
    enum backend_status status = is_leader
                                     ? self->backend->lease_renew(self->conn, &call, &row, &err)
                                     : self->backend->lease_bid(self->conn, &call, &row, &err);
    if (status == BACKEND_AWAY)
        note_failure(self, &err);
    pthread_mutex_lock(&self->lock);
    /* A fenced write may have ended the leadership meanwhile: the answer is then an old one's. */
    if (is_leader && (!self->leader.is_leader || self->leader.fence != fence))
        return;
    enum leader_change change =
        leader_answered(&self->leader, status, &row, now_ms, clock_boot_ms(), clock_random_unit());
    tell(self, change, change == LEADER_LOST ? fence : self->leader.fence);
}

static void *run(void *arg)
{
    leading_t *self = arg;
    log_thread_role("daemon");
    pthread_mutex_lock(&self->lock);
    while (!self->is_stopping) {
        uint64_t now_ms = clock_boot_ms();
        tick(self, now_ms);
        uint64_t wait_ms = clock_until_ms(leader_next_ms(&self->leader), now_ms);
        if (wait_ms > 0)
            wait_until(&self->stirred, &self->lock, clock_mono_ms() + wait_ms);
        else
            ask(self, now_ms);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

leading_t *leading_new(const struct backend *backend, backend_store_t *store, uint64_t pass_ms,
                       struct err *err)
{
    uint8_t bits[LEASE_HOLDER_LEN / 2];
    leading_t *self = calloc(1, sizeof *self);
    assert(self);
    self->backend = backend;
    self->pass_ms = pass_ms;
    clock_random(bits, sizeof bits);
    codec_hex_encode(bits, sizeof bits, self->holder);
    leader_init(&self->leader, pass_ms, clock_boot_ms());
    pthread_mutex_init(&self->lock, NULL);
    wait_init(&self->stirred);
    wait_init(&self->changed);
    self->conn = backend->connect(store, true, err);
    if (self->conn) {
        self->is_started = pthread_create(&self->thread, NULL, run, self) == 0;
        if (!self->is_started)
            err_set(err, "cannot start the thread of the lease");
    }
    if (!self->is_started)
        leading_destroy(&self);
    return self;
}

/* The thread has ended. */
static void give_up(leading_t *self)
{
    struct err err = {{0}};
    struct lease_call call = {
        .holder = self->holder,
        .fence = self->leader.fence,
        .deadline_ms = clock_mono_ms() + leader_try_ms(self->pass_ms),
    };
    if (!self->leader.is_leader)
        return;
    enum backend_status status = self->backend->lease_give_up(self->conn, &call, &err);
    if (status == BACKEND_AWAY)
        log_at(LEVEL_WARN, "lease.not_given_up", NULL, LOG_NUM("fence", call.fence),
               LOG_TEXT("reason", err.text));
    else
        log_at(LEVEL_INFO, "lease.given_up", NULL, LOG_NUM("fence", call.fence));
    metrics_set(METRIC_lease_held, 0);
}

void leading_destroy(leading_t **self_p)
{
    leading_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    if (self->is_started) {
        pthread_mutex_lock(&self->lock);
        self->is_stopping = true;
        pthread_cond_signal(&self->stirred);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
        give_up(self);
    }
    self->backend->disconnect(&self->conn);
    pthread_cond_destroy(&self->changed);
    pthread_cond_destroy(&self->stirred);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

const char *leading_holder(const leading_t *self)
{
    return self->holder;
}

/* The lock is held. */
static uint64_t trust_left_ms(leading_t *self)
{
    uint64_t now_ms = clock_boot_ms();
    tick(self, now_ms);
    return leader_trust_left_ms(&self->leader, now_ms);
}

uint64_t leading_claim(leading_t *self, struct lease_claim *claim)
{
    pthread_mutex_lock(&self->lock);
    uint64_t left_ms = trust_left_ms(self);
    *claim = (struct lease_claim){
        .fence = self->leader.fence,
        .limit_ms = leader_fenced_ms(self->pass_ms),
    };
    memcpy(claim->holder, self->holder, sizeof claim->holder);
    pthread_mutex_unlock(&self->lock);
    return left_ms;
}

uint64_t leading_holds(leading_t *self, const struct lease_claim *claim)
{
    struct lease_claim now;
    uint64_t left_ms = leading_claim(self, &now);
    return now.fence == claim->fence ? left_ms : 0;
}

void leading_fenced(leading_t *self, const struct lease_claim *claim)
{
    pthread_mutex_lock(&self->lock);
    enum leader_change change = leader_fenced(&self->leader, claim->fence, clock_boot_ms());
    tell(self, change, claim->fence);
    pthread_mutex_unlock(&self->lock);
}

void leading_wait(leading_t *self, uint64_t at_ms, unsigned *seen)
{
    pthread_mutex_lock(&self->lock);
    if (*seen == self->changes)
        wait_until(&self->changed, &self->lock, at_ms);
    *seen = self->changes;
    pthread_mutex_unlock(&self->lock);
}

void leading_wake(leading_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->changes++;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}
