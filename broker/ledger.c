// SPDX-License-Identifier: MIT
/*
 * All entries are allocated at birth. An entry is in exactly one list: free, READY, AGAIN, ALONE,
 * DEFERRED, DYING, or its holder's while LEASED; DEFERRED and LEASED ones are in the heap of due
 * times as well. `move` is the only way from state to state and keeps all of it in step.
 */
#include "broker/ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define HASH_PER_ENTRY 2

struct parked {
    uint64_t segno;
    uint64_t due_ms;
};

struct ledger {
    uint32_t capacity;
    struct entry *entries;
    struct entry_list lists[ENTRY_STATES]; /* LEASED: only the count is kept */
    struct entry **hash;
    uint32_t hash_mask;
    struct entry **heap; /* from 1 */
    uint32_t heap_count;
    uint32_t head_streak; /* READY ones chosen since the last AGAIN */
    struct parked *parked;
    size_t parked_count;
    size_t parked_capacity;
};

#define TO(state) (1U << ENTRY_##state)
static const unsigned allowed[ENTRY_STATES] = {
    [ENTRY_FREE] = TO(READY) | TO(AGAIN) | TO(ALONE),
    [ENTRY_READY] = TO(LEASED) | TO(DEFERRED) | TO(DYING) | TO(FREE),
    [ENTRY_AGAIN] = TO(LEASED) | TO(DEFERRED) | TO(DYING) | TO(FREE),
    [ENTRY_ALONE] = TO(LEASED) | TO(DEFERRED) | TO(DYING) | TO(FREE),
    [ENTRY_DEFERRED] = TO(AGAIN) | TO(ALONE) | TO(FREE),
    [ENTRY_LEASED] = TO(AGAIN) | TO(ALONE) | TO(DEFERRED) | TO(DYING) | TO(FREE),
    [ENTRY_DYING] = TO(FREE),
};

ledger_t *ledger_new(uint32_t capacity)
{
    ledger_t *self = calloc(1, sizeof *self);
    uint32_t buckets = 1;
    while (buckets < capacity * HASH_PER_ENTRY)
        buckets *= 2;
    if (self == NULL)
        abort();
    self->capacity = capacity;
    self->hash_mask = buckets - 1;
    self->entries = calloc(capacity, sizeof *self->entries);
    self->hash = calloc(buckets, sizeof(struct entry *));
    self->heap = calloc(capacity + 1, sizeof(struct entry *));
    if (self->entries == NULL || self->hash == NULL || self->heap == NULL)
        abort();
    struct entry_list *list = &self->lists[ENTRY_FREE];
    for (uint32_t i = 0; i < capacity; i++)
        self->entries[i].next = i + 1 < capacity ? &self->entries[i + 1] : NULL;
    for (uint32_t i = 1; i < capacity; i++)
        self->entries[i].previous = &self->entries[i - 1];
    *list = (struct entry_list){self->entries, &self->entries[capacity - 1], capacity};
    return self;
}

void ledger_destroy(ledger_t **self_p)
{
    ledger_t *self = *self_p;
    if (self == NULL)
        return;
    free(self->entries);
    free(self->hash);
    free(self->heap);
    free(self->parked);
    free(self);
    *self_p = NULL;
}

static void list_append(struct entry_list *list, struct entry *entry)
{
    entry->next = NULL;
    entry->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = entry;
    list->last = entry;
    list->count++;
}

static void list_remove(struct entry_list *list, struct entry *entry)
{
    *(entry->previous != NULL ? &entry->previous->next : &list->first) = entry->next;
    *(entry->next != NULL ? &entry->next->previous : &list->last) = entry->previous;
    list->count--;
}

static struct entry **bucket_of(const ledger_t *self, const struct record_id *id)
{
    uint64_t mixed = (id->segno * 0x9e3779b97f4a7c15u ^ id->ordinal) * 0x9e3779b97f4a7c15u;
    return &self->hash[mixed >> 32 & self->hash_mask];
}

struct entry *ledger_find(const ledger_t *self, const struct record_id *id)
{
    struct entry *entry = *bucket_of(self, id);
    while (entry != NULL &&
           (entry->ref.id.ordinal != id->ordinal || entry->ref.id.segno != id->segno ||
            entry->ref.id.nonce32 != id->nonce32))
        entry = entry->hash_next;
    return entry;
}

static void hash_remove(ledger_t *self, struct entry *entry)
{
    struct entry **at = bucket_of(self, &entry->ref.id);
    while (*at != entry)
        at = &(*at)->hash_next;
    *at = entry->hash_next;
}

static void heap_put(ledger_t *self, uint32_t at, struct entry *entry)
{
    self->heap[at] = entry;
    entry->heap_at = at;
}

/* Moves the entry, which belongs near `at`, to where its due time wants it. */
static void heap_settle(ledger_t *self, uint32_t at, struct entry *entry)
{
    while (at > 1 && self->heap[at / 2]->due_ms > entry->due_ms) {
        heap_put(self, at, self->heap[at / 2]);
        at /= 2;
    }
    for (;;) {
        uint32_t child = at * 2;
        if (child < self->heap_count && self->heap[child + 1]->due_ms < self->heap[child]->due_ms)
            child++;
        if (child > self->heap_count || self->heap[child]->due_ms >= entry->due_ms)
            break;
        heap_put(self, at, self->heap[child]);
        at = child;
    }
    heap_put(self, at, entry);
}

static void heap_remove(ledger_t *self, struct entry *entry)
{
    struct entry *last = self->heap[self->heap_count--];
    if (last != entry)
        heap_settle(self, entry->heap_at, last);
}

static bool has_due(enum entry_state state)
{
    return state == ENTRY_DEFERRED || state == ENTRY_LEASED;
}

/* held: the list of the holder where one side of the move is LEASED. */
static void move(ledger_t *self, struct entry *entry, enum entry_state to, struct entry_list *held)
{
    enum entry_state from = entry->state;
    assert(allowed[from] & 1U << to);
    assert((from == ENTRY_LEASED || to == ENTRY_LEASED) == (held != NULL));
    if (has_due(from))
        heap_remove(self, entry);
    if (from == ENTRY_LEASED) {
        list_remove(held, entry);
        self->lists[from].count--;
        entry->holder = NULL;
        entry->lease_no = 0;
    } else {
        list_remove(&self->lists[from], entry);
    }
    entry->state = to;
    if (to == ENTRY_LEASED) {
        list_append(held, entry);
        self->lists[to].count++;
    } else {
        list_append(&self->lists[to], entry);
    }
    if (has_due(to)) {
        self->heap_count++;
        heap_settle(self, self->heap_count, entry);
    }
}

static enum entry_state state_again(const struct entry *entry)
{
    return entry->ref.history.expiries >= LEDGER_ALONE_FROM ? ENTRY_ALONE : ENTRY_AGAIN;
}

uint32_t ledger_room(const ledger_t *self)
{
    return self->lists[ENTRY_FREE].count;
}

uint32_t ledger_count(const ledger_t *self, enum entry_state state)
{
    return self->lists[state].count;
}

struct entry *ledger_add(ledger_t *self, const struct record_ref *ref, bool is_rescan)
{
    struct entry *entry = self->lists[ENTRY_FREE].first;
    if (entry == NULL || ledger_find(self, &ref->id) != NULL)
        return NULL;
    entry->ref = *ref;
    entry->rounds = ref->history.rounds;
    entry->failed_reads = 0;
    bool is_fresh = !is_rescan && ref->history.first_fail_s == 0 && ref->history.expiries == 0;
    move(self, entry, is_fresh ? ENTRY_READY : state_again(entry), NULL);
    struct entry **bucket = bucket_of(self, &ref->id);
    entry->hash_next = *bucket;
    *bucket = entry;
    return entry;
}

struct entry *ledger_choose(ledger_t *self, bool may_take_alone)
{
    struct entry *ready = self->lists[ENTRY_READY].first;
    struct entry *again = self->lists[ENTRY_AGAIN].first;
    struct entry *alone = self->lists[ENTRY_ALONE].first;
    if (may_take_alone && alone != NULL)
        return alone;
    if (ready != NULL && again != NULL)
        return self->head_streak >= LEDGER_HEAD_PER_TURN ? again : ready;
    return ready != NULL ? ready : again;
}

void ledger_lease(ledger_t *self, struct entry *entry, void *holder, struct entry_list *held,
                  uint64_t lease_no, uint64_t until_ms)
{
    self->head_streak = entry->state == ENTRY_READY ? self->head_streak + 1 : 0;
    entry->due_ms = until_ms;
    move(self, entry, ENTRY_LEASED, held);
    entry->holder = holder;
    entry->lease_no = lease_no;
}

void ledger_renew(ledger_t *self, struct entry *entry, uint64_t until_ms)
{
    assert(entry->state == ENTRY_LEASED);
    entry->due_ms = until_ms;
    heap_settle(self, entry->heap_at, entry);
}

void ledger_again(ledger_t *self, struct entry *entry, struct entry_list *held)
{
    move(self, entry, state_again(entry), held);
}

bool ledger_defer(ledger_t *self, struct entry *entry, struct entry_list *held, uint64_t due_ms)
{
    if (self->lists[ENTRY_DEFERRED].count >= self->capacity / 2) {
        ledger_park(self, entry->ref.id.segno, due_ms);
        ledger_drop(self, entry, held);
        return false;
    }
    entry->due_ms = due_ms;
    move(self, entry, ENTRY_DEFERRED, held);
    return true;
}

void ledger_dying(ledger_t *self, struct entry *entry, struct entry_list *held)
{
    move(self, entry, ENTRY_DYING, held);
}

void ledger_drop(ledger_t *self, struct entry *entry, struct entry_list *held)
{
    hash_remove(self, entry);
    move(self, entry, ENTRY_FREE, held);
}

struct entry *ledger_expired(ledger_t *self, uint64_t now_ms)
{
    while (self->heap_count > 0 && self->heap[1]->due_ms <= now_ms) {
        struct entry *entry = self->heap[1];
        if (entry->state == ENTRY_LEASED)
            return entry;
        move(self, entry, state_again(entry), NULL);
    }
    return NULL;
}

void ledger_park(ledger_t *self, uint64_t segno, uint64_t due_ms)
{
    for (size_t i = 0; i < self->parked_count; i++) {
        if (self->parked[i].segno != segno)
            continue;
        if (due_ms < self->parked[i].due_ms)
            self->parked[i].due_ms = due_ms;
        return;
    }
    if (self->parked_count == self->parked_capacity) {
        self->parked_capacity = self->parked_capacity > 0 ? self->parked_capacity * 2 : 16;
        self->parked = realloc(self->parked, self->parked_capacity * sizeof *self->parked);
        if (self->parked == NULL)
            abort();
    }
    self->parked[self->parked_count++] = (struct parked){segno, due_ms};
}

bool ledger_parked(ledger_t *self, uint64_t now_ms, uint64_t *segno)
{
    for (size_t i = 0; i < self->parked_count; i++) {
        if (self->parked[i].due_ms > now_ms)
            continue;
        *segno = self->parked[i].segno;
        self->parked[i] = self->parked[--self->parked_count];
        return true;
    }
    return false;
}

bool ledger_has_parked(const ledger_t *self)
{
    return self->parked_count > 0;
}

uint64_t ledger_wait_ms(const ledger_t *self, uint64_t now_ms)
{
    return clock_until_ms(self->heap_count > 0 ? self->heap[1]->due_ms : UINT64_MAX, now_ms);
}

uint64_t ledger_parked_wait_ms(const ledger_t *self, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    for (size_t i = 0; i < self->parked_count; i++)
        if (self->parked[i].due_ms < due_ms)
            due_ms = self->parked[i].due_ms;
    return clock_until_ms(due_ms, now_ms);
}

void ledger_shift_leases(ledger_t *self, uint64_t by_ms)
{
    for (uint32_t i = 0; i < self->capacity; i++)
        if (self->entries[i].state == ENTRY_LEASED)
            ledger_renew(self, &self->entries[i], self->entries[i].due_ms + by_ms);
}

uint64_t ledger_oldest_ns(const ledger_t *self)
{
    uint64_t oldest_ns = 0;
    for (uint32_t i = 0; i < self->capacity; i++) {
        const struct entry *entry = &self->entries[i];
        if (entry->state != ENTRY_FREE && (oldest_ns == 0 || entry->ref.arrival_ns < oldest_ns))
            oldest_ns = entry->ref.arrival_ns;
    }
    return oldest_ns;
}
