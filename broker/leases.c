// SPDX-License-Identifier: MIT
/*
 * An outcome leaves the ledger at once and the disk later: DONE is settled in the spool's memory
 * here, and upkeep writes the ack when it comes to it; losing that ack costs one more delivery.
 * DEAD stays in the ledger, DYING, until upkeep says that dead/ is durable.
 */
#include "broker/leases.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"

#define AFTER_MAX_MS ((uint64_t)7 * 24 * 3600 * 1000) /* longest delay a courier may ask for */
#define COUNT_MAX    255                              /* where stored counts stop */
#define EXCERPT_MAX  1024

void leases_init(struct leases *self, struct broker_core *core, ledger_t *ledger)
{
    *self = (struct leases){
        .core = core,
        .ledger = ledger,
        .next_lease_no = 1,
        .lease_ms = core->env->options->lease,
    };
}

void leases_flush(struct leases *self)
{
    if (self->pending == NULL)
        return;
    mailbox_post(&self->core->to_upkeep, &self->pending->post.item);
    self->pending = NULL;
}

void leases_fini(struct leases *self)
{
    free(self->pending);
    self->pending = NULL;
}

static void add_outcome(struct leases *self, const struct outcome *outcome)
{
    if (self->pending == NULL) {
        self->pending = post_new(POST_OUTCOMES, sizeof *self->pending);
        self->pending_since_ms = self->now_ms;
    }
    self->pending->at[self->pending->count++] = *outcome;
    if (self->pending->count == OUTCOMES_MAX)
        leases_flush(self);
}

static uint64_t size_of(const struct entry *entry)
{
    return (uint64_t)entry->ref.meta_len + entry->ref.body_len;
}

uint64_t leases_begin(struct leases *self, struct entry *entry, struct courier *courier)
{
    courier->credit--;
    courier->has_alone = entry->state == ENTRY_ALONE;
    courier->wants_alone = false;
    self->leased_bytes += size_of(entry);
    ledger_lease(self->ledger, entry, courier, &courier->held, self->next_lease_no,
                 self->now_ms + self->lease_ms);
    return self->next_lease_no++;
}

struct entry *leases_find(struct leases *self, struct slice bytes)
{
    struct token token;
    struct entry *entry = NULL;
    if (token_decode(&token, bytes) == 0 && token.boot_id == self->core->boot_id)
        entry = ledger_find(self->ledger, &token.id);
    if (entry != NULL && entry->state == ENTRY_LEASED && entry->lease_no == token.lease_no)
        return entry;
    metrics_add(METRIC_queue_stale_tokens, 1);
    return NULL;
}

/* To be called right before the entry leaves LEASED; the list its move needs. Null when it is not
 * leased. */
static struct entry_list *end_lease(struct leases *self, struct entry *entry)
{
    if (entry->state != ENTRY_LEASED)
        return NULL;
    struct courier *courier = entry->holder;
    self->leased_bytes -= size_of(entry);
    courier->has_alone = false;
    return &courier->held;
}

/* False when it was settled before. */
static bool settle(struct leases *self, const struct record_id *id)
{
    bool is_first = spool_settle(self->core->spool, id);
    if (is_first)
        metrics_add(METRIC_relay_spool_entries, (uint64_t)-1);
    return is_first;
}

void leases_done(struct leases *self, struct entry *entry)
{
    if (settle(self, &entry->ref.id))
        add_outcome(self, &(struct outcome){.kind = OUTCOME_DONE, .ref = entry->ref});
    ledger_drop(self->ledger, entry, end_lease(self, entry));
}

static bool is_power_of_two(uint32_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static uint8_t count_cut(uint32_t n)
{
    return n < COUNT_MAX ? (uint8_t)n : COUNT_MAX;
}

/* Notes what survives a restart: suspicion when it begins or ends, and rounds 1, 2, 4, 8, ... so
 * that a request that fails for ever does not fill the disk. */
static void note_suspicion(struct leases *self, const struct entry *entry, bool was_suspect)
{
    const struct record_history *history = &entry->ref.history;
    bool is_due =
        history->is_suspect != was_suspect ||
        (history->is_suspect && is_power_of_two(entry->rounds) && entry->rounds <= COUNT_MAX);
    struct outcome outcome = {.kind = OUTCOME_SUSPECT, .ref = entry->ref};
    if (!is_due)
        return;
    outcome.rounds = history->rounds;
    if (history->is_suspect)
        outcome.value =
            history->first_fail_s < UINT32_MAX ? (uint32_t)history->first_fail_s : UINT32_MAX;
    add_outcome(self, &outcome);
}

static uint64_t due_after(const struct leases *self, uint64_t after_ms)
{
    return self->now_ms + (after_ms < AFTER_MAX_MS ? after_ms : AFTER_MAX_MS);
}

/* Back into the queue, at once or later. */
static void defer(struct leases *self, struct entry *entry, uint64_t after_ms)
{
    struct entry_list *held = end_lease(self, entry);
    if (after_ms == 0)
        ledger_again(self->ledger, entry, held);
    else
        (void)ledger_defer(self->ledger, entry, held, due_after(self, after_ms));
}

void leases_retry(struct leases *self, struct entry *entry, const struct wire_RETRY *retry)
{
    struct record_history *history = &entry->ref.history;
    bool was_suspect = history->is_suspect;
    if (history->expiries > 0) { /* a courier lived through it: it is not what kills couriers */
        history->expiries = 0;
        add_outcome(self, &(struct outcome){.kind = OUTCOME_EXPIRY, .ref = entry->ref});
    }
    entry->rounds = retry->rounds;
    history->rounds = count_cut(retry->rounds);
    history->is_suspect = retry->suspect;
    history->first_fail_s = retry->first_fail_s;
    note_suspicion(self, entry, was_suspect);
    spool_remember(self->core->spool, &entry->ref.id, history);
    defer(self, entry, retry->after_ms);
}

void leases_release(struct leases *self, struct entry *entry, uint64_t after_ms)
{
    defer(self, entry, after_ms);
}

/* Copies a text behind the others and ends it with a NUL. */
static struct slice keep(char **end, struct slice text)
{
    struct slice copy = {*end, text.len};
    if (text.len > 0)
        memcpy(*end, text.data, text.len);
    *end += text.len + 1;
    return copy;
}

void leases_dead(struct leases *self, struct entry *entry, const struct wire_DEAD *dead)
{
    struct slice excerpt = dead->excerpt;
    excerpt.len = excerpt.len < EXCERPT_MAX ? excerpt.len : EXCERPT_MAX;
    size_t size = dead->reason.len + dead->upstream.len + excerpt.len + 3;
    struct post_dead *order = post_new(POST_DEAD, sizeof *order + size);
    char *end = order->texts;
    order->ref = entry->ref;
    order->note.dead_ns = clock_wall_ns();
    order->note.rounds = entry->rounds;
    order->note.status = dead->status <= 999 ? (uint16_t)dead->status : 0;
    order->note.reason = keep(&end, dead->reason);
    order->note.upstream = keep(&end, dead->upstream);
    order->note.excerpt = keep(&end, excerpt);
    ledger_dying(self->ledger, entry, end_lease(self, entry));
    mailbox_post(&self->core->to_upkeep, &order->post.item);
}

void leases_expire(struct leases *self, struct entry *entry)
{
    struct record_history *history = &entry->ref.history;
    metrics_add(METRIC_queue_lease_expiries, 1);
    if (history->expiries < COUNT_MAX)
        history->expiries++;
    if (history->expiries >= LEDGER_EXPIRIES_MAX) {
        struct wire_DEAD dead = {.reason = slice_of("crashes_courier")};
        leases_dead(self, entry, &dead);
        return;
    }
    if (is_power_of_two(history->expiries))
        add_outcome(self, &(struct outcome){.kind = OUTCOME_EXPIRY,
                                            .value = history->expiries,
                                            .ref = entry->ref});
    spool_remember(self->core->spool, &entry->ref.id, history);
    defer(self, entry, 0);
}

void leases_give_back(struct leases *self, struct courier *courier, bool is_counting)
{
    while (courier->held.first != NULL) {
        if (is_counting)
            leases_expire(self, courier->held.first);
        else
            defer(self, courier->held.first, 0);
    }
    assert(courier->held.count == 0);
}

void leases_lost(struct leases *self, struct entry *entry)
{
    add_outcome(self, &(struct outcome){.kind = OUTCOME_LOST, .ref = entry->ref});
    ledger_dying(self->ledger, entry, NULL);
    leases_flush(self);
}

void leases_lost_unknown(struct leases *self, const struct record_ref *ref)
{
    add_outcome(self, &(struct outcome){.kind = OUTCOME_LOST, .ref = *ref});
}

void leases_buried(struct leases *self, const struct record_id *id)
{
    struct entry *entry = ledger_find(self->ledger, id);
    if (entry == NULL || entry->state != ENTRY_DYING)
        return;
    (void)settle(self, id); /* a damaged one upkeep has settled already */
    ledger_drop(self->ledger, entry, NULL);
}
