// SPDX-License-Identifier: MIT
/*
 * quota: what a project has used within the last minute, against its ceilings. Pure arithmetic over
 * 60 counters of a second each: their sum never passes the ceiling, so there is no double burst at
 * a minute's turn, as with counters that are set back, and no saved-up one, as with tokens.
 *
 * now_s counts seconds of a clock that does not go back; an earlier one counts as the last one
 * seen. One thread at a time.
 */
#ifndef MCPD_STORE_QUOTA_H
#define MCPD_STORE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#define QUOTA_SECONDS 60

struct quota_window {
    uint64_t counts[QUOTA_SECONDS]; /* of each second, at second % 60 */
    uint64_t sum;
    uint64_t newest_s;
};

/* What there was no room for. */
struct quota_lack {
    uint64_t left;   /* of the ceiling, now */
    uint64_t wait_s; /* until the amount fits if nothing else comes, 1 to 60; 0: it never does,
                        being more than the ceiling itself */
};

/* Whether the amount fits under the ceiling now; if not, why. Changes nothing but what is too old
 * to count. */
bool quota_fits(struct quota_window *self, uint64_t ceiling, uint64_t amount, uint64_t now_s,
                struct quota_lack *lack);
/* Adds it, whatever the ceiling, to the second now_s. */
void quota_add(struct quota_window *self, uint64_t amount, uint64_t now_s);
/* Takes back a part of what was added in the second then_s, if that still counts at now_s. */
void quota_give_back(struct quota_window *self, uint64_t amount, uint64_t then_s, uint64_t now_s);

#endif
