// SPDX-License-Identifier: MIT
/*
 * Every lease the courier holds stands in one list, for RENEW. When the broker turns out to be
 * another one (its epoch differs) or the link is lost for longer than leases last, the leases are
 * stale: they stay the courier's to end, but nothing is said of them any more.
 */
#include "proto/lease_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "proto/link.h"

#define TOKEN_MAX         48   /* longest token taken; ours have 28 bytes */
#define EXCERPT_MAX       1024 /* what DEAD carries of an answer */
#define UPSTREAMS_MS      1000
#define STANDARD_LEASE_MS 60000
#define RENEW_PER_LEASE   3 /* renewals within the life of a lease */

struct item {
    struct lease lease; /* first, so that a lease_t * is an item */
    struct item *next;
    struct item *previous;
    uint64_t epoch; /* of the broker that gave it */
    zmq_msg_t meta;
    zmq_msg_t body;
    size_t token_len;
    char token[TOKEN_MAX];
};

struct lease_client {
    char *endpoint;
    char *name;
    struct link link;
    struct frames inbox;
    struct item held;     /* head of the ring of leases */
    uint32_t credit;      /* granted and not used, by our count */
    uint32_t credit_owed; /* part of it that the broker was not told yet */
    uint64_t lease_ms;
    uint64_t renew_at_ms;
    uint64_t now_ms; /* of the last recv or tick: the calls that end leases come with no time */
    struct {
        uint32_t up;
        uint32_t total;
        char note[128];
        bool is_known;
        uint64_t send_at_ms;
    } upstreams;
};

lease_client_t *lease_client_new(const char *endpoint, const char *name, struct err *err)
{
    lease_client_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->endpoint = strdup(endpoint);
    self->name = strdup(name);
    self->held.next = self->held.previous = &self->held;
    self->lease_ms = STANDARD_LEASE_MS;
    self->now_ms = clock_mono_ms();
    frames_init(&self->inbox, 3);
    struct link_config config = {.endpoint = self->endpoint,
                                 .name = self->name,
                                 .incoming = WIRE_BC,
                                 .max_message_bytes = -1,
                                 .linger_ms = 1000};
    if (link_open(&self->link, &config, self->now_ms, err) == -1)
        lease_client_destroy(&self);
    return self;
}

static void item_free(struct item *item)
{
    item->next->previous = item->previous;
    item->previous->next = item->next;
    zmq_msg_close(&item->meta);
    zmq_msg_close(&item->body);
    free(item);
}

void lease_client_destroy(lease_client_t **self_p)
{
    lease_client_t *self = *self_p;
    if (self == NULL)
        return;
    while (self->held.next != &self->held)
        item_free(self->held.next);
    link_close(&self->link);
    frames_fini(&self->inbox);
    free(self->endpoint);
    free(self->name);
    free(self);
    *self_p = NULL;
}

int lease_client_fd(lease_client_t *self)
{
    return link_fd(&self->link);
}

static struct slice message_slice(zmq_msg_t *message)
{
    return (struct slice){.data = zmq_msg_data(message), .len = zmq_msg_size(message)};
}

/* Sends what belongs to a lease, unless the broker would not know it. */
static void say(lease_client_t *self, const struct item *item, const struct wire_message *message)
{
    if (item->epoch == self->link.epoch)
        (void)!link_send(&self->link, message, false, self->now_ms);
}

static struct slice token_of(const struct item *item)
{
    return (struct slice){.data = item->token, .len = item->token_len};
}

static struct slice cut(struct slice text, size_t max)
{
    text.len = text.len < max ? text.len : max;
    return text;
}

static void say_dead(lease_client_t *self, const struct item *item, const char *reason, int status,
                     const char *upstream, struct slice excerpt)
{
    struct wire_message message = {.type = WIRE_DEAD};
    message.DEAD.token = token_of(item);
    message.DEAD.reason = cut(slice_of(reason), WIRE_TEXT_MAX);
    message.DEAD.status = status > 0 ? (uint32_t)status : 0;
    message.DEAD.upstream = cut(slice_of(upstream), WIRE_TEXT_MAX);
    message.DEAD.excerpt = cut(excerpt, EXCERPT_MAX);
    say(self, item, &message);
}

/* Makes the lease of a LEASE message. Null for one that no courier can work on: its meta cannot be
 * read, so it goes to the dead letters. */
static lease_t *take_lease(lease_client_t *self, const struct wire_LEASE *message)
{
    struct err err;
    struct item *item = calloc(1, sizeof *item);
    if (item == NULL)
        abort();
    item->epoch = self->link.epoch;
    item->token_len = message->token.len;
    memcpy(item->token, message->token.data, message->token.len);
    item->lease.rounds = message->rounds;
    item->lease.is_suspect = message->suspect;
    item->lease.first_fail_s = message->first_fail_s;
    item->lease.opaque = item;
    zmq_msg_init(&item->meta);
    zmq_msg_init(&item->body);
    zmq_msg_move(&item->meta, &self->inbox.at[1]);
    zmq_msg_move(&item->body, &self->inbox.at[2]);
    item->lease.meta = message_slice(&item->meta);
    item->lease.body = message_slice(&item->body);
    item->next = &self->held;
    item->previous = self->held.previous;
    item->previous->next = item->next->previous = item;
    if (request_decode(&item->lease.request, item->lease.meta, &err) == 0)
        return &item->lease;
    log_at(LEVEL_ERROR, "lease.unreadable", NULL, LOG_TEXT("reason", err.text));
    say_dead(self, item, "unreadable", 0, "", slice_of(err.text));
    item_free(item);
    return NULL;
}

static void grant(lease_client_t *self, uint32_t n)
{
    struct wire_message message = {.type = WIRE_CREDIT, .CREDIT = {.more = n}};
    self->credit += n;
    self->credit_owed += n;
    message.CREDIT.more = self->credit_owed;
    if (self->credit_owed > 0 && link_send(&self->link, &message, false, self->now_ms) == 0)
        self->credit_owed = 0;
}

static lease_t *on_lease(lease_client_t *self, const struct wire_LEASE *message)
{
    if (self->credit > 0)
        self->credit--;
    lease_t *lease = message->token.len <= TOKEN_MAX ? take_lease(self, message) : NULL;
    if (lease == NULL)
        grant(self, 1);
    return lease;
}

static void on_welcome(lease_client_t *self, const struct wire_WELCOME *welcome)
{
    self->lease_ms = welcome->lease_ms < 100 ? 100 : welcome->lease_ms;
    self->renew_at_ms = self->now_ms + self->lease_ms / RENEW_PER_LEASE;
    self->upstreams.send_at_ms = self->now_ms;
}

lease_t *lease_client_recv(lease_client_t *self, uint64_t now_ms)
{
    struct wire_message message;
    lease_t *lease = NULL;
    self->now_ms = now_ms;
    while (lease == NULL && link_recv(&self->link, &self->inbox, &message, now_ms) == 1) {
        if (message.type == WIRE_LEASE)
            lease = on_lease(self, &message.LEASE);
        else if (message.type == WIRE_WELCOME)
            on_welcome(self, &message.WELCOME);
    }
    if (lease == NULL) { /* all is read: now is the time for what was put off */
        if (self->link.state == LINK_CONNECTING)
            (void)lease_client_tick(self, now_ms);
        else
            grant(self, 0);
    }
    return lease;
}

/* Renews all leases of this broker, in messages of at most WIRE_LIST_MAX. */
static void renew_all(lease_client_t *self)
{
    struct slice tokens[WIRE_LIST_MAX];
    struct wire_message message = {.type = WIRE_RENEW, .RENEW.tokens.items = tokens};
    uint32_t *count = &message.RENEW.tokens.count;
    for (struct item *item = self->held.next; item != &self->held; item = item->next) {
        if (item->epoch != self->link.epoch)
            continue;
        tokens[(*count)++] = token_of(item);
        if (*count < WIRE_LIST_MAX)
            continue;
        (void)!link_send(&self->link, &message, false, self->now_ms);
        *count = 0;
    }
    if (*count > 0)
        (void)!link_send(&self->link, &message, false, self->now_ms);
}

static void tell_upstreams(lease_client_t *self)
{
    struct wire_message message = {.type = WIRE_UPSTREAMS};
    message.UPSTREAMS.up = self->upstreams.up;
    message.UPSTREAMS.total = self->upstreams.total;
    message.UPSTREAMS.note = slice_of(self->upstreams.note);
    if (link_send(&self->link, &message, false, self->now_ms) == 0)
        self->upstreams.send_at_ms = self->now_ms + UPSTREAMS_MS;
}

uint64_t lease_client_tick(lease_client_t *self, uint64_t now_ms)
{
    self->now_ms = now_ms;
    enum link_state before = self->link.state;
    uint64_t wait_ms = link_tick(&self->link, self->credit, now_ms);
    if (before == LINK_CONNECTING && self->link.state == LINK_GREETED)
        self->credit_owed = 0; /* HELLO told all of it */
    if (self->link.state != LINK_OPEN)
        return wait_ms;
    grant(self, 0);
    if (now_ms >= self->renew_at_ms) {
        renew_all(self);
        self->renew_at_ms = now_ms + self->lease_ms / RENEW_PER_LEASE;
    }
    if (self->upstreams.is_known && now_ms >= self->upstreams.send_at_ms)
        tell_upstreams(self);
    uint64_t due_ms = self->renew_at_ms;
    if (self->upstreams.is_known)
        due_ms = clock_sooner_ms(due_ms, self->upstreams.send_at_ms);
    return clock_sooner_ms(wait_ms, clock_until_ms(due_ms, now_ms));
}

void lease_client_credit(lease_client_t *self, uint32_t n)
{
    self->credit += n;
    self->credit_owed += n;
}

void lease_client_upstreams(lease_client_t *self, uint32_t up, uint32_t total, const char *note)
{
    bool is_same = self->upstreams.is_known && self->upstreams.up == up &&
                   self->upstreams.total == total && strcmp(self->upstreams.note, note) == 0;
    if (is_same)
        return;
    self->upstreams.up = up;
    self->upstreams.total = total;
    self->upstreams.is_known = true;
    snprintf(self->upstreams.note, sizeof self->upstreams.note, "%s", note);
    tell_upstreams(self);
}

void lease_done(lease_client_t *self, lease_t **lease_p)
{
    struct item *item = (*lease_p)->opaque;
    struct wire_message message = {.type = WIRE_DONE, .DONE.token = token_of(item)};
    say(self, item, &message);
    item_free(item);
    *lease_p = NULL;
}

void lease_retry(lease_client_t *self, lease_t **lease_p, uint64_t after_ms, uint32_t rounds,
                 bool is_suspect, uint64_t first_fail_s)
{
    struct item *item = (*lease_p)->opaque;
    struct wire_message message = {.type = WIRE_RETRY};
    message.RETRY.token = token_of(item);
    message.RETRY.after_ms = after_ms;
    message.RETRY.rounds = rounds;
    message.RETRY.suspect = is_suspect;
    message.RETRY.first_fail_s = first_fail_s;
    say(self, item, &message);
    item_free(item);
    *lease_p = NULL;
}

void lease_release(lease_client_t *self, lease_t **lease_p, uint64_t after_ms)
{
    struct item *item = (*lease_p)->opaque;
    struct wire_message message = {.type = WIRE_RELEASE};
    message.RELEASE.token = token_of(item);
    message.RELEASE.after_ms = after_ms;
    say(self, item, &message);
    item_free(item);
    *lease_p = NULL;
}

void lease_dead(lease_client_t *self, lease_t **lease_p, const char *reason, int status,
                const char *upstream, struct slice excerpt)
{
    struct item *item = (*lease_p)->opaque;
    say_dead(self, item, reason, status, upstream, excerpt);
    item_free(item);
    *lease_p = NULL;
}
