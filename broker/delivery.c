// SPDX-License-Identifier: MIT
/*
 * A turn: hear couriers, up to a cap; take what the other actors posted; end leases that ran out;
 * supply the ledger; lease what can be leased. All that couriers have said is heard before anything
 * is held against them, and a turn that comes late moves their deadlines.
 */
#include "broker/delivery.h"

#include <czmq.h>
#include <stdlib.h>
#include <string.h>

#include "broker/board.h"
#include "broker/couriers.h"
#include "broker/leases.h"
#include "broker/ledger.h"
#include "broker/peer_socket.h"
#include "broker/posts.h"
#include "broker/window.h"
#include "common/actor.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "proto/frames.h"

#define DRAIN_MESSAGES 256
#define DRAIN_US       5000
#define DISPATCH_MAX   64 /* leases a turn, so that input is not left waiting */
#define BOARD_MS       1000
#define OUTCOMES_MS    20 /* longest time an outcome waits here for company */
#define MESSAGE_MAX    ((uint64_t)64 * 1024)
#define UNREADABLE_MS  1000
#define FAILED_READS   7 /* in a row, the waits doubled, within a minute: then it is damage */
#define LOG_REPEAT_MS  10000
#define HEADER_FRAMES  2 /* routing id and header; couriers send no bodies */

struct delivery {
    struct broker_core *core;
    struct actor actor;
    zsock_t *socket;
    void *router; /* the same, raw */
    struct frames inbox;
    ledger_t *ledger;
    struct window window;
    struct leases leases;
    struct couriers couriers;
    uint64_t now_ms;
    uint64_t turn_at_ms;
    uint64_t board_at_ms;
    int64_t waiting_drift; /* see board_new */
    bool has_board_news;
    bool is_drained; /* nothing was sent since nothing was left to read: it may sleep */
    struct log_limit complaint;
    struct log_limit unread;
};

/* --- sending ------------------------------------------------------------------------------- */

static void lose_courier(delivery_t *self, struct courier *courier, bool is_counting)
{
    if (courier->is_gone)
        return;
    leases_give_back(&self->leases, courier, is_counting);
    courier->is_gone = true;
    self->has_board_news = true;
}

/* -1: the courier cannot be reached and is counted as gone. */
static int send_to(delivery_t *self, struct courier *courier, const struct wire_message *message,
                   bool has_more)
{
    if (courier->is_gone)
        return -1;
    self->is_drained = false;
    if (frames_send(self->router, courier_routing_id(courier), message, has_more) == 0) {
        courier->sent_at_ms = self->now_ms;
        return 0;
    }
    log_at(LEVEL_WARN, "courier.unreachable", NULL, LOG_TEXT("name", courier->name),
           LOG_NUM("leases", courier->held.count));
    lose_courier(self, courier, true);
    return -1;
}

static void send_error(delivery_t *self, struct slice routing_id, const char *text)
{
    struct wire_message message = {.type = WIRE_ERROR};
    message.ERROR.version = WIRE_VERSION;
    message.ERROR.text = slice_of(text);
    self->is_drained = false;
    (void)!frames_send(self->router, routing_id, &message, false);
}

static void complain(delivery_t *self, const char *event, const char *text)
{
    if (log_allowed(&self->complaint, LOG_REPEAT_MS, self->now_ms))
        log_at(LEVEL_WARN, event, NULL, LOG_TEXT("reason", text));
}

/* --- hearing ------------------------------------------------------------------------------- */

/* A new session under a known name: the former one's process is gone, or somebody gave two couriers
 * one name. Only in the first case, when nobody can be reached there, its leases count as ended
 * without an outcome. */
static void take_over(delivery_t *self, struct courier *former)
{
    struct wire_message error = {.type = WIRE_ERROR};
    error.ERROR.version = WIRE_VERSION;
    error.ERROR.text = slice_of("another courier of the same name took over");
    log_at(LEVEL_WARN, "courier.taken_over", NULL, LOG_TEXT("name", former->name),
           LOG_NUM("leases", former->held.count));
    if (send_to(self, former, &error, false) == 0)
        lose_courier(self, former, false);
}

static void on_hello(delivery_t *self, struct courier *at_this_id, const struct wire_message *hello)
{
    struct slice routing_id = frames_slice(&self->inbox, 0);
    struct slice name = hello->HELLO.name;
    name.len = name.len < COURIER_NAME_MAX ? name.len : COURIER_NAME_MAX - 1;
    struct courier *courier = couriers_find_session(&self->couriers, hello->HELLO.session);
    struct courier *former = couriers_find_name(&self->couriers, name);
    if (at_this_id != NULL && at_this_id != courier)
        lose_courier(self, at_this_id, false);
    if (former != NULL && former != courier)
        take_over(self, former);
    if (courier == NULL) {
        courier = couriers_add(&self->couriers, hello->HELLO.session, name);
        log_at(LEVEL_INFO, "courier.up", NULL, LOG_TEXT("name", courier->name));
    }
    courier_reached_by(courier, routing_id);
    courier->heard_at_ms = self->now_ms;
    courier->credit = 0;
    courier_add_credit(courier, hello->HELLO.credit);
    struct wire_message welcome = {.type = WIRE_WELCOME};
    welcome.WELCOME.epoch = self->core->boot_id;
    welcome.WELCOME.hb_ms = BROKER_HB_MS;
    welcome.WELCOME.max_record = spool_max_body(self->core->spool);
    welcome.WELCOME.lease_ms = self->leases.lease_ms;
    (void)!send_to(self, courier, &welcome, false);
}

static void on_renew(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    struct wire_list tokens = message->RENEW.tokens;
    struct slice token;
    (void)courier;
    while (wire_list_next(&tokens, &token)) {
        struct entry *entry = leases_find(&self->leases, token);
        if (entry != NULL)
            ledger_renew(self->ledger, entry, self->now_ms + self->leases.lease_ms);
    }
}

static void on_done(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    struct entry *entry = leases_find(&self->leases, message->DONE.token);
    (void)courier;
    if (entry != NULL)
        leases_done(&self->leases, entry);
}

static void on_retry(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    struct entry *entry = leases_find(&self->leases, message->RETRY.token);
    (void)courier;
    if (entry != NULL)
        leases_retry(&self->leases, entry, &message->RETRY);
}

static void on_release(delivery_t *self, struct courier *courier,
                       const struct wire_message *message)
{
    struct entry *entry = leases_find(&self->leases, message->RELEASE.token);
    (void)courier;
    if (entry != NULL)
        leases_release(&self->leases, entry, message->RELEASE.after_ms);
}

static void on_dead(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    struct entry *entry = leases_find(&self->leases, message->DEAD.token);
    (void)courier;
    if (entry != NULL)
        leases_dead(&self->leases, entry, &message->DEAD);
}

static void on_credit(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    (void)self;
    courier_add_credit(courier, message->CREDIT.more);
}

static void on_upstreams(delivery_t *self, struct courier *courier,
                         const struct wire_message *message)
{
    const struct wire_UPSTREAMS *upstreams = &message->UPSTREAMS;
    bool is_new_note = courier_set_note(courier, upstreams->note);
    if (courier->has_upstreams && courier->upstreams_up == upstreams->up &&
        courier->upstreams_total == upstreams->total && !is_new_note)
        return;
    courier->has_upstreams = true;
    courier->upstreams_up = upstreams->up;
    courier->upstreams_total = upstreams->total;
    self->has_board_news = true;
}

static void on_ping(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    (void)message;
    (void)!send_to(self, courier, &(struct wire_message){.type = WIRE_PONG}, false);
}

static void on_pong(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    (void)self;
    (void)courier;
    (void)message;
}

static void on_bye(delivery_t *self, struct courier *courier, const struct wire_message *message)
{
    (void)message;
    log_at(LEVEL_INFO, "courier.down", NULL, LOG_TEXT("name", courier->name),
           LOG_NUM("leases", courier->held.count));
    lose_courier(self, courier, false);
}

typedef void on_message(delivery_t *self, struct courier *courier,
                        const struct wire_message *message);
static on_message *const handlers[WIRE_TYPE_END] = {
    [WIRE_HELLO] = on_hello,         [WIRE_RENEW] = on_renew, [WIRE_DONE] = on_done,
    [WIRE_RETRY] = on_retry,         [WIRE_DEAD] = on_dead,   [WIRE_RELEASE] = on_release,
    [WIRE_CREDIT] = on_credit,       [WIRE_PING] = on_ping,   [WIRE_PONG] = on_pong,
    [WIRE_UPSTREAMS] = on_upstreams, [WIRE_BYE] = on_bye,
};

static void handle(delivery_t *self)
{
    struct wire_message message;
    struct err err;
    struct slice routing_id = frames_slice(&self->inbox, 0), header = {0};
    if (self->inbox.count >= HEADER_FRAMES)
        header = frames_slice(&self->inbox, 1);
    if (wire_decode(&message, WIRE_CB, header, &err) != WIRE_OK) {
        complain(self, "courier.nonsense", err.text);
        send_error(self, routing_id, err.text);
        return;
    }
    struct courier *courier = couriers_find(&self->couriers, routing_id);
    if (courier == NULL && message.type != WIRE_HELLO) {
        if (message.type != WIRE_BYE)
            send_error(self, routing_id, "no session: HELLO comes first");
        return;
    }
    if (self->inbox.is_overfull || self->inbox.count != HEADER_FRAMES) {
        send_error(self, routing_id, "wrong number of frames");
        return;
    }
    if (courier != NULL)
        courier->heard_at_ms = self->now_ms;
    handlers[message.type](self, courier, &message);
}

/* Hears couriers up to the cap; true when there may be more. */
static bool drain(delivery_t *self)
{
    uint64_t stop_at_us = clock_mono_us() + DRAIN_US;
    for (unsigned i = 0; i < DRAIN_MESSAGES; i++) {
        self->is_drained = frames_recv(&self->inbox, self->router) != 1;
        if (self->is_drained)
            return false;
        handle(self);
        if (i % 32 == 31 && clock_mono_us() >= stop_at_us)
            return true;
    }
    return true;
}

/* --- leasing ------------------------------------------------------------------------------- */

static void release_blob(void *data, void *hint)
{
    struct spool_blob blob = {.memory = hint};
    (void)data;
    spool_blob_free(&blob);
}

/* An entry whose bytes could not be had. */
static void on_unreadable(delivery_t *self, struct entry *entry, enum read_result result,
                          const char *reason)
{
    uint64_t after_ms = UNREADABLE_MS;
    if (result == READ_BAD) {
        after_ms <<= entry->failed_reads++;
        result = entry->failed_reads < FAILED_READS ? READ_LATER : READ_CORRUPT;
    }
    if (result == READ_CORRUPT || log_allowed(&self->unread, LOG_REPEAT_MS, self->now_ms))
        log_at(LEVEL_ERROR, "spool.read", NULL, LOG_TEXT("reason", reason),
               LOG_NUM("segment", entry->ref.id.segno), LOG_NUM("ordinal", entry->ref.id.ordinal));
    if (result == READ_CORRUPT)
        leases_lost(&self->leases, entry);
    else if (result == READ_GONE || spool_is_settled(self->core->spool, &entry->ref.id))
        ledger_drop(self->ledger, entry, NULL);
    else
        (void)ledger_defer(self->ledger, entry, NULL, self->now_ms + after_ms);
}

/* Reads the record and sends it. The lease begins before the bytes leave, so that an unreachable
 * courier gives it back like all its others. */
static void lease(delivery_t *self, struct entry *entry, struct courier *courier)
{
    struct spool_blob blob;
    struct err err = {.text = ""};
    enum read_result result = spool_read(self->core->spool, &entry->ref, &blob, &err);
    if (result != READ_OK) {
        on_unreadable(self, entry, result, err.text);
        return;
    }
    entry->failed_reads = 0;
    char bytes[TOKEN_SIZE];
    struct token token = {.boot_id = self->core->boot_id, .id = entry->ref.id};
    struct wire_message message = {.type = WIRE_LEASE};
    token.lease_no = leases_begin(&self->leases, entry, courier);
    token_encode(&token, bytes);
    message.LEASE.token = (struct slice){bytes, sizeof bytes};
    message.LEASE.rounds = entry->rounds;
    message.LEASE.suspect = entry->ref.history.is_suspect;
    message.LEASE.first_fail_s = entry->ref.history.first_fail_s;
    if (send_to(self, courier, &message, true) == -1) {
        spool_blob_free(&blob);
        return;
    }
    (void)!frames_send_bytes(self->router, blob.meta, true);
    (void)!frames_send_given(self->router, blob.body, release_blob, blob.memory, false);
}

/* Who gets what next; false when nothing can be leased now. */
static bool lease_next(delivery_t *self)
{
    struct courier *courier = NULL;
    bool has_alone = ledger_count(self->ledger, ENTRY_ALONE) > 0;
    if (has_alone)
        courier = couriers_choose_alone(&self->couriers);
    bool is_for_alone = courier != NULL;
    if (courier == NULL)
        courier = couriers_choose(&self->couriers, has_alone);
    if (courier == NULL)
        return false;
    struct entry *entry = ledger_choose(self->ledger, is_for_alone);
    if (entry == NULL)
        return false;
    uint64_t size = (uint64_t)entry->ref.meta_len + entry->ref.body_len;
    if (self->leases.leased_bytes > 0 && self->leases.leased_bytes + size > LEASED_BYTES_MAX)
        return false;
    lease(self, entry, courier);
    return true;
}

/* True: there may be more to lease. */
static bool dispatch(delivery_t *self)
{
    unsigned n = 0;
    while (n < DISPATCH_MAX && lease_next(self))
        n++;
    return n == DISPATCH_MAX;
}

/* --- what other actors posted ---------------------------------------------------------------- */

static void on_commit(delivery_t *self, const struct post *post)
{
    const struct post_commit *commit = (const struct post_commit *)post;
    window_offer(&self->window, commit->refs, commit->count);
}

static void on_buried(delivery_t *self, const struct post *post)
{
    leases_buried(&self->leases, &((const struct post_buried *)post)->id);
}

typedef void on_post(delivery_t *self, const struct post *post);
static on_post *const post_handlers[POST_KINDS] = {
    [POST_COMMIT] = on_commit, [POST_BURIED] = on_buried};

static void take_posts(delivery_t *self)
{
    struct mailbox_item *item = mailbox_take(&self->core->to_delivery);
    while (item != NULL) {
        struct mailbox_item *next = item->next;
        struct post *post = (struct post *)item;
        post_handlers[post->kind](self, post);
        free(post);
        item = next;
    }
}

/* --- time ---------------------------------------------------------------------------------- */

static void forgive_oversleep(delivery_t *self)
{
    uint64_t late_ms = self->now_ms - self->turn_at_ms;
    self->turn_at_ms = self->now_ms;
    if (late_ms <= 2 * BROKER_HB_MS)
        return;
    for (struct courier *courier = self->couriers.first; courier; courier = courier->next)
        courier->heard_at_ms += late_ms;
    ledger_shift_leases(self->ledger, late_ms);
}

static void expire(delivery_t *self)
{
    struct entry *entry;
    while ((entry = ledger_expired(self->ledger, self->now_ms)) != NULL) {
        const struct courier *courier = entry->holder;
        log_at(LEVEL_WARN, "lease.expired", NULL, LOG_TEXT("courier", courier->name),
               LOG_NUM("segment", entry->ref.id.segno), LOG_NUM("ordinal", entry->ref.id.ordinal));
        leases_expire(&self->leases, entry);
    }
    for (struct courier *courier = self->couriers.first; courier; courier = courier->next) {
        if (courier->is_gone ||
            self->now_ms < courier->heard_at_ms + WIRE_SILENT_BEATS * BROKER_HB_MS)
            continue;
        log_at(LEVEL_WARN, "courier.silent", NULL, LOG_TEXT("name", courier->name),
               LOG_NUM("leases", courier->held.count));
        lose_courier(self, courier, true);
    }
}

static void ping(delivery_t *self)
{
    for (struct courier *courier = self->couriers.first; courier; courier = courier->next)
        if (!courier->is_gone && self->now_ms >= courier->sent_at_ms + BROKER_HB_MS)
            (void)!send_to(self, courier, &(struct wire_message){.type = WIRE_PING}, false);
}

static void post_board(delivery_t *self)
{
    struct post_board *board =
        board_new(self->core->spool, self->ledger, &self->couriers, &self->waiting_drift);
    mailbox_post(&self->core->to_intake, &board->post.item);
    self->board_at_ms = self->now_ms + BOARD_MS;
    self->has_board_news = false;
}

/* One pass; returns milliseconds to sleep. */
static uint64_t turn(delivery_t *self)
{
    self->now_ms = self->leases.now_ms = clock_mono_ms();
    forgive_oversleep(self);
    bool has_more = drain(self);
    take_posts(self);
    if (!has_more)
        expire(self);
    has_more = window_fill(&self->window, self->now_ms) || has_more;
    has_more = dispatch(self) || has_more;
    if (self->now_ms >= self->board_at_ms || self->has_board_news) {
        ping(self);
        post_board(self);
    }
    couriers_sweep(&self->couriers);
    if (self->leases.pending != NULL && self->now_ms >= self->leases.pending_since_ms + OUTCOMES_MS)
        leases_flush(&self->leases);
    if (has_more)
        return 0;
    uint64_t wait_ms = clock_sooner_ms(clock_until_ms(self->board_at_ms, self->now_ms),
                                       ledger_wait_ms(self->ledger, self->now_ms));
    wait_ms = clock_sooner_ms(wait_ms, window_wait_ms(&self->window, self->now_ms));
    if (self->leases.pending != NULL)
        wait_ms = clock_sooner_ms(
            wait_ms, clock_until_ms(self->leases.pending_since_ms + OUTCOMES_MS, self->now_ms));
    return wait_ms;
}

static bool is_wanted(const delivery_t *self)
{
    for (const struct courier *courier = self->couriers.first; courier; courier = courier->next)
        if (courier->credit > 0)
            return true;
    return false;
}

static void sleep_until_called(delivery_t *self, uint64_t wait_ms)
{
    struct mailbox *mailbox = &self->core->to_delivery;
    const int fds[] = {mailbox_fd(mailbox), frames_fd(self->router)};
    if (wait_ms == 0 || !self->is_drained)
        return;
    /* While nobody wants a lease, new records need not wake this thread. */
    if (is_wanted(self) && !mailbox_may_sleep(mailbox))
        return;
    mailbox_woken(mailbox, actor_sleep(fds, 2, wait_ms) & 1);
}

static void *run(void *arg)
{
    delivery_t *self = arg;
    log_thread_role("delivery");
    while (!mailbox_is_closed(&self->core->to_delivery))
        sleep_until_called(self, turn(self));
    self->now_ms = self->leases.now_ms = clock_mono_ms();
    (void)drain(self); /* what was delivered in the last moment is not delivered again */
    leases_flush(&self->leases);
    for (struct courier *courier = self->couriers.first; courier; courier = courier->next)
        (void)!send_to(self, courier, &(struct wire_message){.type = WIRE_BYE}, false);
    zsock_destroy(&self->socket);
    return NULL;
}

static void on_lost(void *arg, const struct record_ref *ref)
{
    leases_lost_unknown(&((delivery_t *)arg)->leases, ref);
}

delivery_t *delivery_new(struct broker_core *core, struct err *err)
{
    delivery_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->core = core;
    self->turn_at_ms = clock_mono_ms();
    self->ledger = ledger_new(LEDGER_CAPACITY);
    metrics_set(METRIC_relay_spool_entries, (int64_t)core->report.waiting);
    frames_init(&self->inbox, HEADER_FRAMES);
    leases_init(&self->leases, core, self->ledger);
    window_init(&self->window, core->spool, self->ledger, on_lost, self);
    self->socket = peer_socket_new(core->env->courier_endpoint, MESSAGE_MAX, 0, err);
    if (self->socket == NULL) {
        delivery_destroy(&self);
        return NULL;
    }
    self->router = zsock_resolve(self->socket);
    if (actor_start(&self->actor, run, self, err) == -1)
        delivery_destroy(&self);
    return self;
}

void delivery_destroy(delivery_t **self_p)
{
    delivery_t *self = *self_p;
    if (self == NULL)
        return;
    mailbox_close(&self->core->to_delivery);
    actor_join(&self->actor);
    zsock_destroy(&self->socket);
    leases_fini(&self->leases);
    couriers_fini(&self->couriers);
    frames_fini(&self->inbox);
    ledger_destroy(&self->ledger);
    free(self);
    *self_p = NULL;
}
