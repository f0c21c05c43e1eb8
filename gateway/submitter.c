// SPDX-License-Identifier: MIT
/*
 * Workers post their requests into a mailbox and sleep. The actor takes all that has gathered and
 * sends it as one SUBMIT; until that is answered the next requests gather, unseen and without
 * waking it, so batches grow with the load by themselves, as in the broker.
 *
 * With several brokers a request goes to the first that lives; what one refuses for its own reasons
 * (full, failed) or does not answer moves to the next that it was not sent to. Its idempotency key
 * makes it harmless when two of them stored it.
 */
#include "gateway/submitter.h"

#include <assert.h>
#include <czmq.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "gateway/pending.h"
#include "proto/submit_client.h"
#include "proto/wire.h"

#define BROKERS_MAX   16
#define START_WAIT_S  5 /* for a broker in this process, so that the door opens with one */
#define IN_FLIGHT_MAX 1 /* SUBMITs that one broker has not answered */

/* One SUBMIT under way. */
struct batch {
    struct batch *next;
    uint64_t seq;
    uint64_t sent_at_ms;
    uint64_t bytes;
    uint32_t count;
    struct pending *at[WIRE_SUBMIT_COUNT];
};

struct broker {
    submit_client_t *client;
    struct batch *in_flight;
    unsigned in_flight_count;
    struct broker_health health;
};

struct submitter {
    const struct role_env *env;
    zactor_t *actor;
    struct mailbox mailbox;
    struct waves waves;
    struct broker brokers[BROKERS_MAX];
    unsigned broker_count;
    struct mailbox_item *waiting; /* taken and not sent, oldest first */
    struct mailbox_item **waiting_end;
    struct batch *pool;
    uint64_t next_seq;
    uint64_t now_ms;
    uint64_t timeout_ms;
    bool is_stopping;
    pthread_mutex_t health_mutex;
    pthread_cond_t health_known;
    struct broker_health health; /* guarded by health_mutex */
};

/* --- verdicts ------------------------------------------------------------------------------ */

static void put_behind(submitter_t *self, struct pending *pending)
{
    pending->item.next = NULL;
    *self->waiting_end = &pending->item;
    self->waiting_end = &pending->item.next;
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
        if (!is_usable(self, i, pending) || pending_is_abandoned(pending))
            continue;
        put_behind(self, pending);
        return;
    }
    pending_decide(pending, verdict);
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

static void on_status(struct broker *broker, const struct submit_status *status)
{
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

/* Where a request goes next: the first broker it may go to. Decides it when there is none; null
 * then. */
static struct broker *route(submitter_t *self, struct pending *pending)
{
    enum verdict refusal = pending->tried != 0 ? pending->last : VERDICT_NO_BROKER;
    if (pending_is_abandoned(pending))
        goto decide;
    for (unsigned i = 0; i < self->broker_count; i++) {
        struct broker *broker = &self->brokers[i];
        if (!is_usable(self, i, pending))
            continue;
        if (pending->body.len > submit_client_max_record(broker->client)) {
            refusal = VERDICT_TOO_LARGE;
            goto decide;
        }
        return broker;
    }
decide:
    pending_decide(pending, refusal);
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

/* Sends what waits, in order, as full SUBMITs, until the broker that is next has enough to do. */
static void send_waiting(submitter_t *self)
{
    while (self->waiting != NULL) {
        struct pending *first = (struct pending *)self->waiting;
        struct mailbox_item *rest = first->item.next;
        struct broker *broker = route(self, first);
        if (broker != NULL && broker->in_flight_count >= IN_FLIGHT_MAX)
            return;
        if (broker == NULL) {
            self->waiting = rest;
            self->waiting_end = rest != NULL ? self->waiting_end : &self->waiting;
            continue;
        }
        struct batch *batch = take_batch_memory(self);
        while (self->waiting != NULL && fits(batch, broker, (struct pending *)self->waiting)) {
            struct pending *pending = (struct pending *)self->waiting;
            if (pending != first && pending->tried != first->tried)
                break;
            self->waiting = pending->item.next;
            batch->at[batch->count++] = pending;
            batch->bytes += pending_bytes(pending);
        }
        if (self->waiting == NULL)
            self->waiting_end = &self->waiting;
        if (batch->count > 0) {
            send_batch(self, broker, batch);
            continue;
        }
        /* Over the broker's window: never queued. */
        batch->next = self->pool;
        self->pool = batch;
        self->waiting = rest;
        self->waiting_end = rest != NULL ? self->waiting_end : &self->waiting;
        first->tried |= 1U << (unsigned)(broker - self->brokers);
        settle(self, first, VERDICT_NO_BROKER);
    }
}

static void take_posts(submitter_t *self)
{
    struct mailbox_item *item = mailbox_take(&self->mailbox);
    if (item == NULL)
        return;
    waves_turn(&self->waves);
    *self->waiting_end = item;
    while (item->next != NULL)
        item = item->next;
    self->waiting_end = &item->next;
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
            on_status(broker, &news.status);
        else
            end_all(self, broker, VERDICT_NO_BROKER);
        if (event == SUBMIT_LOST)
            broker->health = (struct broker_health){0};
    }
    while (broker->in_flight != NULL &&
           self->now_ms >= broker->in_flight->sent_at_ms + self->timeout_ms)
        end_batch(self, broker, &broker->in_flight, NULL, VERDICT_TIMED_OUT);
}

static bool is_busy(const submitter_t *self)
{
    for (unsigned i = 0; i < self->broker_count; i++)
        if (self->brokers[i].in_flight_count < IN_FLIGHT_MAX)
            return false;
    return true;
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
    take_posts(self);
    send_waiting(self);
    waves_wake(&self->waves); /* behind the sending: the woken must not keep the disk waiting */
    publish_health(self);
    return wait_ms;
}

static void sleep_until_called(submitter_t *self, zsock_t *pipe, uint64_t wait_ms)
{
    zmq_pollitem_t items[2 + BROKERS_MAX] = {
        {.socket = zsock_resolve(pipe), .events = ZMQ_POLLIN},
        {.fd = mailbox_fd(&self->mailbox), .events = ZMQ_POLLIN},
    };
    for (unsigned i = 0; i < self->broker_count; i++)
        items[2 + i] = (zmq_pollitem_t){.socket = submit_client_socket(self->brokers[i].client),
                                        .events = ZMQ_POLLIN};
    /* While every broker has enough to do, new requests need not wake this thread. */
    if (is_busy(self))
        items[1].events = 0;
    else if (!mailbox_may_sleep(&self->mailbox))
        wait_ms = 0;
    (void)!zmq_poll(items, 2 + (int)self->broker_count, (long)wait_ms);
    if (items[1].events != 0)
        mailbox_woken(&self->mailbox, items[1].revents != 0);
    if (items[0].revents != 0) {
        char *command = zstr_recv(pipe);
        self->is_stopping = true;
        zstr_free(&command);
    }
}

static void run(zsock_t *pipe, void *arg)
{
    submitter_t *self = arg;
    log_thread_role("submitter");
    zsock_signal(pipe, 0);
    while (!self->is_stopping)
        sleep_until_called(self, pipe, turn(self));
    take_posts(self);
    for (unsigned i = 0; i < self->broker_count; i++) {
        end_all(self, &self->brokers[i], VERDICT_NO_BROKER);
        submit_client_destroy(&self->brokers[i].client);
    }
    while (self->waiting != NULL) {
        struct pending *pending = (struct pending *)self->waiting;
        self->waiting = pending->item.next;
        pending_decide(pending, VERDICT_NO_BROKER);
    }
    waves_wake(&self->waves);
}

/* --- from other threads -------------------------------------------------------------------- */

enum verdict submitter_submit(submitter_t *self, struct slice meta, struct buf *body,
                              uint64_t deadline_ms)
{
    struct pending *pending = pending_new(&self->waves, meta, body);
    pending_hold(pending, 1);
    mailbox_post(&self->mailbox, &pending->item);
    return pending_wait(pending, deadline_ms);
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
    self->mailbox.fd = -1;
    pthread_mutex_init(&self->health_mutex, NULL);
    pthread_cond_init(&self->health_known, NULL);
    if (mailbox_init(&self->mailbox, err) == -1 || add_brokers(self, err) == -1) {
        submitter_destroy(&self);
        return NULL;
    }
    self->actor = zactor_new(run, self);
    if (env->roles & R_BROKER)
        await_broker(self);
    return self;
}

void submitter_destroy(submitter_t **self_p)
{
    submitter_t *self = *self_p;
    if (self == NULL)
        return;
    zactor_destroy(&self->actor);
    for (unsigned i = 0; i < self->broker_count; i++)
        submit_client_destroy(&self->brokers[i].client);
    while (self->pool != NULL) {
        struct batch *next = self->pool->next;
        free(self->pool);
        self->pool = next;
    }
    mailbox_fini(&self->mailbox);
    pthread_cond_destroy(&self->health_known);
    pthread_mutex_destroy(&self->health_mutex);
    free(self);
    *self_p = NULL;
}
