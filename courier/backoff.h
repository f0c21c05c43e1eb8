// SPDX-License-Identifier: MIT
/*
 * backoff: how long to wait, as arithmetic. Pure: no clock, no randomness of its own; `unit` is a
 * uniform number in [0, 1) and comes from the caller. Any thread.
 *
 * All jitter is "equal": half of the time is fixed, half is random, so that a wait has a floor and
 * a ceiling. Fractions of a millisecond are rounded up: nothing is ever due early.
 */
#ifndef MCPD_COURIER_BACKOFF_H
#define MCPD_COURIER_BACKOFF_H

#include <stdint.h>

#include "common/buf.h"

/* Seconds a Retry-After may say at most before it counts as this many. */
#define RETRY_AFTER_SATURATED_S ((uint64_t)1 << 31)

struct backoff_range {
    uint64_t base_ms; /* of the first strike; doubles with each further one */
    uint64_t cap_ms;
};

/* The cool-off for strike number `strike` (1 and up): half to all of min(cap, base * 2^(strike-1)).
 */
uint64_t backoff_cool_ms(struct backoff_range range, unsigned strike, double unit);

/* The wait of a request whose round number `round` (1 and up) failed at every upstream: half to all
 * of 1 s, 2 s, 4 s, ... 600 s. */
uint64_t backoff_round_ms(uint32_t round, double unit);

/* What to wait for a Retry-After of retry_after_s > 0, which counts as max_s where it is more:
 * never less than it says, at most 10 % or 5 s longer. */
uint64_t backoff_retry_after_ms(uint64_t retry_after_s, uint64_t max_s, double unit);

/* Reads a Retry-After: digits, or one of the three forms of an HTTP date, which counts from the
 * answer's own Date (`date`, may be empty or nonsense) or else from wall_s. Returns the seconds,
 * RETRY_AFTER_SATURATED_S at most; 0 when it is absent, past, zero or anything else. */
uint64_t backoff_parse_retry_after(struct slice value, struct slice date, uint64_t wall_s);

#endif
