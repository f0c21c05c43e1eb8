// SPDX-License-Identifier: MIT
#include "store/score_plan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"

static const char *const result_names[SCORE_RESULT_COUNT] = {
    [SCORE_STORED] = "stored",   [SCORE_ERROR] = "error",     [SCORE_RETRY] = "retry",
    [SCORE_SKIPPED] = "skipped", [SCORE_DROPPED] = "dropped",
};

/* The settings were checked when they were read. */
static expr_t *parse(const char *text)
{
    struct err err;
    expr_t *expr = text ? expr_parse(text, listing_row(LISTING_TRACES), &err) : NULL;
    assert(!text || expr);
    return expr;
}

static void plan_scorer(struct planned_scorer *self, const struct settings_scorer *settings)
{
    *self = (struct planned_scorer){
        .settings = settings,
        .where = parse(settings->where),
        .rule = parse(settings->rule),
        .waiting_series = metrics_series(METRIC_score_jobs, settings->name, NULL),
    };
    for (size_t i = 0; i < SCORE_RESULT_COUNT; i++)
        self->results[i] = metrics_series(METRIC_scores, settings->name, result_names[i]);
}

struct score_plan *score_plan_new(const struct settings **settings_p)
{
    struct score_plan *self = calloc(1, sizeof *self);
    assert(self);
    self->settings = *settings_p;
    *settings_p = NULL;
    self->own = parse("env = \"" SCORE_OWN_ENV "\"");
    assert(self->settings->scorers_count <= SCORE_SCORERS_MAX);
    for (; self->count < self->settings->scorers_count; self->count++)
        plan_scorer(&self->scorers[self->count], &self->settings->scorers[self->count]);
    return self;
}

void score_plan_destroy(struct score_plan **self_p)
{
    struct score_plan *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (size_t i = 0; i < self->count; i++) {
        expr_destroy(&self->scorers[i].where);
        expr_destroy(&self->scorers[i].rule);
        metric_series_set(self->scorers[i].waiting_series, 0);
    }
    expr_destroy(&self->own);
    settings_release(&self->settings);
    free(self);
}

void score_plan_refresh(struct score_plan **self_p, settings_watch_t *watch)
{
    const struct settings *settings = settings_watch_hold(watch);
    if (*self_p && (*self_p)->settings == settings) {
        settings_release(&settings);
        return;
    }
    score_plan_destroy(self_p);
    *self_p = score_plan_new(&settings);
}

/* Where in [0, 1) the trace lies for this scorer: the same on every replica, and for two scorers
 * in two places. */
static double place_of(const char *scorer, const uint8_t trace_id[TRACE_ID_LEN])
{
    char text[SETTINGS_NAME_MAX + 1 + TRACE_ID_LEN];
    uint8_t digest[SHA256_LEN];
    size_t len = strnlen(scorer, SETTINGS_NAME_MAX);
    memcpy(text, scorer, len);
    text[len++] = '\0';
    memcpy(text + len, trace_id, TRACE_ID_LEN);
    sha256((struct slice){text, len + TRACE_ID_LEN}, digest);
    uint64_t bits = 0;
    for (size_t i = 0; i < 7; i++) /* as many as a double holds, and a few more */
        bits = bits << 8 | digest[i];
    return ldexp((double)(bits >> 3), -53);
}

bool score_chooses(const struct planned_scorer *scorer, const char *project,
                   const uint8_t trace_id[TRACE_ID_LEN])
{
    const struct settings_scorer *settings = scorer->settings;
    if (settings->project && strcmp(settings->project, project) != 0)
        return false;
    return place_of(settings->name, trace_id) < settings->sample;
}

size_t score_plan_choose(void *plan, const char *project, const uint8_t trace_id[TRACE_ID_LEN],
                         const char **scorers)
{
    struct score_plan *self = plan;
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
        const struct planned_scorer *scorer = &self->scorers[i];
        if (!score_chooses(scorer, project, trace_id))
            continue;
        if (scorer->waiting >= SCORE_COUNT_MAX)
            score_count(scorer, SCORE_DROPPED);
        else
            scorers[count++] = scorer->settings->name;
    }
    return count;
}

uint64_t score_retry_s(const struct settings_scorer *scorer, uint64_t tries)
{
    static const uint64_t waits[] = {10, 60, 600, 3600};
    const size_t last = sizeof waits / sizeof *waits - 1;
    if (!scorer->judge || tries > scorer->judge->retries)
        return 0;
    return waits[tries - 1 < last ? tries - 1 : last];
}

void score_id(const struct settings_scorer *scorer, const struct score_job *job,
              char out[IDENTITY_SCORE_SIZE])
{
    struct score score = {
        .name = slice_of(scorer->name),
        .target = SCORE_OF_TRACE,
        .scorer = slice_of(scorer->name),
        .version = slice_of(scorer->version),
    };
    memcpy(score.trace_id, job->trace_id, sizeof score.trace_id);
    identity_of_score(&score, out);
}

int score_take_trace(void *arg, const struct list_value *values)
{
    struct score_question *self = arg;
    expr_begin(self->plan->own, &self->own, values);
    if (self->scorer->where)
        expr_begin(self->scorer->where, &self->where, values);
    if (self->scorer->rule)
        expr_begin(self->scorer->rule, &self->rule, values);
    return 0;
}

int score_take_span(void *arg, const struct list_value *values)
{
    struct score_question *self = arg;
    expr_add_span(self->plan->own, &self->own, values);
    if (self->scorer->where)
        expr_add_span(self->scorer->where, &self->where, values);
    if (self->scorer->rule)
        expr_add_span(self->scorer->rule, &self->rule, values);
    return 0;
}

bool score_is_wanted(const struct score_question *question)
{
    if (expr_holds(question->plan->own, &question->own))
        return false;
    return !question->scorer->where || expr_holds(question->scorer->where, &question->where);
}

void score_count(const struct planned_scorer *scorer, enum score_result result)
{
    metric_series_add(scorer->results[result], 1);
}
