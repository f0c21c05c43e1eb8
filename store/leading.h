// SPDX-License-Identifier: MIT
/*
 * leading: keeps this daemon a candidate for the lease, and the leader while it has it: bids and
 * renews on a thread and a connection of its own, so that neither ingest nor a long pass can let
 * the lease lapse. Logs lease.won, lease.lost and lease.given_up, keeps the metrics mcpd_lease_*.
 *
 * All functions but new and destroy: any thread, never blocking for long.
 */
#ifndef MCPD_STORE_LEADING_H
#define MCPD_STORE_LEADING_H

#include "store/backend.h"

typedef struct leading leading_t;

/* Connects and starts. The store must outlive it. Null with the reason. */
leading_t *leading_new(const struct backend *backend, backend_store_t *store, uint64_t pass_ms,
                       struct err *err) MUST_USE;
/* Gives the lease up, where it is held, and ends the thread. Blocks for 10 s at most. Whoever
 * works under a claim must have ended before. */
void leading_destroy(leading_t **self_p);

/* The name of this process as a holder, of LEASE_HOLDER_LEN digits. */
const char *leading_holder(const leading_t *self);

/* How long (milliseconds) this process may do the leader's work from now on, with *claim for its
 * writes; 0: nothing may begin. To be asked before each step, and before anything that others see.
 */
uint64_t leading_claim(leading_t *self, struct lease_claim *claim);
/* The same for work begun under a claim: 0 also when the lease was lost and won again since. */
uint64_t leading_holds(leading_t *self, const struct lease_claim *claim);
/* A write under the claim came back as BACKEND_FENCED. */
void leading_fenced(leading_t *self, const struct lease_claim *claim);

/* Waits until at_ms (clock_mono_ms), or until the lease was won or lost, or leading_wake called,
 * since the last call with the same *seen (first 0). May also return for no reason. */
void leading_wait(leading_t *self, uint64_t at_ms, unsigned *seen);
void leading_wake(leading_t *self);

#endif
