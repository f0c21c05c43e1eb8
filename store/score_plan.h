// SPDX-License-Identifier: MIT
/*
 * score_plan: the scorers of the settings in force, ready for work: conditions parsed, the sample
 * decided by arithmetic, so that every replica chooses the same traces. One thread; nothing blocks
 * unless said.
 */
#ifndef MCPD_STORE_SCORE_PLAN_H
#define MCPD_STORE_SCORE_PLAN_H

#include "common/metrics.h"
#include "store/backend.h"
#include "store/expr.h"
#include "store/identity.h"
#include "store/settings_watch.h"

/* Traces of this env are our own doing, a judge's calls above all: they are never scored. */
#define SCORE_OWN_ENV "mcpd-internal"

/* Counters by what became of a job. */
enum score_result {
    SCORE_STORED,  /* a score with a value */
    SCORE_ERROR,   /* a score without one: the last try failed */
    SCORE_RETRY,   /* a try failed, another one will follow */
    SCORE_SKIPPED, /* `where` does not hold, the trace is our own, or gone */
    SCORE_DROPPED, /* too many wait already */
    SCORE_RESULT_COUNT
};

struct planned_scorer {
    const struct settings_scorer *settings;
    expr_t *where;   /* null: every trace */
    expr_t *rule;    /* null: a judge is asked */
    int64_t waiting; /* jobs, when they were last counted */
    metric_series_t *results[SCORE_RESULT_COUNT];
    metric_series_t *waiting_series;
};

struct score_plan {
    const struct settings *settings; /* held */
    expr_t *own;                     /* what is never scored */
    size_t count;
    struct planned_scorer scorers[SCORE_SCORERS_MAX];
};

/* Consumes the holder. */
struct score_plan *score_plan_new(const struct settings **settings_p) MUST_USE;
void score_plan_destroy(struct score_plan **self_p);
/* Makes a new plan where the settings in force are other ones; *self_p may be null at first. */
void score_plan_refresh(struct score_plan **self_p, settings_watch_t *watch);

/* Is this trace one that the scorer scores, its `where` aside? */
bool score_chooses(const struct planned_scorer *scorer, const char *project,
                   const uint8_t trace_id[TRACE_ID_LEN]);
/* settle_choose, for a plan. */
size_t score_plan_choose(void *plan, const char *project, const uint8_t trace_id[TRACE_ID_LEN],
                         const char **scorers);

/* Until the try that follows `tries` failed ones; 0: there is none. */
uint64_t score_retry_s(const struct settings_scorer *scorer, uint64_t tries);

/* A score's id: the same scorer of the same version makes the same of the same trace. */
void score_id(const struct settings_scorer *scorer, const struct score_job *job,
              char out[IDENTITY_SCORE_SIZE]);

/* A trace, while its rows come: whether it is to be scored at all, and what the rule says of it.
 * The sinks are for read_trace. */
struct score_question {
    const struct score_plan *plan;
    const struct planned_scorer *scorer;
    struct expr_state own;
    struct expr_state where;
    struct expr_state rule;
};
row_sink score_take_trace;
row_sink score_take_span;
bool score_is_wanted(const struct score_question *question);

void score_count(const struct planned_scorer *scorer, enum score_result result);

#endif
