// SPDX-License-Identifier: MIT
/*
 * A lease is an entry; an entry waits, in order, or is under way in a slot. An entry whose attempt
 * failed goes back to the head of the line with that upstream in its `tried` set, so that it is
 * offered to the next one at once; when none is left its round is over and the broker gets it back.
 *
 * An entry also waits here while the upstream it would go to is full or has its trial under way:
 * leases are renewed, and there are never more than two for each worker, so the line is a plain
 * array.
 */
#include "courier/deliveries.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "courier/backoff.h"
#include "courier/partial.h"
#include "courier/push.h"
#include "proto/idem.h"

#define WAIT_MS       1000 /* of class WAIT without a Retry-After, and of class LOCAL */
#define WAIT_MAX_S    3600
#define LOG_REPEAT_MS 60000
#define LARGE_BYTES   ((size_t)64 * 1024)

struct entry {
    lease_t *lease;
    uint64_t tried;     /* bit i: failed at upstream i in this round */
    bool is_expectless; /* an upstream refused our Expect */
};

struct slot {
    push_t *push;
    struct entry entry; /* without a lease: the slot is free */
    struct attempt attempt;
};

struct deliveries {
    struct deliveries_config config;
    struct slot *slots;   /* config.workers */
    unsigned *free_slots; /* a stack of indices */
    unsigned free_count;
    struct entry *line; /* those waiting, the next one first */
    unsigned waiting;
    unsigned room;  /* entries held at most, waiting or under way */
    unsigned asked; /* leases the broker may still send */
    bool is_stopped;
    struct log_limit local_limit;
    struct log_limit partial_limit;
};

static void *make(size_t count, size_t size)
{
    void *made = calloc(count, size);
    if (!made)
        abort();
    return made;
}

deliveries_t *deliveries_new(const struct deliveries_config *config)
{
    deliveries_t *self = make(1, sizeof *self);
    self->config = *config;
    self->room = 2 * config->workers; /* one waits behind each that is under way */
    self->slots = make(config->workers, sizeof self->slots[0]);
    self->free_slots = make(config->workers, sizeof self->free_slots[0]);
    self->line = make(self->room, sizeof self->line[0]);
    for (unsigned i = 0; i < config->workers; i++) {
        self->slots[i].push = push_new(PUSH_REQUEST, &self->slots[i]);
        self->free_slots[self->free_count++] = i;
    }
    return self;
}

static unsigned under_way(const deliveries_t *self)
{
    return self->config.workers - self->free_count;
}

static void release(deliveries_t *self, struct entry *entry, uint64_t after_ms)
{
    lease_release(self->config.lease_client, &entry->lease, after_ms);
}

/* Takes the entry out of its slot, which is free again. */
static struct entry leave_slot(deliveries_t *self, struct slot *slot)
{
    struct entry entry = slot->entry;
    curl_multi_remove_handle(self->config.multi, push_handle(slot->push));
    slot->entry.lease = NULL;
    self->free_slots[self->free_count++] = (unsigned)(slot - self->slots);
    return entry;
}

void deliveries_destroy(deliveries_t **self_p)
{
    deliveries_t *self = *self_p;
    if (!self)
        return;
    deliveries_stop(self);
    for (unsigned i = 0; i < self->config.workers; i++) {
        struct slot *slot = &self->slots[i];
        if (slot->entry.lease) {
            struct entry entry = leave_slot(self, slot);
            release(self, &entry, 0);
        }
        push_destroy(&slot->push);
    }
    free(self->slots);
    free(self->free_slots);
    free(self->line);
    free(self);
    *self_p = NULL;
}

static void line_up(deliveries_t *self, unsigned at, struct entry entry)
{
    assert(self->waiting < self->room);
    memmove(&self->line[at + 1], &self->line[at], (self->waiting - at) * sizeof entry);
    self->line[at] = entry;
    self->waiting++;
}

static struct entry leave_line(deliveries_t *self, unsigned at)
{
    struct entry entry = self->line[at];
    self->waiting--;
    memmove(&self->line[at], &self->line[at + 1], (self->waiting - at) * sizeof entry);
    return entry;
}

void deliveries_add(deliveries_t *self, lease_t **lease_p)
{
    struct entry entry = {.lease = *lease_p};
    *lease_p = NULL;
    if (self->asked > 0)
        self->asked--;
    if (self->is_stopped || self->waiting + under_way(self) == self->room)
        release(self, &entry, 0); /* a broker that sends more than was asked for gets it back */
    else
        line_up(self, self->waiting, entry);
}

/* The key as text, for the log's rid. */
struct rid {
    char text[IDEM_KEY_MAX + 1];
};

static struct rid rid_of(const struct entry *entry)
{
    struct slice key = entry->lease->request.idempotency_key;
    struct rid rid = {{0}};
    memcpy(rid.text, key.data, key.len < IDEM_KEY_MAX ? key.len : IDEM_KEY_MAX);
    return rid;
}

static void bury(deliveries_t *self, struct entry *entry, const char *reason, int status,
                 const char *upstream, struct slice excerpt)
{
    log_at(LEVEL_WARN, "request.refused", rid_of(entry).text, LOG_TEXT("reason", reason),
           LOG_TEXT("upstream", upstream), LOG_NUM("status", status));
    lease_dead(self->config.lease_client, &entry->lease, reason, status, upstream, excerpt);
}

static bool is_fresh(const struct entry *entry)
{
    return entry->tried == 0 && entry->lease->rounds == 0;
}

/* An upstream that refuses a body before it is sent and closes at once may reset the connection so
 * that its refusal is lost: to us it is a failure of the upstream, again and again. A large request
 * that failed before therefore asks for leave to send its body. */
static bool asks_first(const struct entry *entry)
{
    return !is_fresh(entry) && entry->lease->body.len >= LARGE_BYTES && !entry->is_expectless;
}

static void start(deliveries_t *self, struct entry entry, const struct choice *choice,
                  uint64_t now_ms)
{
    upstreams_t *upstreams = self->config.upstreams;
    struct slot *slot = &self->slots[self->free_slots[self->free_count - 1]];
    struct push_target target = {
        .spec = upstreams_spec(upstreams, choice->upstream),
        .our_authorization = self->config.our_authorization,
        .connection_age_s = upstreams_connection_age_s(upstreams, choice->upstream, now_ms),
        .is_fresh = choice->is_trial,
        .asks_first = asks_first(&entry),
    };
    struct err err;
    if (push_prepare_request(slot->push, &target, &entry.lease->request, entry.lease->body, &err) ==
        -1) {
        bury(self, &entry, "unsendable", 0, "", slice_of(err.text));
        return;
    }
    if (curl_multi_add_handle(self->config.multi, push_handle(slot->push)) != CURLM_OK)
        abort(); /* only without memory */
    self->free_count--;
    slot->entry = entry;
    slot->attempt = upstreams_begin(upstreams, choice, now_ms);
}

/* No upstream is left for it. What failed everywhere it could be tried has a round behind it; what
 * was not tried at all comes back when the first cool-off ends. */
static void end_round(deliveries_t *self, struct entry *entry, uint64_t now_ms)
{
    if (entry->tried == 0) {
        uint64_t open_at_ms = upstreams_open_at_ms(self->config.upstreams, now_ms);
        release(self, entry, clock_until_ms(open_at_ms, now_ms));
        return;
    }
    const lease_t *lease = entry->lease;
    uint32_t rounds = lease->rounds < UINT32_MAX ? lease->rounds + 1 : UINT32_MAX;
    uint64_t first_fail_s = lease->first_fail_s ? lease->first_fail_s : clock_wall_s();
    lease_retry(self->config.lease_client, &entry->lease,
                backoff_round_ms(rounds, clock_random_unit()), rounds, false, first_fail_s);
}

/* A trial is better taken by a request that never failed, if it would go there, too: should the
 * request itself be at fault, its next failure would say nothing of the upstream. */
static unsigned best_for_trial(const deliveries_t *self, unsigned at, size_t upstream,
                               uint64_t now_ms)
{
    struct choice fresh = upstreams_choose(self->config.upstreams, 0, now_ms);
    if (is_fresh(&self->line[at]) || fresh.kind != CHOICE_TAKE || fresh.upstream != upstream)
        return at;
    for (unsigned i = 0; i < self->waiting; i++) {
        if (is_fresh(&self->line[i]))
            return i;
    }
    return at;
}

enum step { STEP_NONE, STEP_STARTED, STEP_ENDED };

/* Moves the first entry that can be moved. */
static enum step step(deliveries_t *self, uint64_t now_ms)
{
    for (unsigned at = 0; at < self->waiting; at++) {
        struct choice choice =
            upstreams_choose(self->config.upstreams, self->line[at].tried, now_ms);
        if (choice.kind == CHOICE_TAKE) {
            if (choice.is_trial)
                at = best_for_trial(self, at, choice.upstream, now_ms);
            start(self, leave_line(self, at), &choice, now_ms);
            return STEP_STARTED;
        }
        if (choice.kind == CHOICE_NOBODY) {
            struct entry entry = leave_line(self, at);
            end_round(self, &entry, now_ms);
            return STEP_ENDED;
        }
    }
    return STEP_NONE;
}

bool deliveries_turn(deliveries_t *self, uint64_t now_ms)
{
    bool has_started = false;
    enum step moved = STEP_ENDED;
    while (moved != STEP_NONE && self->free_count > 0) {
        moved = step(self, now_ms);
        has_started = has_started || moved == STEP_STARTED;
    }
    return has_started;
}

/* What each class means for the request. */
typedef void end_handler(deliveries_t *self, struct entry *entry, const struct push_result *result,
                         const struct attempt *attempt, uint64_t now_ms);

/* Sending it again would change nothing: the upstream has decided. */
static void tell_partial(deliveries_t *self, const struct entry *entry, uint64_t rejected,
                         size_t upstream, uint64_t now_ms)
{
    const char *name = upstreams_spec(self->config.upstreams, upstream)->name;
    metric_series_add(metrics_series(METRIC_relay_rejected_items, name, NULL), rejected);
    if (log_allowed(&self->partial_limit, LOG_REPEAT_MS, now_ms))
        log_at(LEVEL_WARN, "request.partly_rejected", rid_of(entry).text,
               LOG_TEXT("upstream", name), LOG_NUM("items", rejected));
}

static void on_delivered(deliveries_t *self, struct entry *entry, const struct push_result *result,
                         const struct attempt *attempt, uint64_t now_ms)
{
    uint64_t rejected = partial_rejected(result->excerpt, result->is_protobuf);
    if (rejected > 0)
        tell_partial(self, entry, rejected, attempt->upstream, now_ms);
    lease_done(self->config.lease_client, &entry->lease);
}

static void on_failed(deliveries_t *self, struct entry *entry, const struct push_result *result,
                      const struct attempt *attempt, uint64_t now_ms)
{
    (void)result, (void)now_ms;
    entry->tried |= (uint64_t)1 << attempt->upstream;
    line_up(self, 0, *entry);
}

static void on_wait(deliveries_t *self, struct entry *entry, const struct push_result *result,
                    const struct attempt *attempt, uint64_t now_ms)
{
    (void)attempt, (void)now_ms;
    uint64_t after_ms = WAIT_MS;
    if (result->retry_after_s > 0)
        after_ms = backoff_retry_after_ms(result->retry_after_s, WAIT_MAX_S, clock_random_unit());
    release(self, entry, after_ms);
}

static void on_refused(deliveries_t *self, struct entry *entry, const struct push_result *result,
                       const struct attempt *attempt, uint64_t now_ms)
{
    (void)now_ms;
    bury(self, entry, "refused", result->facts.status,
         upstreams_spec(self->config.upstreams, attempt->upstream)->name, result->excerpt);
}

static void on_local(deliveries_t *self, struct entry *entry, const struct push_result *result,
                     const struct attempt *attempt, uint64_t now_ms)
{
    (void)attempt;
    if (log_allowed(&self->local_limit, LOG_REPEAT_MS, now_ms))
        log_at(LEVEL_ERROR, "attempt.local_trouble", rid_of(entry).text,
               LOG_TEXT("reason", result->detail));
    release(self, entry, WAIT_MS);
}

static void on_again(deliveries_t *self, struct entry *entry, const struct push_result *result,
                     const struct attempt *attempt, uint64_t now_ms)
{
    (void)result, (void)attempt, (void)now_ms;
    entry->is_expectless = true;
    line_up(self, 0, *entry);
}

static end_handler *const end_handlers[OUTCOME_CLASS_COUNT] = {
    [OUTCOME_DELIVERED] = on_delivered, [OUTCOME_HARD] = on_failed, [OUTCOME_SOFT] = on_failed,
    [OUTCOME_CONFIG] = on_failed,       [OUTCOME_WAIT] = on_wait,   [OUTCOME_FINAL] = on_refused,
    [OUTCOME_LOCAL] = on_local,         [OUTCOME_AGAIN] = on_again,
};

void deliveries_ended(deliveries_t *self, CURL *handle, CURLcode code, uint64_t now_ms)
{
    struct slot *slot = push_owner(handle);
    struct push_result result;
    push_result(slot->push, code, clock_wall_s(), &result);
    metrics_observe_us(METRIC_relay_attempt_seconds, result.took_us);
    struct attempt_end end = {
        .outcome = outcome_of(&result.facts),
        .retry_after_s = result.retry_after_s,
        .detail = result.detail,
    };
    enum outcome_class class =
        upstreams_end(self->config.upstreams, &slot->attempt, &end, now_ms, clock_random_unit());
    struct entry entry = leave_slot(self, slot);
    end_handlers[class](self, &entry, &result, &slot->attempt, now_ms);
    if (self->is_stopped)
        deliveries_stop(self); /* a failed one stands in line again */
}

void deliveries_ask(deliveries_t *self, uint64_t now_ms)
{
    unsigned held = self->waiting + under_way(self) + self->asked;
    if (self->is_stopped || held + self->config.workers / 2 >= self->room ||
        upstreams_open_at_ms(self->config.upstreams, now_ms) > now_ms)
        return;
    lease_client_credit(self->config.lease_client, self->room - held);
    self->asked += self->room - held;
}

void deliveries_stop(deliveries_t *self)
{
    self->is_stopped = true;
    while (self->waiting > 0) {
        struct entry entry = leave_line(self, 0);
        release(self, &entry, 0);
    }
}

bool deliveries_are_idle(const deliveries_t *self)
{
    return under_way(self) == 0;
}
