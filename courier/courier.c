// SPDX-License-Identifier: MIT
/*
 * The loop sleeps in curl_multi_poll, on the upstreams' sockets, the broker's and the actor's pipe.
 * The two ZeroMQ descriptors are edge-triggered, and sending can take the edge, too: both are read
 * dry as the last thing before every sleep.
 */
#include "courier/courier.h"

#include <stdlib.h>
#include <string.h>

#include <czmq.h>
#include <curl/curl.h>
#include <pthread.h>

#include "common/clock.h"
#include "common/log.h"
#include "courier/deliveries.h"
#include "courier/prober.h"
#include "courier/push.h"
#include "courier/upstreams.h"
#include "proto/lease_client.h"

#define STOP_MS        5000 /* for what is under way at the end */
#define SLEEP_MAX_MS   1000
#define NOTE_MAX_BYTES 256
#define KEY_MAX_BYTES  4096
#define BEARER         "Bearer "

/* What other threads may know. */
struct status {
    pthread_mutex_t mutex;
    uint32_t up;
    uint32_t total;
    char note[NOTE_MAX_BYTES];
};

struct courier {
    const struct options *options;
    const char *endpoint;
    const char *name;
    zactor_t *actor;
    struct err *start_err; /* only while starting */
    bool has_started;
    struct status status;
    /* Of the actor's thread. */
    struct buf authorization; /* with --upstream-key; else empty */
    upstreams_t *upstreams;
    CURLM *multi;
    lease_client_t *lease_client;
    deliveries_t *deliveries;
    prober_t *prober;
    uint64_t stop_at_ms; /* UINT64_MAX: not stopping */
};

static int set_authorization(courier_t *self, struct err *err)
{
    struct slice key = slice_of(self->options->upstream_key);
    buf_init(&self->authorization, KEY_MAX_BYTES + sizeof BEARER);
    if (key.len == 0)
        return 0;
    if (key.len > KEY_MAX_BYTES || !push_is_header_safe(key))
        return err_set(err, "--upstream-key: at most %d bytes, none of them a control byte",
                       KEY_MAX_BYTES);
    if (buf_add_str(&self->authorization, BEARER) == -1 ||
        buf_add(&self->authorization, key.data, key.len) == -1)
        abort();
    return 0;
}

static int open_all(courier_t *self, struct err *err)
{
    const struct options *options = self->options;
    unsigned workers = (unsigned)options->workers;
    self->upstreams = upstreams_new(&options->upstream, workers, clock_mono_ms(), err);
    if (!self->upstreams || set_authorization(self, err) == -1)
        return -1;
    self->lease_client = lease_client_new(self->endpoint, self->name, err);
    if (!self->lease_client)
        return -1;
    self->multi = curl_multi_init();
    if (!self->multi)
        abort();
    long connections = 2 * (long)workers + (long)upstreams_count(self->upstreams);
    curl_multi_setopt(self->multi, CURLMOPT_MAXCONNECTS, connections);
    struct deliveries_config config = {
        .workers = workers,
        .our_authorization = {self->authorization.data, self->authorization.len},
        .multi = self->multi,
        .lease_client = self->lease_client,
        .upstreams = self->upstreams,
    };
    self->deliveries = deliveries_new(&config);
    self->prober = prober_new(self->multi, self->upstreams);
    return 0;
}

static void close_all(courier_t *self)
{
    prober_destroy(&self->prober);
    deliveries_destroy(&self->deliveries);
    lease_client_destroy(&self->lease_client);
    if (self->multi)
        curl_multi_cleanup(self->multi);
    upstreams_destroy(&self->upstreams);
    buf_fini(&self->authorization);
}

static bool take_leases(courier_t *self, uint64_t now_ms)
{
    bool has_taken = false;
    lease_t *lease;
    while ((lease = lease_client_recv(self->lease_client, now_ms)) != NULL) {
        deliveries_add(self->deliveries, &lease);
        has_taken = true;
    }
    return has_taken;
}

static void take_results(courier_t *self, uint64_t now_ms)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(self->multi, &left)) != NULL) {
        CURL *handle = message->easy_handle; /* the message dies with the handle's removal */
        CURLcode code = message->data.result;
        if (message->msg == CURLMSG_DONE && !prober_ended(self->prober, handle, code, now_ms))
            deliveries_ended(self->deliveries, handle, code, now_ms);
    }
}

/* Slots that came free are filled and their transfers begun before the loop looks elsewhere. */
static void exchange(courier_t *self, uint64_t now_ms)
{
    int running;
    deliveries_turn(self->deliveries, now_ms);
    do {
        if (curl_multi_perform(self->multi, &running) != CURLM_OK)
            abort(); /* only without memory or by misuse */
        take_results(self, now_ms);
    } while (deliveries_turn(self->deliveries, now_ms));
}

static void report(courier_t *self)
{
    uint32_t up = upstreams_up(self->upstreams);
    uint32_t total = (uint32_t)upstreams_count(self->upstreams);
    struct buf note;
    buf_init(&note, NOTE_MAX_BYTES - 1);
    (void)!upstreams_note(self->upstreams, &note); /* what does not fit is left out */
    pthread_mutex_lock(&self->status.mutex);
    self->status.up = up;
    self->status.total = total;
    memcpy(self->status.note, note.len ? note.data : "", note.len);
    self->status.note[note.len] = '\0';
    pthread_mutex_unlock(&self->status.mutex);
    lease_client_upstreams(self->lease_client, up, total, self->status.note);
    buf_fini(&note);
}

static void check_pipe(courier_t *self, zsock_t *pipe, uint64_t now_ms)
{
    while (zsock_events(pipe) & ZMQ_POLLIN) {
        char *command = zstr_recv(pipe);
        if (!command || strcmp(command, "$TERM") == 0) {
            self->stop_at_ms = now_ms + STOP_MS;
            deliveries_stop(self->deliveries);
        }
        zstr_free(&command);
    }
}

static bool is_over(const courier_t *self, uint64_t now_ms)
{
    return self->stop_at_ms != UINT64_MAX &&
           (deliveries_are_idle(self->deliveries) || now_ms >= self->stop_at_ms);
}

static void sleep_until(courier_t *self, zsock_t *pipe, uint64_t at_ms, uint64_t now_ms)
{
    struct curl_waitfd fds[] = {
        {.fd = lease_client_fd(self->lease_client), .events = CURL_WAIT_POLLIN},
        {.fd = zsock_fd(pipe), .events = CURL_WAIT_POLLIN},
    };
    uint64_t wait_ms = at_ms > now_ms ? clock_sooner_ms(at_ms - now_ms, SLEEP_MAX_MS) : 0;
    curl_multi_poll(self->multi, fds, sizeof fds / sizeof fds[0], (int)wait_ms, NULL);
}

static void turn(courier_t *self, zsock_t *pipe)
{
    uint64_t now_ms = clock_mono_ms();
    take_leases(self, now_ms);
    uint64_t due_ms = clock_sooner_ms(prober_turn(self->prober, now_ms), self->stop_at_ms);
    exchange(self, now_ms);
    due_ms = clock_sooner_ms(due_ms, upstreams_tick(self->upstreams, now_ms, clock_random_unit()));
    deliveries_ask(self->deliveries, now_ms);
    report(self);
    due_ms = clock_sooner_ms(due_ms, now_ms + lease_client_tick(self->lease_client, now_ms));
    check_pipe(self, pipe, now_ms);
    if (take_leases(self, now_ms))
        due_ms = 0;
    if (!is_over(self, now_ms))
        sleep_until(self, pipe, due_ms, now_ms);
}

static void run(zsock_t *pipe, void *arg)
{
    courier_t *self = arg;
    log_thread_role("courier");
    self->has_started = open_all(self, self->start_err) == 0;
    zsock_signal(pipe, 0);
    if (self->has_started) {
        while (!is_over(self, clock_mono_ms())) {
            turn(self, pipe);
        }
    }
    close_all(self);
}

courier_t *courier_new(const struct options *options, const char *endpoint, const char *name,
                       struct err *err)
{
    courier_t *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    self->options = options;
    self->endpoint = endpoint;
    self->name = name;
    self->start_err = err;
    self->stop_at_ms = UINT64_MAX;
    self->status.total = (uint32_t)options->upstream.count;
    pthread_mutex_init(&self->status.mutex, NULL);
    self->actor = zactor_new(run, self);
    if (!self->actor)
        err_set(err, "no thread for the courier");
    if (!self->actor || !self->has_started)
        courier_destroy(&self);
    return self;
}

void courier_destroy(courier_t **self_p)
{
    courier_t *self = *self_p;
    if (!self)
        return;
    zactor_destroy(&self->actor);
    pthread_mutex_destroy(&self->status.mutex);
    free(self);
    *self_p = NULL;
}

int courier_readiness(void *arg, struct buf *text)
{
    courier_t *self = arg;
    struct status *status = &self->status;
    pthread_mutex_lock(&status->mutex);
    int rc = status->up > 0 ? buf_add_str(text, "ok")
                            : buf_add_str(text, "degraded; no upstream answered in the last 30 s");
    if (rc == 0 && status->note[0])
        rc = buf_printf(text, "; %s", status->note);
    pthread_mutex_unlock(&status->mutex);
    return rc == 0 ? 200 : 503;
}
