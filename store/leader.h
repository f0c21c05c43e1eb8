// SPDX-License-Identifier: MIT
/*
 * leader: whether this process is the leader, the one of all daemons on a store whose passes do the
 * live work, as plain arithmetic on times and on what the store answered. No thread, no clock, no
 * store: leading.h owns those and calls this under its lock.
 *
 * All times are clock_boot_ms. P is --pass-interval. The lease runs for 2.5 P from its last renewal
 * by the database's clock; the leader trusts it for 2.3 P from the moment the renewal was *sent*,
 * so its belief always ends before the row does, whatever the network or the scheduler does to it.
 */
#ifndef MCPD_STORE_LEADER_H
#define MCPD_STORE_LEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/backend.h"

/* What follows from P. */
uint64_t leader_ttl_ms(uint64_t pass_ms);    /* 2.5 P: the lease, by the database's clock */
uint64_t leader_trust_ms(uint64_t pass_ms);  /* 2.3 P: the belief, from when it was asked for */
uint64_t leader_try_ms(uint64_t pass_ms);    /* 0.3 P, at most 5 s: one bid or renewal */
uint64_t leader_fenced_ms(uint64_t pass_ms); /* 0.1 P, at most 5 s: a statement of a fenced
                                                transaction, which delays bids */

struct leader {
    uint64_t pass_ms;
    bool is_leader;
    bool is_renewed;         /* the last renewal was answered; else no new step starts */
    int64_t fence;           /* of the leadership now, or 0 */
    int64_t highest_fence;   /* ever seen: the next bid is to go above it */
    int64_t server;          /* which start of the database server gave the lease */
    uint64_t trust_until_ms; /* of the leadership now */
    uint64_t due_ms;         /* of the next bid or renewal */
    const char *lost_reason; /* static text, for the log */
};

enum leader_change { LEADER_STAYS, LEADER_WON, LEADER_LOST };

/* A follower, whose first bid is due now. */
void leader_init(struct leader *self, uint64_t pass_ms, uint64_t now_ms);

/* Lets a leader whose trust is over become a follower. Called before anything else is asked. */
enum leader_change leader_tick(struct leader *self, uint64_t now_ms);

/* When the store is asked next at the latest: a bid or renewal, or the end of the trust. */
uint64_t leader_next_ms(const struct leader *self);

/* How long a bid or renewal sent now may take. Never beyond the trust. */
uint64_t leader_limit_ms(const struct leader *self, uint64_t now_ms);

/* Takes in what became of the bid (of a follower) or renewal (of a leader) sent at sent_ms. row is
 * looked at unless status is BACKEND_AWAY. chance in [0, 1) spreads bids that fail together. */
enum leader_change leader_answered(struct leader *self, enum backend_status status,
                                   const struct lease_row *row, uint64_t sent_ms, uint64_t now_ms,
                                   double chance);

/* A fenced transaction under this fence found that the lease is another's. */
enum leader_change leader_fenced(struct leader *self, int64_t fence, uint64_t now_ms);

/* How long the leader may still work, 0 for a follower and while a renewal is unanswered: the
 * answer to whether a step, or anything that others see, may begin. */
uint64_t leader_trust_left_ms(const struct leader *self, uint64_t now_ms);

#endif
