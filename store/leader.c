// SPDX-License-Identifier: MIT
/*
 * A bid counts as a renewal: its trust runs from when it was sent, and the next renewal is due a P
 * after that. Whatever makes a leader a follower makes its next bid due at once; whether it may win
 * is for the row to say.
 */
#include "store/leader.h"

#include "common/clock.h"

/* Between tries while the store does not answer; a quarter of P where that is shorter. */
#define RETRY_MS     1000
#define LIMIT_MAX_MS 5000
/* Followers that wait for the same moment bid this long after it. */
#define SPREAD_MIN_MS 50
#define SPREAD_MAX_MS 250

uint64_t leader_ttl_ms(uint64_t pass_ms)
{
    return pass_ms * 5 / 2;
}

uint64_t leader_trust_ms(uint64_t pass_ms)
{
    return leader_ttl_ms(pass_ms) - pass_ms / 5;
}

uint64_t leader_try_ms(uint64_t pass_ms)
{
    return clock_sooner_ms(pass_ms * 3 / 10, LIMIT_MAX_MS);
}

uint64_t leader_fenced_ms(uint64_t pass_ms)
{
    return clock_sooner_ms(pass_ms / 10, LIMIT_MAX_MS);
}

void leader_init(struct leader *self, uint64_t pass_ms, uint64_t now_ms)
{
    *self = (struct leader){.pass_ms = pass_ms, .due_ms = now_ms};
}

static enum leader_change step_down(struct leader *self, const char *reason, uint64_t now_ms)
{
    self->lost_reason = reason;
    self->is_leader = false;
    self->is_renewed = false;
    self->fence = 0;
    self->due_ms = now_ms;
    return LEADER_LOST;
}

enum leader_change leader_tick(struct leader *self, uint64_t now_ms)
{
    if (!self->is_leader || now_ms < self->trust_until_ms)
        return LEADER_STAYS;
    return step_down(self, "no renewal was answered in time", now_ms);
}

uint64_t leader_next_ms(const struct leader *self)
{
    return self->is_leader ? clock_sooner_ms(self->due_ms, self->trust_until_ms) : self->due_ms;
}

uint64_t leader_limit_ms(const struct leader *self, uint64_t now_ms)
{
    uint64_t limit_ms = leader_try_ms(self->pass_ms);
    if (!self->is_leader)
        return limit_ms;
    return clock_sooner_ms(limit_ms, clock_until_ms(self->trust_until_ms, now_ms));
}

static uint64_t spread_ms(double chance)
{
    return SPREAD_MIN_MS + (uint64_t)(chance * (SPREAD_MAX_MS - SPREAD_MIN_MS));
}

static void trust(struct leader *self, uint64_t sent_ms)
{
    self->is_renewed = true;
    self->trust_until_ms = sent_ms + leader_trust_ms(self->pass_ms);
    self->due_ms = sent_ms + self->pass_ms;
}

static enum leader_change bid_answered(struct leader *self, enum backend_status status,
                                       const struct lease_row *row, uint64_t sent_ms,
                                       uint64_t now_ms, double chance)
{
    if (status != BACKEND_OK) {
        self->due_ms = now_ms + clock_sooner_ms(self->pass_ms, row->left_ms + spread_ms(chance));
        return LEADER_STAYS;
    }
    self->is_leader = true;
    self->fence = row->fence;
    self->server = row->server;
    trust(self, sent_ms);
    /* An answer that took too long to arrive, or to be looked at, grants nothing any more. */
    return leader_tick(self, now_ms) == LEADER_LOST ? LEADER_STAYS : LEADER_WON;
}

static enum leader_change renewal_answered(struct leader *self, enum backend_status status,
                                           const struct lease_row *row, uint64_t sent_ms,
                                           uint64_t now_ms)
{
    if (status != BACKEND_OK)
        return step_down(self, "the lease is not ours any more", now_ms);
    /* Another start of the server may know less than the one that gave the lease. */
    if (row->server != self->server)
        return step_down(self, "the database server was started anew", now_ms);
    trust(self, sent_ms);
    return leader_tick(self, now_ms);
}

enum leader_change leader_answered(struct leader *self, enum backend_status status,
                                   const struct lease_row *row, uint64_t sent_ms, uint64_t now_ms,
                                   double chance)
{
    if (status == BACKEND_AWAY) {
        uint64_t retry_ms = clock_sooner_ms(RETRY_MS, self->pass_ms / 4);
        self->is_renewed = false;
        self->due_ms = now_ms + retry_ms;
        if (!self->is_leader)
            self->due_ms += spread_ms(chance);
        return leader_tick(self, now_ms);
    }
    if (row->fence > self->highest_fence)
        self->highest_fence = row->fence;
    return self->is_leader ? renewal_answered(self, status, row, sent_ms, now_ms)
                           : bid_answered(self, status, row, sent_ms, now_ms, chance);
}

enum leader_change leader_fenced(struct leader *self, int64_t fence, uint64_t now_ms)
{
    if (!self->is_leader || self->fence != fence)
        return LEADER_STAYS;
    return step_down(self, "a write was refused: the lease is not ours any more", now_ms);
}

uint64_t leader_trust_left_ms(const struct leader *self, uint64_t now_ms)
{
    if (!self->is_leader || !self->is_renewed)
        return 0;
    return clock_until_ms(self->trust_until_ms, now_ms);
}
