// SPDX-License-Identifier: MIT
/*
 * upstreams: the ordered list, and for each upstream what its attempts and probes taught: its
 * cool-off, how many attempts it may have under way, whether it was heard of lately, whether it
 * refuses everything. It chooses; it sends nothing. One thread; all time is given.
 *
 * The brake: an upstream that refused 100 requests in a row with 401, 403, 404 or 405 is more
 * likely set up wrongly than right about all of them. From then on these refusals count as set-up
 * trouble: it cools and nothing more goes to the dead letters, until it takes a request.
 */
#ifndef MCPD_COURIER_UPSTREAMS_H
#define MCPD_COURIER_UPSTREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/options.h"
#include "courier/outcome.h"
#include "courier/upstream_spec.h"

#define UPSTREAMS_MAX 64 /* a request's set of tried ones is one word */

typedef struct upstreams upstreams_t;

/* texts: the values of --upstream, the preferred one first. inflight_max: most attempts one
 * upstream has under way. Null with the reason for a text that is wrong, a name given twice, none
 * or too many. */
upstreams_t *upstreams_new(const struct text_list *texts, unsigned inflight_max, uint64_t now_ms,
                           struct err *err) MUST_USE;
void upstreams_destroy(upstreams_t **self_p);

size_t upstreams_count(const upstreams_t *self);
/* Lives as long as self. */
const struct upstream_spec *upstreams_spec(const upstreams_t *self, size_t index);

enum choice_kind {
    CHOICE_TAKE,   /* upstream may be begun now */
    CHOICE_WAIT,   /* one that may serve is full, or its trial is under way: ask again later */
    CHOICE_NOBODY, /* every one was tried or cools */
};

struct choice {
    enum choice_kind kind;
    size_t upstream;
    bool is_trial;
};

/* For a request that failed in this round at the upstreams of `tried` (bit i = upstream i): the
 * first in order that is neither tried nor cooling. */
struct choice upstreams_choose(const upstreams_t *self, uint64_t tried, uint64_t now_ms);

/* The soonest time at which any upstream can be chosen by a fresh request: 0 = now, or as soon as
 * attempts under way end. */
uint64_t upstreams_open_at_ms(const upstreams_t *self, uint64_t now_ms);

/* One attempt under way; kept by the caller between begin and end. */
struct attempt {
    size_t upstream;
    uint32_t episode;
    bool is_trial;
};

/* choice is a CHOICE_TAKE of this moment. */
struct attempt upstreams_begin(upstreams_t *self, const struct choice *choice, uint64_t now_ms);

struct attempt_end {
    struct outcome outcome;
    uint64_t retry_after_s; /* 0: none */
    const char *detail;     /* for the log: "503", "Connection refused" */
};

/* Learns from the end of an attempt. Returns what it means for the request: end's class, but for a
 * refusal under the brake. unit: see backoff.h. */
enum outcome_class upstreams_end(upstreams_t *self, const struct attempt *attempt,
                                 const struct attempt_end *end, uint64_t now_ms, double unit);

void upstreams_probed(upstreams_t *self, size_t index, bool is_good, uint64_t now_ms);

/* Longest age in seconds of a connection that an attempt may use again: none from before the last
 * cool-off. */
uint64_t upstreams_connection_age_s(const upstreams_t *self, size_t index, uint64_t now_ms);

/* What is due: lost trials, upstreams not heard of. Returns the time of the next thing that is due
 * by itself, UINT64_MAX when nothing is. */
uint64_t upstreams_tick(upstreams_t *self, uint64_t now_ms, double unit);

/* How many answered a probe or took a delivery in the last 30 s, as of the last tick. An upstream
 * that is not probed counts unless its last attempt failed. */
uint32_t upstreams_up(const upstreams_t *self);

/* What else a reader of /readyz should know, added to note; nothing when all is well. */
int upstreams_note(const upstreams_t *self, struct buf *note) MUST_USE;

#endif
