// SPDX-License-Identifier: MIT
/*
 * A turn: read what gateways sent, up to a cap; append up to one batch of it with one sync;
 * acknowledge; tell delivery. There is no timer: the requests that arrive during one sync are the
 * next batch. A SUBMIT stays whole, so its verdicts go back in one STORED.
 *
 * What was read and is not answered counts against its gateway's window; a gateway that goes over
 * it again and again is cut off, as nothing else bounds what it makes this process hold.
 */
#include "broker/intake.h"

#include <assert.h>
#include <czmq.h>
#include <stdlib.h>
#include <string.h>

#include "broker/appender.h"
#include "broker/gateways.h"
#include "broker/peer_socket.h"
#include "broker/posts.h"
#include "broker/status.h"
#include "common/actor.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "proto/frames.h"
#include "proto/request.h"
#include "proto/verdict.h"

#define DRAIN_MESSAGES   256
#define DRAIN_US         5000
#define QUEUED_MAX       64 /* SUBMITs read ahead from a gateway that does not wait for answers */
#define LOOK_MS          20 /* between looks at whether STATUS has news */
#define FRAME_SLACK      ((uint64_t)64 * 1024) /* over the largest body, before a peer is cut off */
#define WINDOW_BYTES_MIN ((uint64_t)256 * 1024 * 1024)
#define WINDOW_RECORDS   4 /* the window holds at least so many of the largest records */
#define LOG_REPEAT_MS    10000
#define FIRST_REQUEST    2 /* index of its meta frame, behind routing id and header */

/* A SUBMIT that was read; its frames are kept until it is answered. */
struct submission {
    struct submission *next;
    struct gateway *from;
    uint64_t seq;
    uint32_t count;
    size_t bytes; /* meta and body */
    struct frames frames;
    unsigned char verdicts[WIRE_SUBMIT_COUNT];
};

struct intake {
    struct broker_core *core;
    struct actor actor;
    zsock_t *socket;
    void *router; /* the same, raw */
    appender_t *appender;
    struct gateways gateways;
    struct submission *spare; /* what is received into */
    struct submission *pool;  /* others that wait for reuse */
    struct submission *queue; /* read and not answered, oldest first */
    struct submission **queue_end;
    uint64_t window_bytes;
    uint64_t now_ms;
    uint64_t turn_at_ms; /* when the last turn began */
    uint64_t look_at_ms;
    struct post_board board;
    struct status status;
    bool is_drained; /* nothing was sent since nothing was left to read: it may sleep */
    bool has_failed; /* role_fail was called */
    struct log_limit complaint;
    struct append_item items[APPEND_MAX];
    unsigned char *item_verdicts[APPEND_MAX];
};

/* --- sending ------------------------------------------------------------------------------- */

static void send_to(intake_t *self, struct gateway *gateway, const struct wire_message *message)
{
    if (gateway->is_gone)
        return;
    self->is_drained = false;
    if (frames_send(self->router, gateway_routing_id(gateway), message, false) == 0)
        gateway->sent_at_ms = self->now_ms;
    else if (errno == EHOSTUNREACH)
        gateway->is_gone = true;
}

static void send_error(intake_t *self, struct slice routing_id, const char *text)
{
    struct wire_message message = {.type = WIRE_ERROR};
    message.ERROR.version = WIRE_VERSION;
    message.ERROR.text = slice_of(text);
    self->is_drained = false;
    (void)!frames_send(self->router, routing_id, &message, false);
}

static void complain(intake_t *self, const char *event, const char *text)
{
    if (log_allowed(&self->complaint, LOG_REPEAT_MS, self->now_ms))
        log_at(LEVEL_WARN, event, NULL, LOG_TEXT("reason", text));
}

/* Answers one submission and keeps its memory for the next. */
static void answer(intake_t *self, struct submission *submission)
{
    struct wire_message message = {.type = WIRE_STORED};
    message.STORED.seq = submission->seq;
    message.STORED.verdicts = (struct slice){(char *)submission->verdicts, submission->count};
    send_to(self, submission->from, &message);
    submission->from->outstanding_bytes -= submission->bytes;
    submission->from->submissions--;
    frames_reset(&submission->frames);
    submission->next = self->pool;
    self->pool = submission;
}

/* STATUS to every gateway, each second and when something in it changed that decides. */
static void tell_status(intake_t *self)
{
    struct wire_message message = {.type = WIRE_STATUS};
    struct appender_health health;
    if (!status_is_due(&self->status, self->core, self->appender, &self->board, self->now_ms,
                       &message.STATUS))
        return;
    for (struct gateway *gateway = self->gateways.first; gateway; gateway = gateway->next)
        send_to(self, gateway, &message);
    appender_health(self->appender, self->now_ms, &health);
    if (health.must_fail && !self->has_failed) {
        self->has_failed = true;
        role_fail("broker", "the spool cannot be written");
    }
}

/* --- receiving ----------------------------------------------------------------------------- */

static void on_hello(intake_t *self, struct gateway *gateway, const struct wire_message *hello)
{
    struct wire_message welcome = {.type = WIRE_WELCOME};
    struct slice routing_id = frames_slice(&self->spare->frames, 0);
    bool is_new = gateway == NULL;
    gateway = gateways_hello(&self->gateways, routing_id, hello->HELLO.session, hello->HELLO.name,
                             self->now_ms);
    if (is_new)
        log_at(LEVEL_INFO, "gateway.up", NULL, LOG_TEXT("name", gateway->name));
    welcome.WELCOME.epoch = self->core->boot_id;
    welcome.WELCOME.hb_ms = BROKER_HB_MS;
    welcome.WELCOME.max_record = spool_max_body(self->core->spool);
    welcome.WELCOME.window_bytes = self->window_bytes;
    send_to(self, gateway, &welcome);
    status_hurry(&self->status);
    self->look_at_ms = 0;
}

static void on_bye(intake_t *self, struct gateway *gateway, const struct wire_message *bye)
{
    (void)self;
    (void)bye;
    log_at(LEVEL_INFO, "gateway.down", NULL, LOG_TEXT("name", gateway->name));
    gateway->is_gone = true;
}

static void on_ping(intake_t *self, struct gateway *gateway, const struct wire_message *ping)
{
    (void)ping;
    send_to(self, gateway, &(struct wire_message){.type = WIRE_PONG});
}

static void on_pong(intake_t *self, struct gateway *gateway, const struct wire_message *pong)
{
    (void)self;
    (void)gateway;
    (void)pong;
}

static void cut_off(intake_t *self, struct gateway *gateway, const char *reason)
{
    log_at(LEVEL_WARN, "gateway.cut_off", NULL, LOG_TEXT("name", gateway->name),
           LOG_TEXT("reason", reason));
    send_error(self, gateway_routing_id(gateway), reason);
    gateway->is_gone = true;
}

static struct submission *take_spare(intake_t *self)
{
    struct submission *taken = self->spare;
    self->spare = self->pool;
    if (self->spare != NULL) {
        self->pool = self->spare->next;
        self->spare->next = NULL;
        return taken;
    }
    self->spare = calloc(1, sizeof *self->spare);
    if (self->spare == NULL)
        abort();
    frames_init(&self->spare->frames, FIRST_REQUEST + 2 * WIRE_SUBMIT_COUNT);
    return taken;
}

static void on_submit(intake_t *self, struct gateway *gateway, const struct wire_message *message)
{
    const struct wire_SUBMIT *submit = &message->SUBMIT;
    struct frames *frames = &self->spare->frames;
    size_t bytes = 0;
    for (unsigned i = FIRST_REQUEST; i < frames->count; i++)
        bytes += zmq_msg_size(&frames->at[i]);
    if (submit->count < 1 || submit->count > WIRE_SUBMIT_COUNT ||
        frames->count != FIRST_REQUEST + 2 * submit->count ||
        (submit->count > 1 && bytes > WIRE_SUBMIT_BYTES)) {
        cut_off(self, gateway, "SUBMIT is not as long as it may be and says");
        return;
    }
    struct submission *submission = take_spare(self);
    submission->from = gateway;
    submission->seq = submit->seq;
    submission->count = submit->count;
    submission->bytes = bytes;
    gateway->submissions++;
    gateway->outstanding_bytes += bytes;
    if (gateway->outstanding_bytes > self->window_bytes) {
        memset(submission->verdicts, VERDICT_FAILED, submission->count);
        answer(self, submission);
        if (++gateway->violations >= WINDOW_VIOLATIONS)
            cut_off(self, gateway, "more was submitted than the window allows");
        return;
    }
    submission->next = NULL;
    *self->queue_end = submission;
    self->queue_end = &submission->next;
}

typedef void on_message(intake_t *self, struct gateway *gateway,
                        const struct wire_message *message);
static on_message *const handlers[WIRE_TYPE_END] = {
    [WIRE_HELLO] = on_hello, [WIRE_SUBMIT] = on_submit, [WIRE_PING] = on_ping,
    [WIRE_PONG] = on_pong,   [WIRE_BYE] = on_bye,
};

/* Judges the message in spare and hands it on. */
static void handle(intake_t *self)
{
    struct frames *frames = &self->spare->frames;
    struct wire_message message;
    struct err err;
    struct slice routing_id = frames_slice(frames, 0);
    struct slice header = {0};
    if (frames->count >= 2)
        header = frames_slice(frames, 1);
    if (wire_decode(&message, WIRE_GB, header, &err) != WIRE_OK) {
        complain(self, "gateway.nonsense", err.text);
        send_error(self, routing_id, err.text);
        return;
    }
    struct gateway *gateway = gateways_find(&self->gateways, routing_id);
    if (gateway == NULL && message.type != WIRE_HELLO) {
        if (message.type != WIRE_BYE)
            send_error(self, routing_id, "no session: HELLO comes first");
        return;
    }
    if (frames->is_overfull || (message.type != WIRE_SUBMIT && frames->count != FIRST_REQUEST)) {
        send_error(self, routing_id, "wrong number of frames");
        return;
    }
    if (gateway != NULL)
        gateway->heard_at_ms = self->now_ms;
    handlers[message.type](self, gateway, &message);
}

/* Reads up to the cap; true when there may be more. */
static bool drain(intake_t *self)
{
    uint64_t stop_at_us = clock_mono_us() + DRAIN_US;
    for (unsigned i = 0; i < DRAIN_MESSAGES; i++) {
        self->is_drained = frames_recv(&self->spare->frames, self->router) != 1;
        if (self->is_drained)
            return false;
        handle(self);
        if (i % 8 == 7 && clock_mono_us() >= stop_at_us)
            return true;
    }
    return true;
}

/* --- storing ------------------------------------------------------------------------------- */

static enum verdict judge(intake_t *self, struct append_item *item)
{
    static const enum verdict verdicts[] = {[ADMIT_OK] = VERDICT_STORED,
                                            [ADMIT_FULL] = VERDICT_FULL,
                                            [ADMIT_TOO_LARGE] = VERDICT_TOO_LARGE,
                                            [ADMIT_REFUSING] = VERDICT_FAILED};
    struct request request;
    struct err err;
    if (item->meta.len > REQUEST_META_MAX)
        return VERDICT_TOO_LARGE;
    if (request_decode(&request, item->meta, &err) == -1) {
        complain(self, "gateway.bad_meta", err.text);
        return VERDICT_FAILED;
    }
    item->arrival_ns = request.arrival_ns;
    return verdicts[appender_admit(self->appender, item->meta.len, item->body.len)];
}

/* Judges the requests of a submission; those admitted go behind the n items there are. */
static size_t gather(intake_t *self, struct submission *submission, size_t n)
{
    for (uint32_t i = 0; i < submission->count; i++) {
        struct append_item *item = &self->items[n];
        item->meta = frames_slice(&submission->frames, FIRST_REQUEST + 2 * i);
        item->body = frames_slice(&submission->frames, FIRST_REQUEST + 2 * i + 1);
        item->origin = NULL;
        submission->verdicts[i] = (unsigned char)judge(self, item);
        if (submission->verdicts[i] == VERDICT_STORED)
            self->item_verdicts[n++] = &submission->verdicts[i];
    }
    return n;
}

/* Makes n items durable. On failure every one of them gets its verdict; returns the post for
 * delivery, or null. */
static struct post_commit *append(intake_t *self, size_t n)
{
    struct err err = {.text = ""};
    struct post_commit *commit = post_new(POST_COMMIT, sizeof *commit + n * sizeof commit->refs[0]);
    commit->count = (uint32_t)n;
    enum append_result result =
        appender_append(self->appender, self->items, n, commit->refs, self->now_ms, &err);
    if (result == APPEND_OK) {
        metrics_add(METRIC_relay_spool_entries, n);
        return commit;
    }
    complain(self, "spool.append", err.text);
    for (size_t i = 0; i < n; i++)
        *self->item_verdicts[i] = result == APPEND_FULL ? VERDICT_FULL : VERDICT_FAILED;
    free(commit);
    return NULL;
}

/* Takes submissions off the queue that make one batch together; at least one. */
static struct submission *take_batch(intake_t *self)
{
    struct submission *batch = self->queue, **end = &self->queue;
    uint32_t count = 0;
    size_t bytes = 0, bytes_max = appender_batch_bytes(self->appender);
    do {
        count += (*end)->count;
        bytes += (*end)->bytes;
        end = &(*end)->next;
    } while (*end != NULL && count + (*end)->count <= APPEND_MAX &&
             bytes + (*end)->bytes <= bytes_max);
    self->queue = *end;
    *end = NULL;
    if (self->queue == NULL)
        self->queue_end = &self->queue;
    return batch;
}

static void store_batch(intake_t *self)
{
    struct submission *batch = take_batch(self);
    struct post_commit *commit = NULL;
    size_t n = 0;
    for (struct submission *submission = batch; submission; submission = submission->next)
        n = gather(self, submission, n);
    if (n > 0)
        commit = append(self, n);
    self->now_ms = clock_mono_ms();
    while (batch != NULL) {
        struct submission *next = batch->next;
        answer(self, batch);
        batch = next;
    }
    if (commit != NULL)
        mailbox_post(&self->core->to_delivery, &commit->post.item);
}

/* --- the loop ------------------------------------------------------------------------------ */

static void take_posts(intake_t *self)
{
    struct mailbox_item *item = mailbox_take(&self->core->to_intake);
    while (item != NULL) {
        struct mailbox_item *next = item->next;
        self->board = *(struct post_board *)item; /* the only kind there is */
        free(item);
        item = next;
        self->look_at_ms = 0;
    }
}

/* Nobody is silent who had no chance to be heard: a turn that came late moves all deadlines. */
static void forgive_oversleep(intake_t *self)
{
    uint64_t late_ms = self->now_ms - self->turn_at_ms;
    self->turn_at_ms = self->now_ms;
    if (late_ms <= 2 * BROKER_HB_MS)
        return;
    for (struct gateway *gateway = self->gateways.first; gateway; gateway = gateway->next)
        gateway->heard_at_ms += late_ms;
}

static void expire_silent(intake_t *self)
{
    for (struct gateway *gateway = self->gateways.first; gateway; gateway = gateway->next) {
        if (gateway->is_gone ||
            self->now_ms < gateway->heard_at_ms + WIRE_SILENT_BEATS * BROKER_HB_MS)
            continue;
        log_at(LEVEL_WARN, "gateway.silent", NULL, LOG_TEXT("name", gateway->name));
        gateway->is_gone = true;
    }
    gateways_sweep(&self->gateways);
}

/* One pass; returns milliseconds to sleep. */
static uint64_t turn(intake_t *self)
{
    self->now_ms = clock_mono_ms();
    forgive_oversleep(self);
    bool may_have_more = drain(self);
    if (self->queue != NULL)
        store_batch(self);
    take_posts(self);
    if (self->now_ms >= self->look_at_ms) {
        self->look_at_ms = self->now_ms + LOOK_MS;
        tell_status(self);
    }
    if (self->queue != NULL || may_have_more)
        return 0;
    expire_silent(self);
    uint64_t wait_ms = appender_tick(self->appender, self->now_ms);
    uint64_t status_ms = status_wait_ms(&self->status, self->now_ms);
    return wait_ms < status_ms ? wait_ms : status_ms;
}

static void sleep_until_called(intake_t *self, uint64_t wait_ms)
{
    struct mailbox *mailbox = &self->core->to_intake;
    const int fds[] = {mailbox_fd(mailbox), frames_fd(self->router)};
    if (wait_ms == 0 || !self->is_drained || !mailbox_may_sleep(mailbox))
        return;
    mailbox_woken(mailbox, actor_sleep(fds, 2, wait_ms) & 1);
}

static void *run(void *arg)
{
    intake_t *self = arg;
    log_thread_role("intake");
    while (!mailbox_is_closed(&self->core->to_intake))
        sleep_until_called(self, turn(self));
    while (self->queue != NULL)
        store_batch(self);
    for (struct gateway *gateway = self->gateways.first; gateway; gateway = gateway->next)
        send_to(self, gateway, &(struct wire_message){.type = WIRE_BYE});
    zsock_destroy(&self->socket);
    return NULL;
}

static uint64_t window_bytes(uint64_t max_body)
{
    uint64_t least = WINDOW_RECORDS * (max_body + REQUEST_META_MAX);
    return least > WINDOW_BYTES_MIN ? least : WINDOW_BYTES_MIN;
}

intake_t *intake_new(struct broker_core *core, struct err *err)
{
    intake_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    uint64_t max_body = spool_max_body(core->spool);
    self->core = core;
    self->queue_end = &self->queue;
    self->window_bytes = window_bytes(max_body);
    self->turn_at_ms = clock_mono_ms();
    self->appender = appender_new(core->spool);
    self->socket =
        peer_socket_new(core->env->gateway_endpoint, max_body + FRAME_SLACK, QUEUED_MAX, err);
    if (self->socket == NULL) {
        intake_destroy(&self);
        return NULL;
    }
    self->router = zsock_resolve(self->socket);
    (void)!take_spare(self);
    if (actor_start(&self->actor, run, self, err) == -1)
        intake_destroy(&self);
    return self;
}

static void free_submissions(struct submission *submission)
{
    while (submission != NULL) {
        struct submission *next = submission->next;
        frames_fini(&submission->frames);
        free(submission);
        submission = next;
    }
}

void intake_destroy(intake_t **self_p)
{
    intake_t *self = *self_p;
    if (self == NULL)
        return;
    mailbox_close(&self->core->to_intake);
    actor_join(&self->actor);
    zsock_destroy(&self->socket);
    appender_destroy(&self->appender);
    free_submissions(self->pool);
    free_submissions(self->spare);
    gateways_fini(&self->gateways);
    free(self);
    *self_p = NULL;
}
