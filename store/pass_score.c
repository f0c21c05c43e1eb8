// SPDX-License-Identifier: MIT
#include "store/pass_score.h"

#include <string.h>

#include "common/clock.h"
#include "store/daemon.h"
#include "store/score_plan.h"

#define SETTLE_ROWS     200 /* of one transaction, at most */
#define SETTLE_ROWS_MIN 10
#define READ_LIMIT_MS                                                        \
    10000 /* of one trace; it may outlast the step, what it gives is written \
             under the claim or not at all */
#define SCORE_ROWS 50
#define MS_PER_S   1000

static struct settle_call call_of(struct daemon *daemon)
{
    const struct settings_settle *settings = daemon->plan->settings->settle;
    return (struct settle_call){
        .quiet_s = (settings ? settings->quiet_ms : SETTLE_QUIET_MS) / MS_PER_S,
        .max_age_s = (settings ? settings->max_age_ms : SETTLE_MAX_AGE_MS) / MS_PER_S,
        .choose = score_plan_choose,
        .arg = daemon->plan,
    };
}

/* A transaction that a slow store cut short is tried with half as many rows, so that it comes
 * through at last. */
static size_t next_rows(size_t rows, enum backend_status status)
{
    size_t next = status == BACKEND_OK ? 2 * rows : rows / 2;
    return next < SETTLE_ROWS_MIN ? SETTLE_ROWS_MIN : next > SETTLE_ROWS ? SETTLE_ROWS : next;
}

enum backend_status pass_settle(struct pass *pass, struct err *err)
{
    struct daemon *daemon = pass->arg;
    score_plan_refresh(&daemon->plan, daemon->settings);
    struct settle_call call = call_of(daemon);
    size_t settled;
    do {
        uint64_t begun_ms = clock_mono_ms();
        call.max_rows = daemon->settle_rows ? daemon->settle_rows : SETTLE_ROWS;
        enum backend_status status =
            pass->backend->settle(pass->conn, &pass->claim, &call, &settled, err);
        daemon->settle_rows = next_rows(call.max_rows, status);
        if (status != BACKEND_OK)
            return status;
        metrics_add(METRIC_traces_settled, settled);
        pass_gives_way(pass, begun_ms);
    } while (settled == call.max_rows && pass_goes_on(pass));
    return BACKEND_OK;
}

/* Scores that are about to be written, with what they point to. */
struct scored {
    size_t count;
    struct score_outcome outcomes[SCORE_ROWS];
    struct score_row rows[SCORE_ROWS];
    char ids[SCORE_ROWS][IDENTITY_SCORE_SIZE];
    enum score_result results[SCORE_ROWS];
};

static void add_score(struct scored *scored, const struct planned_scorer *scorer,
                      const struct score_job *job, bool holds)
{
    size_t i = scored->count;
    score_id(scorer->settings, job, scored->ids[i]);
    scored->rows[i] = (struct score_row){
        .id = scored->ids[i],
        .name = scorer->settings->name,
        .type = SCORE_BOOLEAN,
        .has_number = true,
        .number = holds,
        .source = "rule",
        .version = scorer->settings->version,
    };
    scored->outcomes[i].row = &scored->rows[i];
    scored->results[i] = SCORE_STORED;
}

/* Reads the trace and asks the rule. -1 with the reason. */
static int score_one(struct pass *pass, const struct planned_scorer *scorer,
                     const struct score_job *job, struct scored *scored, struct err *err)
{
    const struct daemon *daemon = pass->arg;
    struct score_question question = {.plan = daemon->plan, .scorer = scorer};
    struct trace_key key = {.project = job->project,
                            .deadline_ms = clock_mono_ms() + READ_LIMIT_MS};
    memcpy(key.trace_id, job->trace_id, sizeof key.trace_id);
    int rc = pass->backend->read_trace(pass->conn, &key, score_take_trace, score_take_span,
                                       &question, err);
    if (rc == -1)
        return -1;
    scored->outcomes[scored->count] =
        (struct score_outcome){.job = job, .scorer = scorer->settings->name};
    scored->results[scored->count] = SCORE_SKIPPED;
    if (rc == 0 && score_is_wanted(&question))
        add_score(scored, scorer, job, expr_holds(scorer->rule, &question.rule));
    scored->count++;
    return 0;
}

static enum backend_status write_scored(struct pass *pass, const struct planned_scorer *scorer,
                                        const struct scored *scored, struct err *err)
{
    if (scored->count == 0)
        return BACKEND_OK;
    enum backend_status status =
        pass->backend->score_write(pass->conn, &pass->claim, scored->outcomes, scored->count, err);
    for (size_t i = 0; status == BACKEND_OK && i < scored->count; i++)
        score_count(scorer, scored->results[i]);
    return status;
}

/* The next jobs of a rule; *count: how many there were. */
static enum backend_status score_some(struct pass *pass, const struct planned_scorer *scorer,
                                      size_t *count, struct err *err)
{
    struct score_job jobs[SCORE_ROWS];
    struct scored scored = {0};
    if (pass->backend->score_due(pass->conn, scorer->settings->name, SCORE_ROWS, jobs, count,
                                 err) == -1)
        return BACKEND_AWAY;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < *count && pass_goes_on(pass); i++)
        rc = score_one(pass, scorer, &jobs[i], &scored, err);
    /* What was scored before a read failed is not thrown away. */
    enum backend_status status = write_scored(pass, scorer, &scored, err);
    return status == BACKEND_OK && rc == -1 ? BACKEND_AWAY : status;
}

static enum backend_status score_all(struct pass *pass, const struct planned_scorer *scorer,
                                     struct err *err)
{
    size_t count = SCORE_ROWS;
    while (scorer->rule && count == SCORE_ROWS && pass_goes_on(pass)) {
        enum backend_status status = score_some(pass, scorer, &count, err);
        if (status != BACKEND_OK)
            return status;
    }
    return BACKEND_OK;
}

enum backend_status pass_score(struct pass *pass, struct err *err)
{
    struct daemon *daemon = pass->arg;
    enum backend_status status = BACKEND_OK;
    score_plan_refresh(&daemon->plan, daemon->settings);
    for (size_t i = 0; i < daemon->plan->count && status == BACKEND_OK; i++) {
        struct planned_scorer *scorer = &daemon->plan->scorers[i];
        if (!pass_goes_on(pass))
            break;
        status = score_all(pass, scorer, err);
        if (status == BACKEND_OK && pass->backend->score_waiting(pass->conn, scorer->settings->name,
                                                                 &scorer->waiting, err) == -1)
            status = BACKEND_AWAY;
        metric_series_set(scorer->waiting_series, scorer->waiting);
    }
    return status;
}
