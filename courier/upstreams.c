// SPDX-License-Identifier: MIT
/*
 * inflight counts the attempts of the present episode only: those from before a cool-off may hang
 * for long and say nothing about what the upstream can bear now. After a cool-off the limit is one,
 * and doubles with each success.
 */
#include "courier/upstreams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "courier/cooloff.h"
#include "courier/tally.h"

#define REACHABLE_MS      30000
#define BRAKE_REFUSALS    100
#define RETRY_AFTER_MAX_S 3600
#define CONNECTION_AGE_S  300 /* then names are resolved again */
#define LOG_REPEAT_MS     60000
#define EACH(self, u)                  \
    struct upstream *u = (self)->list; \
    u < (self)->list + (self)->count;  \
    u++
#define EACH_CONST(self, u)                  \
    const struct upstream *u = (self)->list; \
    u < (self)->list + (self)->count;        \
    u++

struct upstream {
    struct upstream_spec spec;
    struct cooloff cooloff;
    unsigned inflight;
    unsigned limit;
    unsigned refusals; /* in a row, of those the brake counts */
    bool has_failed;   /* its last attempt */
    bool was_good;     /* good_at_ms means something */
    bool is_up;
    uint64_t good_at_ms; /* last answered probe or delivery */
    struct log_limit cooled_limit;
    struct tally tally;
};

struct upstreams {
    unsigned inflight_max;
    size_t count;
    struct upstream list[];
};

static void show(struct upstream *self)
{
    tally_state(&self->tally, self->cooloff.state, self->inflight, self->limit);
}

static void upstream_init(struct upstream *self, size_t index, unsigned limit, uint64_t now_ms)
{
    cooloff_init(&self->cooloff, now_ms);
    self->limit = limit;
    tally_init(&self->tally, self->spec.name, index + 1);
    show(self);
}

static int check_twin(const struct upstream *one, const struct upstream *other, struct err *err)
{
    if (strcmp(one->spec.origin, other->spec.origin) == 0 &&
        strcmp(one->spec.prefix, other->spec.prefix) == 0)
        return err_set(err, "--upstream %s%s is given twice", one->spec.origin,
                       one->spec.prefix[0] ? one->spec.prefix + 1 : "");
    if (strcmp(one->spec.name, other->spec.name) == 0)
        return err_set(err, "--upstream: two are named %s", one->spec.name);
    return 0;
}

static int add(upstreams_t *self, const char *text, uint64_t now_ms, struct err *err)
{
    struct upstream *upstream = &self->list[self->count];
    if (upstream_spec_parse(&upstream->spec, text, err) == -1)
        return -1;
    self->count++;
    for (const struct upstream *other = self->list; other < upstream; other++) {
        if (check_twin(upstream, other, err) == -1)
            return -1;
    }
    upstream_init(upstream, self->count - 1, self->inflight_max, now_ms);
    return 0;
}

upstreams_t *upstreams_new(const struct text_list *texts, unsigned inflight_max, uint64_t now_ms,
                           struct err *err)
{
    if (texts->count == 0 || texts->count > UPSTREAMS_MAX) {
        err_set(err, "--upstream must be given 1 to %d times", UPSTREAMS_MAX);
        return NULL;
    }
    upstreams_t *self = calloc(1, sizeof *self + texts->count * sizeof self->list[0]);
    if (!self)
        abort();
    self->inflight_max = inflight_max;
    for (size_t i = 0; i < texts->count; i++) {
        if (add(self, texts->items[i], now_ms, err) == -1) {
            upstreams_destroy(&self);
            return NULL;
        }
    }
    return self;
}

void upstreams_destroy(upstreams_t **self_p)
{
    upstreams_t *self = *self_p;
    if (!self)
        return;
    for (EACH(self, upstream)) {
        upstream_spec_fini(&upstream->spec);
    }
    free(self);
    *self_p = NULL;
}

size_t upstreams_count(const upstreams_t *self)
{
    return self->count;
}

const struct upstream_spec *upstreams_spec(const upstreams_t *self, size_t index)
{
    assert(index < self->count);
    return &self->list[index].spec;
}

struct choice upstreams_choose(const upstreams_t *self, uint64_t tried, uint64_t now_ms)
{
    struct choice choice = {.kind = CHOICE_NOBODY};
    for (size_t i = 0; i < self->count; i++) {
        const struct upstream *upstream = &self->list[i];
        bool is_closed = upstream->cooloff.state == COOLOFF_CLOSED;
        if (tried & (uint64_t)1 << i)
            continue;
        if (is_closed && upstream->inflight >= upstream->limit)
            return (struct choice){.kind =
                                       CHOICE_WAIT}; /* full is not down: nobody else steps in */
        if (is_closed || cooloff_wants_trial(&upstream->cooloff, now_ms))
            return (struct choice){.kind = CHOICE_TAKE, .upstream = i, .is_trial = !is_closed};
        if (upstream->cooloff.state == COOLOFF_HALF_OPEN)
            choice.kind = CHOICE_WAIT;
    }
    return choice;
}

uint64_t upstreams_open_at_ms(const upstreams_t *self, uint64_t now_ms)
{
    uint64_t open_at_ms = UINT64_MAX;
    for (EACH_CONST(self, upstream)) {
        if (upstream->cooloff.state != COOLOFF_COOLING ||
            cooloff_wants_trial(&upstream->cooloff, now_ms))
            return 0;
        if (upstream->cooloff.until_ms < open_at_ms)
            open_at_ms = upstream->cooloff.until_ms;
    }
    return open_at_ms;
}

struct attempt upstreams_begin(upstreams_t *self, const struct choice *choice, uint64_t now_ms)
{
    struct upstream *upstream = &self->list[choice->upstream];
    assert(choice->kind == CHOICE_TAKE);
    if (choice->is_trial)
        cooloff_trial_begin(&upstream->cooloff, upstream->spec.timeout_ms, now_ms);
    upstream->inflight++;
    show(upstream);
    return (struct attempt){.upstream = choice->upstream,
                            .episode = upstream->cooloff.episode,
                            .is_trial = choice->is_trial};
}

static void cooled(upstreams_t *self, struct upstream *upstream, const struct attempt_end *end,
                   uint64_t now_ms)
{
    upstream->inflight = 0;
    upstream->limit = self->inflight_max;
    tally_cooled(&upstream->tally, end->outcome.class);
    if (end->retry_after_s > RETRY_AFTER_MAX_S)
        metrics_add(METRIC_relay_retry_after_capped, 1);
    if (!log_allowed(&upstream->cooled_limit, LOG_REPEAT_MS, now_ms))
        return;
    log_at(
        LEVEL_WARN, "upstream.cooled", NULL, LOG_TEXT("upstream", upstream->spec.name),
        LOG_TEXT("reason", end->detail), LOG_TEXT("class", outcome_class_name(end->outcome.class)),
        LOG_NUM("for_ms", upstream->cooloff.until_ms - now_ms),
        LOG_NUM("retry_after_s", end->retry_after_s), LOG_NUM("strikes", upstream->cooloff.strikes),
        LOG_NUM("not_logged", upstream->cooled_limit.swallowed));
}

static void recovered(struct upstream *upstream, uint64_t now_ms)
{
    upstream->limit = 1;
    upstream->cooled_limit = (struct log_limit){0};
    log_at(LEVEL_INFO, "upstream.recovered", NULL, LOG_TEXT("upstream", upstream->spec.name),
           LOG_NUM("cooled_ms", now_ms - upstream->cooloff.began_at_ms));
}

static void good(struct upstream *upstream, uint64_t now_ms)
{
    upstream->was_good = true;
    upstream->good_at_ms = now_ms;
}

static void delivered(upstreams_t *self, struct upstream *upstream, const struct attempt *attempt,
                      uint64_t now_ms)
{
    metric_series_add(upstream->tally.delivered, 1);
    if (upstream != self->list)
        metrics_add(METRIC_relay_failovers, 1);
    if (upstream->refusals >= BRAKE_REFUSALS)
        log_at(LEVEL_INFO, "upstream.accepts", NULL, LOG_TEXT("upstream", upstream->spec.name));
    upstream->refusals = 0;
    if (!attempt->is_trial && attempt->episode == upstream->cooloff.episode)
        upstream->limit =
            upstream->limit * 2 < self->inflight_max ? upstream->limit * 2 : self->inflight_max;
    good(upstream, now_ms);
}

static enum outcome_class braked(struct upstream *upstream, const struct attempt_end *end)
{
    if (end->outcome.class != OUTCOME_FINAL || !end->outcome.is_braked)
        return end->outcome.class;
    if (upstream->refusals >= BRAKE_REFUSALS)
        return OUTCOME_CONFIG;
    if (++upstream->refusals == BRAKE_REFUSALS)
        log_at(LEVEL_ERROR, "upstream.refuses_all", NULL, LOG_TEXT("upstream", upstream->spec.name),
               LOG_TEXT("status", end->detail), LOG_NUM("in_a_row", BRAKE_REFUSALS));
    return OUTCOME_FINAL;
}

static void failed(upstreams_t *self, struct upstream *upstream, const struct attempt *attempt,
                   const struct attempt_end *end, uint64_t now_ms, double unit)
{
    struct cooloff_failure failure = {
        .episode = attempt->episode,
        .is_trial = attempt->is_trial,
        .is_config = end->outcome.class == OUTCOME_CONFIG,
        .retry_after_s = end->retry_after_s,
    };
    enum cooloff_change change =
        cooloff_failed(&upstream->cooloff, &failure, RETRY_AFTER_MAX_S, now_ms, unit);
    if (change == COOLOFF_COOLED)
        cooled(self, upstream, end, now_ms);
}

static void passed(struct upstream *upstream, const struct attempt *attempt, uint64_t now_ms)
{
    if (cooloff_passed(&upstream->cooloff, attempt->episode, attempt->is_trial, now_ms) ==
        COOLOFF_RECOVERED)
        recovered(upstream, now_ms);
}

/* What a class means for the upstream. */
static void learn(upstreams_t *self, const struct attempt *attempt, const struct attempt_end *end,
                  uint64_t now_ms, double unit)
{
    struct upstream *upstream = &self->list[attempt->upstream];
    switch (end->outcome.class) {
    case OUTCOME_LOCAL:
    case OUTCOME_AGAIN:
        if (attempt->is_trial)
            cooloff_trial_void(&upstream->cooloff, attempt->episode, now_ms);
        return;
    case OUTCOME_DELIVERED:
        passed(upstream, attempt, now_ms);
        delivered(self, upstream, attempt, now_ms);
        upstream->has_failed = false;
        return;
    case OUTCOME_FINAL:
    case OUTCOME_WAIT:
        passed(upstream, attempt, now_ms);
        break;
    default:
        failed(self, upstream, attempt, end, now_ms, unit);
        break;
    }
    upstream->has_failed = true;
    metric_series_add(upstream->tally.failed, 1);
    if (end->outcome.is_ambiguous)
        metrics_add(METRIC_relay_ambiguous_attempts, 1);
}

enum outcome_class upstreams_end(upstreams_t *self, const struct attempt *attempt,
                                 const struct attempt_end *given, uint64_t now_ms, double unit)
{
    struct upstream *upstream = &self->list[attempt->upstream];
    struct attempt_end end = *given;
    end.outcome.class = braked(upstream, given);
    if (attempt->episode == upstream->cooloff.episode)
        upstream->inflight--;
    learn(self, attempt, &end, now_ms, unit);
    show(upstream);
    return end.outcome.class;
}

void upstreams_probed(upstreams_t *self, size_t index, bool is_good, uint64_t now_ms)
{
    struct upstream *upstream = &self->list[index];
    bool are_all_cooling = true;
    for (EACH_CONST(self, other)) {
        if (other->cooloff.state != COOLOFF_COOLING)
            are_all_cooling = false;
    }
    if (is_good)
        good(upstream, now_ms);
    cooloff_probed(&upstream->cooloff, is_good, are_all_cooling, now_ms);
}

uint64_t upstreams_connection_age_s(const upstreams_t *self, size_t index, uint64_t now_ms)
{
    const struct cooloff *cooloff = &self->list[index].cooloff;
    bool is_recent = cooloff->episode > 0 &&
                     (cooloff->state != COOLOFF_CLOSED ||
                      now_ms - cooloff->closed_at_ms < CONNECTION_AGE_S * (uint64_t)1000);
    uint64_t age_s = (now_ms - cooloff->began_at_ms) / 1000;
    if (!is_recent || age_s > CONNECTION_AGE_S)
        return CONNECTION_AGE_S;
    return age_s > 0 ? age_s : 1;
}

static bool is_reachable(const struct upstream *upstream, uint64_t now_ms)
{
    if (!upstream->spec.probe_path)
        return !upstream->has_failed;
    return upstream->was_good && now_ms - upstream->good_at_ms < REACHABLE_MS;
}

static void tick_reachable(struct upstream *upstream, uint64_t now_ms)
{
    bool is_up = is_reachable(upstream, now_ms);
    if (is_up == upstream->is_up)
        return;
    upstream->is_up = is_up;
    metric_series_set(upstream->tally.up, is_up);
    log_at(LEVEL_INFO, is_up ? "upstream.reachable" : "upstream.unreachable", NULL,
           LOG_TEXT("upstream", upstream->spec.name));
}

/* When the upstream wants the next tick. */
static uint64_t due_at_ms(const struct upstream *upstream, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    if (upstream->cooloff.state == COOLOFF_COOLING && upstream->cooloff.until_ms > now_ms)
        due_ms = upstream->cooloff.until_ms;
    if (upstream->cooloff.state == COOLOFF_HALF_OPEN)
        due_ms = upstream->cooloff.deadline_ms;
    if (upstream->is_up && upstream->spec.probe_path &&
        upstream->good_at_ms + REACHABLE_MS < due_ms)
        due_ms = upstream->good_at_ms + REACHABLE_MS;
    return due_ms;
}

uint64_t upstreams_tick(upstreams_t *self, uint64_t now_ms, double unit)
{
    static const struct attempt_end lost = {.outcome = {.class = OUTCOME_LOCAL},
                                            .detail = "the trial never ended"};
    uint64_t next_ms = UINT64_MAX;
    for (EACH(self, upstream)) {
        if (cooloff_tick(&upstream->cooloff, now_ms, unit) == COOLOFF_COOLED) {
            cooled(self, upstream, &lost, now_ms);
            show(upstream);
        }
        tick_reachable(upstream, now_ms);
        uint64_t due_ms = due_at_ms(upstream, now_ms);
        if (due_ms < next_ms)
            next_ms = due_ms;
    }
    return next_ms;
}

uint32_t upstreams_up(const upstreams_t *self)
{
    uint32_t up = 0;
    for (EACH_CONST(self, upstream)) {
        up += upstream->is_up;
    }
    return up;
}

int upstreams_note(const upstreams_t *self, struct buf *note)
{
    const char *lead = "refusals at ";
    for (EACH_CONST(self, upstream)) {
        if (upstream->refusals < BRAKE_REFUSALS)
            continue;
        if (buf_printf(note, "%s%s", lead, upstream->spec.name) == -1)
            return -1;
        lead = ", ";
    }
    return 0;
}
