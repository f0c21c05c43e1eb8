// SPDX-License-Identifier: MIT
/*
 * ledger: what delivery knows of requests: ids, states and due times, no bytes. It holds a window
 * of at most `capacity` records, however many wait in the spool; what has no place is forgotten and
 * comes back by a scan of its segment. Pure functions of now_ms; one thread.
 *
 *     READY    never failed, in the order of the spool
 *     AGAIN    had failed, was given back or its lease ended; its time has come
 *     ALONE    ended several leases without an outcome; to be leased while its courier has nothing
 *              else
 *     DEFERRED failed or given back; not before due_ms
 *     LEASED   with a courier until due_ms
 *     DYING    on its way to dead/, or found damaged; upkeep has it
 */
#ifndef MCPD_LEDGER_H
#define MCPD_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/spool.h"

typedef struct ledger ledger_t;

enum entry_state {
    ENTRY_FREE,
    ENTRY_READY,
    ENTRY_AGAIN,
    ENTRY_ALONE,
    ENTRY_DEFERRED,
    ENTRY_LEASED,
    ENTRY_DYING,
    ENTRY_STATES
};

#define LEDGER_CAPACITY      8192
#define LEDGER_ALONE_FROM    3 /* lease expiries without an outcome */
#define LEDGER_EXPIRIES_MAX  8 /* so many, and the request counts as one that kills couriers */
#define LEDGER_HEAD_PER_TURN 4 /* READY taken for each AGAIN while both wait */

/* Read by anyone, changed through ledger_ functions only, except ref.history, rounds,
 * failed_reads and ref. */
struct entry {
    struct record_ref ref;
    enum entry_state state;
    uint32_t rounds;       /* failed rounds, as the courier counts them */
    uint32_t failed_reads; /* in a row, since it came into the ledger */
    uint64_t due_ms;
    uint64_t lease_no;  /* of the present lease */
    void *holder;       /* of the present lease */
    struct entry *next; /* in the list of its state, or of its holder */
    struct entry *previous;
    struct entry *hash_next;
    uint32_t heap_at;
};

/* A list of entries; the ledger's own and one for each holder of leases. */
struct entry_list {
    struct entry *first;
    struct entry *last;
    uint32_t count;
};

ledger_t *ledger_new(uint32_t capacity) MUST_USE;
void ledger_destroy(ledger_t **self_p);

/* Takes a durable record on, READY or, where it failed before or comes from a rescan, AGAIN or
 * ALONE. Null when it is known already or there is no room (ask ledger_room). */
struct entry *ledger_add(ledger_t *self, const struct record_ref *ref, bool is_rescan);
/* Records that may still be added. */
uint32_t ledger_room(const ledger_t *self);
struct entry *ledger_find(const ledger_t *self, const struct record_id *id);
uint32_t ledger_count(const ledger_t *self, enum entry_state state);

/* The one to lease next, or null: ALONE ones only where the asker could take one. One AGAIN follows
 * LEDGER_HEAD_PER_TURN READY while both wait. The choice is final only with ledger_lease. */
struct entry *ledger_choose(ledger_t *self, bool may_take_alone);

void ledger_lease(ledger_t *self, struct entry *entry, void *holder, struct entry_list *held,
                  uint64_t lease_no, uint64_t until_ms);
void ledger_renew(ledger_t *self, struct entry *entry, uint64_t until_ms);

/* Each ends the lease, if any (held: its holder's list, null when not leased). */
void ledger_again(ledger_t *self, struct entry *entry, struct entry_list *held);
/* False: deferred entries have filled their half of the window; the entry is freed and its segment
 * is given by ledger_parked at due_ms. */
bool ledger_defer(ledger_t *self, struct entry *entry, struct entry_list *held, uint64_t due_ms);
void ledger_dying(ledger_t *self, struct entry *entry, struct entry_list *held);
void ledger_drop(ledger_t *self, struct entry *entry, struct entry_list *held);

/* Deferred entries whose time has come become AGAIN; returns a lease that ran out, for the caller
 * to judge (it stays LEASED until moved), or null. Call until null. */
struct entry *ledger_expired(ledger_t *self, uint64_t now_ms);
/* A segment to scan from its start, because entries of it were dropped and are due. */
bool ledger_parked(ledger_t *self, uint64_t now_ms, uint64_t *segno);
/* Asks for a segment to be given by ledger_parked at due_ms or before. */
void ledger_park(ledger_t *self, uint64_t segno, uint64_t due_ms);
bool ledger_has_parked(const ledger_t *self);

/* Until ledger_expired has something, UINT64_MAX: nothing waits for a time. */
uint64_t ledger_wait_ms(const ledger_t *self, uint64_t now_ms);
/* The same for ledger_parked. */
uint64_t ledger_parked_wait_ms(const ledger_t *self, uint64_t now_ms);
/* This process slept: leases get that much longer. */
void ledger_shift_leases(ledger_t *self, uint64_t by_ms);
/* Arrival of the oldest record of the window; 0: the window is empty. */
uint64_t ledger_oldest_ns(const ledger_t *self);

#endif
