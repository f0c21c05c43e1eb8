// SPDX-License-Identifier: MIT
/*
 * leases: what happens to an entry of the ledger when something is said of its lease: the rules of
 * retries, expiries and dead letters, and the outcomes that upkeep is to write. No sockets.
 * Delivery's thread.
 */
#ifndef MCPD_BROKER_LEASES_H
#define MCPD_BROKER_LEASES_H

#include "broker/core.h"
#include "broker/couriers.h"
#include "broker/ledger.h"
#include "broker/posts.h"
#include "proto/wire.h"

#define LEASED_BYTES_MAX ((uint64_t)64 * 1024 * 1024) /* with couriers at once */

struct leases {
    struct broker_core *core;
    ledger_t *ledger;
    struct post_outcomes *pending; /* for upkeep; null: none */
    uint64_t pending_since_ms;
    uint64_t next_lease_no;
    uint64_t leased_bytes;
    uint64_t now_ms; /* set by delivery each turn */
    uint64_t lease_ms;
};

void leases_init(struct leases *self, struct broker_core *core, ledger_t *ledger);
/* Posts what is pending. */
void leases_flush(struct leases *self);
void leases_fini(struct leases *self);

/* Leases the entry to the courier, using up a credit; the number goes into the token. */
uint64_t leases_begin(struct leases *self, struct entry *entry, struct courier *courier);

/* The entry of a token whose lease is still running; null for any other token, which is counted. */
struct entry *leases_find(struct leases *self, struct slice token);

void leases_done(struct leases *self, struct entry *entry);
void leases_retry(struct leases *self, struct entry *entry, const struct wire_RETRY *retry);
void leases_release(struct leases *self, struct entry *entry, uint64_t after_ms);
void leases_dead(struct leases *self, struct entry *entry, const struct wire_DEAD *dead);
/* Ended without an outcome: again, alone, or dead, by how often that happened. */
void leases_expire(struct leases *self, struct entry *entry);

/* All of a courier's leases, which end now; counting: without an outcome. */
void leases_give_back(struct leases *self, struct courier *courier, bool is_counting);

/* The record of an entry that is not leased does not read back: upkeep takes it from here. */
void leases_lost(struct leases *self, struct entry *entry);
/* The same for one that a scan found and the ledger never had. */
void leases_lost_unknown(struct leases *self, const struct record_ref *ref);
/* upkeep is through with a DYING entry. */
void leases_buried(struct leases *self, const struct record_id *id);

#endif
