// SPDX-License-Identifier: MIT
#include "store/quota.h"

#include <assert.h>
#include <string.h>

static uint64_t *count_of(struct quota_window *self, uint64_t second)
{
    return &self->counts[second % QUOTA_SECONDS];
}

/* Forgets the seconds that are too old at now_s; returns the second that counts as now. */
static uint64_t advance(struct quota_window *self, uint64_t now_s)
{
    if (now_s <= self->newest_s)
        return self->newest_s;
    if (now_s - self->newest_s >= QUOTA_SECONDS) {
        memset(self->counts, 0, sizeof self->counts);
        self->sum = 0;
        self->newest_s = now_s;
    }
    while (self->newest_s < now_s) {
        uint64_t *count = count_of(self, ++self->newest_s);
        self->sum -= *count;
        *count = 0;
    }
    return now_s;
}

/* After how many seconds so much of what counts now does no more. */
static uint64_t wait_for_room(struct quota_window *self, uint64_t amount)
{
    uint64_t freed = 0;
    for (uint64_t wait_s = 1; wait_s <= QUOTA_SECONDS; wait_s++) {
        freed += *count_of(self, self->newest_s + wait_s); /* the oldest first */
        if (freed >= amount)
            return wait_s;
    }
    return QUOTA_SECONDS;
}

bool quota_fits(struct quota_window *self, uint64_t ceiling, uint64_t amount, uint64_t now_s,
                struct quota_lack *lack)
{
    advance(self, now_s);
    lack->left = ceiling > self->sum ? ceiling - self->sum : 0; /* the ceiling may have sunk */
    lack->wait_s = 0;
    if (amount <= lack->left && self->sum <= ceiling)
        return true;
    if (amount <= ceiling)
        lack->wait_s = wait_for_room(self, self->sum + amount - ceiling);
    return false;
}

void quota_add(struct quota_window *self, uint64_t amount, uint64_t now_s)
{
    *count_of(self, advance(self, now_s)) += amount;
    self->sum += amount;
}

void quota_give_back(struct quota_window *self, uint64_t amount, uint64_t then_s, uint64_t now_s)
{
    uint64_t newest_s = advance(self, now_s);
    if (newest_s >= then_s + QUOTA_SECONDS)
        return;
    uint64_t *count = count_of(self, then_s);
    assert(then_s <= newest_s && amount <= *count);
    *count -= amount;
    self->sum -= amount;
}
