// SPDX-License-Identifier: MIT
/*
 * Workers hand their requests over and sleep. The actor takes all that has gathered and
 * sends it as one SUBMIT; until that is answered the next requests gather, unseen and without
 * waking it, so batches grow with the load by themselves, as in the broker.
 *
 * With several brokers a request goes to the first that lives; what one refuses for its own reasons
 * (full, failed) or does not answer moves to the next that it was not sent to. Its idempotency key
 * makes it harmless when two of them stored it.
 */
#include "gateway/submitter.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/actor.h"
#include "common/clock.h"
#include "common/log.h"
#include "gateway/handoff.h"
#include "gateway/health.h"
#include "proto/submit_client.h"
#include "proto/wire.h"

#define BROKERS_MAX   16
#define START_WAIT_S  5   /* for a broker in this process, so that the door opens with one */
#define OVERDUE_MS    100 /* between looks for requests whose deadline has passed */
#define IN_FLIGHT_MAX 1   /* SUBMITs that one broker has not answered */
#define FRESH_MS      2500 /* what a broker said of itself holds for so long; it speaks each second */
#define OUTLOOK_BITS  3    /* of a verdict */

/* One SUBMIT under way. */
struct batch {
    struct batch *next;
    uint64_t seq;
    uint64_t sent_at_ms;
    uint64_t bytes;
    uint32_t count;
    struct pending *at[WIRE_SUBMIT_COUNT]; /* null: decided already */
};

struct broker {
    submit_client_t *client;
    struct batch *in_flight;
    unsigned in_flight_count;
    struct broker_health health;
    uint64_t status_at_ms; /* when it last spoke of itself */
};

struct submitter {
    const struct role_env *env;
    struct actor actor;
    struct handoff handoff;
    struct broker brokers[BROKERS_MAX];
    unsigned broker_count;
    struct pending *waiting; /* taken and not sent, oldest first */
    struct pending **waiting_end;
    unsigned channels; /* with decided requests, to wake at the end of the turn */
    uint64_t overdue_at_ms;
    struct batch *pool;
    uint64_t next_seq;
    uint64_t now_ms;
    uint64_t timeout_ms;
    pthread_mutex_t health_mutex;
    pthread_cond_t health_known;
    struct broker_health health;  /* guarded by health_mutex */
    atomic_uint_fast64_t outlook; /* 0: STORED; else a verdict, and until when above OUTLOOK_BITS */
};
static_assert(VERDICT_COUNT <= 1 << OUTLOOK_BITS, "a verdict fits");

/* --- verdicts ------------------------------------------------------------------------------ */

static void decide(submitter_t *self, struct pending *pending, enum verdict verdict)
{
    pending_decide(pending, verdict, &self->channels);
}

static void put_behind(submitter_t *self, struct pending *pending)
{
    pending->next = NULL;
    *self->waiting_end = pending;
    self->waiting_end = &pending->next;
}

static struct pending *take_first(submitter_t *self)
{
    struct pending *first = self->waiting;
    self->waiting = first->next;
    if (self->waiting == NULL)
        self->waiting_end = &self->waiting;
    return first;
}

static bool is_usable(const submitter_t *self, unsigned index, const struct pending *pending)
{
    return (pending->tried & 1U << index) == 0 &&
           submit_client_is_alive(self->brokers[index].client, self->now_ms);
}

/* A broker's answer about one request, or its silence: final, or on to the next broker. */
static void settle(submitter_t *self, struct pending *pending, enum verdict verdict)
{
    bool is_final = verdict == VERDICT_STORED || verdict == VERDICT_TOO_LARGE;
    pending->last = verdict;
    for (unsigned i = 0; !is_final && i < self->broker_count; i++) {
        if (!is_usable(self, i, pending))
            continue;
        put_behind(self, pending);
        return;
    }
    decide(self, pending, verdict);
}

/* Ends a SUBMIT; verdicts has one byte a request, or is null: `verdict` for all. */
static void end_batch(submitter_t *self, struct broker *broker, struct batch **at,
                      const char *verdicts, enum verdict verdict)
{
    struct batch *batch = *at;
    *at = batch->next;
    broker->in_flight_count--;
    submit_client_forget(broker->client, batch->bytes);
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->at[i] == NULL)
            continue;
        unsigned char said = verdicts != NULL ? (unsigned char)verdicts[i] : (unsigned char)verdict;
        settle(self, batch->at[i], said <= VERDICT_FAILED ? (enum verdict)said : verdict);
    }
    batch->next = self->pool;
    self->pool = batch;
}

static void on_stored(submitter_t *self, struct broker *broker, const struct submit_news *news)
{
    struct batch **at = &broker->in_flight;
    while (*at != NULL && (*at)->seq != news->seq)
        at = &(*at)->next;
    if (*at == NULL)
        return; /* given up already */
    bool is_whole = news->verdicts.len == (*at)->count;
    end_batch(self, broker, at, is_whole ? news->verdicts.data : NULL, VERDICT_FAILED);
}

static void end_all(submitter_t *self, struct broker *broker, enum verdict verdict)
{
    while (broker->in_flight != NULL)
        end_batch(self, broker, &broker->in_flight, NULL, verdict);
}

/* --- health -------------------------------------------------------------------------------- */

static void copy_text(char *out, size_t size, struct slice text)
{
    snprintf(out, size, SLICE_FORMAT, SLICE_ARGS(text));
}

static void on_status(struct broker *broker, const struct submit_status *status, uint64_t now_ms)
{
    broker->status_at_ms = now_ms;
    struct broker_health *health = &broker->health;
    health->used_bytes = status->used_bytes;
    health->max_bytes = status->max_bytes;
    health->has_upstreams = status->upstreams_total > 0;
    health->upstreams_up = status->upstreams_up;
    health->upstreams_total = status->upstreams_total;
    health->oldest_s = status->oldest_s;
    copy_text(health->intake, sizeof health->intake, status->intake);
    copy_text(health->note, sizeof health->note, status->note);
}

/* What the gateway as a whole can say: the first broker that takes requests, else the first that
 * lives. */
static void publish_health(submitter_t *self)
{
    const struct broker *best = NULL;
    struct broker_health health = {.max_record = self->health.max_record};
    for (unsigned i = 0; i < self->broker_count; i++) {
        struct broker *broker = &self->brokers[i];
        if (!submit_client_is_alive(broker->client, self->now_ms))
            continue;
        if (best == NULL ||
            (strcmp(best->health.intake, "ok") != 0 && strcmp(broker->health.intake, "ok") == 0))
            best = broker;
    }
    if (best != NULL) {
        health = best->health;
        health.is_alive = true;
        health.max_record = submit_client_max_record(best->client);
    }
    pthread_mutex_lock(&self->health_mutex);
    self->health = health;
    if (health.is_alive)
        pthread_cond_broadcast(&self->health_known);
    pthread_mutex_unlock(&self->health_mutex);
}

/* One broker that lives and does not say that it refuses is enough to try. */
static void publish_outlook(submitter_t *self)
{
    uint64_t outlook = 0;
    for (unsigned i = 0; i < self->broker_count; i++) {
        const struct broker *broker = &self->brokers[i];
        if (!submit_client_is_alive(broker->client, self->now_ms))
            continue;
        enum verdict verdict = health_verdict(&broker->health);
        uint64_t until_ms = broker->status_at_ms + FRESH_MS;
        if (verdict == VERDICT_STORED || until_ms <= self->now_ms) {
            outlook = 0;
            break;
        }
        uint64_t one = until_ms << OUTLOOK_BITS | (uint64_t)verdict;
        outlook = outlook == 0 || one < outlook ? one : outlook;
    }
    atomic_store_explicit(&self->outlook, outlook, memory_order_relaxed);
}

enum verdict submitter_outlook(const submitter_t *self)
{
    uint64_t outlook = atomic_load_explicit(&self->outlook, memory_order_relaxed);
    if (outlook == 0 || clock_mono_ms() >= outlook >> OUTLOOK_BITS)
        return VERDICT_STORED;
    return (enum verdict)(outlook & ((1U << OUTLOOK_BITS) - 1));
}

void submitter_health(submitter_t *self, struct broker_health *health)
{
    pthread_mutex_lock(&self->health_mutex);
    *health = self->health;
    pthread_mutex_unlock(&self->health_mutex);
}

/* --- sending ------------------------------------------------------------------------------- */

static void release_frame(void *data, void *hint)
{
    (void)data;
    pending_release(hint);
}

static struct batch *take_batch_memory(submitter_t *self)
{
    struct batch *batch = self->pool;
    if (batch != NULL)
        self->pool = batch->next;
    else
        batch = malloc(sizeof *batch);
    if (batch == NULL)
        abort();
    batch->count = 0;
    batch->bytes = 0;
    return batch;
}

/* Where a request goes next: the first broker it may go to; null with the verdict when there is
 * none. */
static struct broker *route(submitter_t *self, const struct pending *pending, enum verdict *refusal)
{
    *refusal = pending->tried != 0 ? pending->last : VERDICT_NO_BROKER;
    for (unsigned i = 0; i < self->broker_count; i++) {
        struct broker *broker = &self->brokers[i];
        if (!is_usable(self, i, pending))
            continue;
        if (pending->body.len <= submit_client_max_record(broker->client))
            return broker;
        *refusal = VERDICT_TOO_LARGE;
        return NULL;
    }
    return NULL;
}

static bool fits(const struct batch *batch, const struct broker *broker,
                 const struct pending *pending)
{
    uint64_t bytes = batch->bytes + pending_bytes(pending);
    return batch->count < WIRE_SUBMIT_COUNT && bytes <= submit_client_window(broker->client) &&
           (batch->count == 0 || bytes <= WIRE_SUBMIT_BYTES);
}

static void send_batch(submitter_t *self, struct broker *broker, struct batch *batch)
{
    unsigned index = (unsigned)(broker - self->brokers);
    batch->seq = self->next_seq++;
    batch->sent_at_ms = self->now_ms;
    bool is_sent = submit_client_begin(broker->client, batch->seq, batch->count, batch->bytes,
                                       self->now_ms) == 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct pending *pending = batch->at[i];
        pending->tried |= 1U << index;
        if (!is_sent)
            continue;
        pending_hold(pending, 2);
        submit_client_add(broker->client, pending->meta, pending->body, release_frame, pending,
                          i + 1 == batch->count);
    }
    struct batch **end = &broker->in_flight;
    while (*end != NULL)
        end = &(*end)->next;
    batch->next = NULL;
    *end = batch;
    broker->in_flight_count++;
    if (!is_sent)
        end_batch(self, broker, end, NULL, VERDICT_NO_BROKER);
}

/* Moves what waits into the batch, as far as it goes the same way and fits. */
static void fill_batch(submitter_t *self, struct broker *broker, struct batch *batch)
{
    uint32_t tried = self->waiting->tried;
    while (self->waiting != NULL && self->waiting->tried == tried &&
           fits(batch, broker, self->waiting)) {
        struct pending *pending = take_first(self);
        batch->at[batch->count++] = pending;
        batch->bytes += pending_bytes(pending);
    }
}

/* Sends what waits, in order, as full SUBMITs, until the broker that is next has enough to do. */
static void send_waiting(submitter_t *self)
{
    while (self->waiting != NULL) {
        enum verdict refusal;
        struct broker *broker = route(self, self->waiting, &refusal);
        if (broker == NULL) {
            decide(self, take_first(self), refusal);
            continue;
        }
        if (broker->in_flight_count >= IN_FLIGHT_MAX)
            return;
        struct batch *batch = take_batch_memory(self);
        fill_batch(self, broker, batch);
        if (batch->count == 0) { /* over the broker's window: never queued */
            struct pending *pending = take_first(self);
            pending->tried |= 1U << (unsigned)(broker - self->brokers);
            settle(self, pending, VERDICT_NO_BROKER);
            batch->next = self->pool;
            self->pool = batch;
            continue;
        }
        send_batch(self, broker, batch);
    }
}

static void take_handed_over(submitter_t *self)
{
    struct pending *pending = handoff_take(&self->handoff);
    if (pending == NULL)
        return;
    *self->waiting_end = pending;
    while (pending->next != NULL)
        pending = pending->next;
    self->waiting_end = &pending->next;
}

/* Workers sleep without a limit of their own: here their deadlines are kept. */
static void end_overdue(submitter_t *self)
{
    struct pending *waiting = self->waiting;
    self->waiting = NULL;
    self->waiting_end = &self->waiting;
    while (waiting != NULL) {
        struct pending *next = waiting->next;
        if (self->now_ms >= waiting->deadline_ms)
            decide(self, waiting, VERDICT_TIMED_OUT);
        else
            put_behind(self, waiting);
        waiting = next;
    }
    for (unsigned i = 0; i < self->broker_count; i++)
        for (struct batch *batch = self->brokers[i].in_flight; batch; batch = batch->next)
            for (uint32_t k = 0; k < batch->count; k++) {
                if (batch->at[k] == NULL || self->now_ms < batch->at[k]->deadline_ms)
                    continue;
                decide(self, batch->at[k], VERDICT_TIMED_OUT);
                batch->at[k] = NULL;
            }
    self->overdue_at_ms = self->now_ms + OVERDUE_MS;
}

/* --- the loop ------------------------------------------------------------------------------ */

static void hear(submitter_t *self, struct broker *broker)
{
    struct submit_news news;
    enum submit_event event;
    while ((event = submit_client_recv(broker->client, &news, self->now_ms)) != SUBMIT_NOTHING) {
        if (event == SUBMIT_STORED)
            on_stored(self, broker, &news);
        else if (event == SUBMIT_STATUS)
            on_status(broker, &news.status, self->now_ms);
        else
            end_all(self, broker, VERDICT_NO_BROKER);
        if (event == SUBMIT_LOST)
            broker->health = (struct broker_health){0};
    }
    while (broker->in_flight != NULL &&
           self->now_ms >= broker->in_flight->sent_at_ms + self->timeout_ms)
        end_batch(self, broker, &broker->in_flight, NULL, VERDICT_TIMED_OUT);
}

/* Every broker has enough to do. */
static bool is_busy(const submitter_t *self)
{
    for (unsigned i = 0; i < self->broker_count; i++)
        if (self->brokers[i].in_flight_count < IN_FLIGHT_MAX)
            return false;
    return true;
}

static bool is_idle(const submitter_t *self)
{
    for (unsigned i = 0; i < self->broker_count; i++)
        if (self->brokers[i].in_flight_count > 0)
            return false;
    return self->waiting == NULL;
}

/* One pass; returns milliseconds to sleep. */
static uint64_t turn(submitter_t *self)
{
    uint64_t wait_ms = 1000;
    self->now_ms = clock_mono_ms();
    for (unsigned i = 0; i < self->broker_count; i++) {
        uint64_t client_ms = submit_client_tick(self->brokers[i].client, self->now_ms);
        wait_ms = client_ms < wait_ms ? client_ms : wait_ms;
        hear(self, &self->brokers[i]);
    }
    take_handed_over(self);
    send_waiting(self);
    if (self->now_ms >= self->overdue_at_ms)
        end_overdue(self);
    handoff_wake(&self->handoff, self->channels); /* behind the sending: the woken must not keep
                                                     the disk waiting */
    self->channels = 0;
    publish_health(self);
    publish_outlook(self);
    return is_idle(self) || wait_ms < OVERDUE_MS ? wait_ms : OVERDUE_MS;
}

static void sleep_until_called(submitter_t *self, uint64_t wait_ms)
{
    int fds[1 + BROKERS_MAX] = {self->handoff.fd};
    for (unsigned i = 0; i < self->broker_count; i++) {
        fds[1 + i] = submit_client_fd(self->brokers[i].client);
        if (!submit_client_may_sleep(self->brokers[i].client))
            return;
    }
    /* While every broker has enough to do, new requests need not wake this thread. */
    if (!is_busy(self) && !handoff_may_sleep(&self->handoff))
        return;
    handoff_woken(&self->handoff, actor_sleep(fds, 1 + self->broker_count, wait_ms) & 1);
}

static void *run(void *arg)
{
    submitter_t *self = arg;
    log_thread_role("submitter");
    while (!handoff_is_closed(&self->handoff))
        sleep_until_called(self, turn(self));
    take_handed_over(self);
    for (unsigned i = 0; i < self->broker_count; i++)
        end_all(self, &self->brokers[i], VERDICT_NO_BROKER);
    for (unsigned i = 0; i < self->broker_count; i++)
        submit_client_destroy(&self->brokers[i].client);
    while (self->waiting != NULL)
        decide(self, take_first(self), VERDICT_NO_BROKER);
    handoff_wake(&self->handoff, self->channels);
    return NULL;
}

/* --- from other threads -------------------------------------------------------------------- */

enum verdict submitter_submit(submitter_t *self, struct slice meta, struct buf *body,
                              uint64_t deadline_ms)
{
    return handoff_submit(&self->handoff, meta, body, deadline_ms);
}

static int add_broker(submitter_t *self, const char *endpoint, struct err *err)
{
    if (self->broker_count == BROKERS_MAX)
        return err_set(err, "more than %d brokers", BROKERS_MAX);
    struct broker *broker = &self->brokers[self->broker_count];
    broker->client = submit_client_new(endpoint, self->env->name, self->timeout_ms, err);
    if (broker->client == NULL)
        return -1;
    self->broker_count++;
    return 0;
}

static int add_brokers(submitter_t *self, struct err *err)
{
    const struct text_list *listed = &self->env->options->broker;
    bool is_relay = self->env->roles & R_BROKER;
    if (is_relay || listed->count == 0)
        return add_broker(self, self->env->gateway_endpoint, err);
    for (size_t i = 0; i < listed->count; i++)
        if (add_broker(self, listed->items[i], err) == -1)
            return -1;
    return 0;
}

static void await_broker(submitter_t *self)
{
    int rc = 0;
    struct timespec until = (struct timespec){.tv_sec = (time_t)clock_wall_s() + START_WAIT_S};
    pthread_mutex_lock(&self->health_mutex);
    while (rc == 0 && !self->health.is_alive)
        rc = pthread_cond_timedwait(&self->health_known, &self->health_mutex, &until);
    pthread_mutex_unlock(&self->health_mutex);
}

submitter_t *submitter_new(const struct role_env *env, struct err *err)
{
    submitter_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->env = env;
    self->next_seq = 1;
    self->timeout_ms = env->options->broker_timeout;
    self->waiting_end = &self->waiting;
    self->handoff.fd = -1;
    pthread_mutex_init(&self->health_mutex, NULL);
    pthread_cond_init(&self->health_known, NULL);
    if (handoff_init(&self->handoff, err) == -1 || add_brokers(self, err) == -1 ||
        actor_start(&self->actor, run, self, err) == -1) {
        submitter_destroy(&self);
        return NULL;
    }
    if (env->roles & R_BROKER)
        await_broker(self);
    return self;
}

void submitter_destroy(submitter_t **self_p)
{
    submitter_t *self = *self_p;
    if (self == NULL)
        return;
    handoff_close(&self->handoff);
    actor_join(&self->actor);
    for (unsigned i = 0; i < self->broker_count; i++)
        submit_client_destroy(&self->brokers[i].client);
    while (self->pool != NULL) {
        struct batch *next = self->pool->next;
        free(self->pool);
        self->pool = next;
    }
    handoff_fini(&self->handoff);
    pthread_cond_destroy(&self->health_known);
    pthread_mutex_destroy(&self->health_mutex);
    free(self);
    *self_p = NULL;
}
