// SPDX-License-Identifier: MIT
/*
 * cooloff: the cool-off of one upstream, as a state machine without a clock: every call is given
 * now and, where jitter is added, a uniform number in [0, 1).
 *
 *   CLOSED     in use. A strike is forgiven for every 30 s here.
 *   COOLING    not used until until_ms; then the next request that wants it becomes the trial.
 *   HALF_OPEN  one trial is under way, until deadline_ms; everyone else goes on as if it cooled.
 *
 *   CLOSED    -- failure --> COOLING               COOLING   -- until_ms, trial --> HALF_OPEN
 *   HALF_OPEN -- trial passed --> CLOSED           HALF_OPEN -- trial failed, or deadline -->
 * COOLING
 *
 * Every state has a way out by time alone. A cool-off doubles with each strike; a success does not
 * clear the strikes, so that an upstream that works every other time is asked less and less.
 *
 * Attempts that began before the present episode (each cool-off begins a new one) are old news when
 * they fail: four deliveries that fail together are one strike.
 */
#ifndef MCPD_COURIER_COOLOFF_H
#define MCPD_COURIER_COOLOFF_H

#include <stdbool.h>
#include <stdint.h>

#define COOLOFF_STRIKES_MAX 6

enum cooloff_state { COOLOFF_CLOSED, COOLOFF_COOLING, COOLOFF_HALF_OPEN, COOLOFF_STATE_COUNT };

struct cooloff {
    enum cooloff_state state;
    unsigned strikes;      /* 0 to COOLOFF_STRIKES_MAX, as of closed_at_ms */
    uint32_t episode;      /* cool-offs so far */
    bool is_firm;          /* this cool-off does not end early: the upstream named the time, or its
                              set-up is wrong, of which a probe knows nothing */
    unsigned good_probes;  /* in a row, since the cool-off began */
    uint64_t until_ms;     /* COOLING */
    uint64_t deadline_ms;  /* HALF_OPEN */
    uint64_t closed_at_ms; /* CLOSED since */
    uint64_t began_at_ms;  /* of the first cool-off after the upstream was last CLOSED */
};

/* A failed attempt. */
struct cooloff_failure {
    uint32_t episode; /* as it was when the attempt began */
    bool is_trial;
    bool is_config;         /* the long base */
    uint64_t retry_after_s; /* 0: none */
};

enum cooloff_change {
    COOLOFF_UNCHANGED,
    COOLOFF_COOLED,    /* a cool-off began */
    COOLOFF_EXTENDED,  /* the present one got longer, by a Retry-After */
    COOLOFF_RECOVERED, /* CLOSED again */
};

void cooloff_init(struct cooloff *self, uint64_t now_ms);

/* COOLING, and the time is over: the next request is the trial. */
bool cooloff_wants_trial(const struct cooloff *self, uint64_t now_ms);

/* Only when cooloff_wants_trial. An attempt takes at most attempt_ms. */
void cooloff_trial_begin(struct cooloff *self, uint64_t attempt_ms, uint64_t now_ms);

enum cooloff_change cooloff_failed(struct cooloff *self, const struct cooloff_failure *failure,
                                   uint64_t retry_after_max_s, uint64_t now_ms, double unit);

/* An attempt that says the upstream works: delivered, or refused for good. */
enum cooloff_change cooloff_passed(struct cooloff *self, uint32_t episode, bool is_trial,
                                   uint64_t now_ms);

/* The trial ended without a word about the upstream: the next request is the trial. */
void cooloff_trial_void(struct cooloff *self, uint32_t episode, uint64_t now_ms);

/* Takes the permit from a trial that never ended. Returns COOLOFF_COOLED then. */
enum cooloff_change cooloff_tick(struct cooloff *self, uint64_t now_ms, double unit);

/* The result of a probe. Never cools; where may_end_early (every upstream is COOLING) the second
 * good one in a row ends a cool-off that is not firm. */
void cooloff_probed(struct cooloff *self, bool is_good, bool may_end_early, uint64_t now_ms);

#endif
