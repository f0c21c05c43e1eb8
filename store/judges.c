// SPDX-License-Identifier: MIT
/*
 * One libcurl multi handle drives all requests. A call is one job from the moment it was chosen
 * until its outcome is written; a scorer has at most `parallel` of them. The store would give out
 * the same jobs again, which are still due: those under way are left out by their trace.
 *
 * Calls point into the plan. When the settings change they are broken off and their jobs begun anew
 * under the new plan: to wait for them would let a slow judge keep new settings from the others.
 */
#include "store/judges.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "store/judge_text.h"
#include "store/outcall.h"
#include "store/score_plan.h"

#define WRITE_MAX      64   /* outcomes in one transaction */
#define PARALLEL_MAX   64   /* of one, as settings.def allows */
#define LOOK_AGAIN_MS  200  /* at the lease and the settings, while requests are under way */
#define IDLE_MAX_MS    1000 /* between two looks, where nothing is under way */
#define READ_LIMIT_MS  10000
#define LOG_EVERY_MS   10000
#define BODY_MAX_BYTES ((size_t)128 * 1024 * 1024)

struct call {
    struct call *next;
    const struct planned_scorer *scorer;
    struct score_job job;
    outcall_t *outcall; /* null: not asked, only its outcome is to be written */
    struct buf body;    /* of the request */
    uint64_t begun_us;
    bool is_done; /* it has an outcome */
    bool is_written;
    struct score_outcome outcome;
    struct score_row row;
    enum score_result result;
    char id[IDENTITY_SCORE_SIZE];
    struct judge_answer answer;
    struct err reason;
};

struct judges {
    struct judges_config config;
    backend_conn_t *conn;
    CURLM *multi;
    struct score_plan *plan;
    struct lease_claim claim;                 /* of the calls under way */
    struct call *calls;                       /* a list */
    uint64_t looked_at_ms[SCORE_SCORERS_MAX]; /* for jobs, by scorer, in vain */
    struct log_limit log_limit;
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopping;
};

static void destroy_call(judges_t *self, struct call *call)
{
    if (call->outcall && !call->is_done)
        curl_multi_remove_handle(self->multi, outcall_handle(call->outcall));
    outcall_destroy(&call->outcall);
    buf_fini(&call->body);
    free(call);
}

static void break_off(judges_t *self)
{
    while (self->calls) {
        struct call *call = self->calls;
        self->calls = call->next;
        destroy_call(self, call);
    }
}

static void note_failure(judges_t *self, const struct err *err)
{
    if (log_allowed(&self->log_limit, LOG_EVERY_MS, clock_mono_ms()))
        log_at(LEVEL_WARN, "judge.failing", NULL, LOG_TEXT("reason", err->text),
               LOG_NUM("swallowed", self->log_limit.swallowed));
}

/* The outcome of a call that ended with a row, or without any. */
static void end_call(struct call *call, enum score_result result)
{
    call->is_done = true;
    call->result = result;
    call->outcome = (struct score_outcome){
        .job = &call->job,
        .scorer = call->scorer->settings->name,
        .row = result == SCORE_STORED || result == SCORE_ERROR ? &call->row : NULL,
    };
}

static void fill_row(struct call *call)
{
    const struct settings_scorer *scorer = call->scorer->settings;
    score_id(scorer, &call->job, call->id);
    call->row = (struct score_row){
        .id = call->id,
        .name = scorer->name,
        .type = scorer->output->type,
        .source = "judge",
        .version = scorer->version,
    };
}

/* A try failed, for call->reason. */
static void fail_call(judges_t *self, struct call *call)
{
    uint64_t retry_s = score_retry_s(call->scorer->settings, call->job.tries + 1);
    struct err line;
    err_set(&line, "%s: %s", call->scorer->settings->name, call->reason.text);
    note_failure(self, &line);
    if (retry_s > 0) {
        end_call(call, SCORE_RETRY);
        call->outcome.retry_s = retry_s;
        return;
    }
    fill_row(call);
    call->row.error = call->reason.text;
    end_call(call, SCORE_ERROR);
}

static void take_answer(judges_t *self, struct call *call, struct slice body)
{
    if (judge_read_answer(body, call->scorer->settings->output, &call->answer, &call->reason) ==
        -1) {
        fail_call(self, call);
        return;
    }
    fill_row(call);
    call->row.has_number = call->answer.has_number;
    call->row.number = call->answer.number;
    call->row.text = call->answer.text[0] ? call->answer.text : NULL;
    call->row.comment = call->answer.comment[0] ? call->answer.comment : NULL;
    end_call(call, SCORE_STORED);
}

static void take_result(judges_t *self, struct call *call, CURLcode code)
{
    struct slice body;
    curl_multi_remove_handle(self->multi, outcall_handle(call->outcall));
    metric_series_observe_us(
        metrics_series(METRIC_judge_seconds, call->scorer->settings->name, NULL),
        clock_mono_us() - call->begun_us);
    if (outcall_result(call->outcall, code, &body, &call->reason) == -1)
        fail_call(self, call);
    else
        take_answer(self, call, body);
}

/* Moves all requests on and takes in those that have ended. */
static void perform(judges_t *self)
{
    int running;
    int left;
    CURLMsg *message;
    curl_multi_perform(self->multi, &running);
    while ((message = curl_multi_info_read(self->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE) {
            struct call *call = outcall_owner(message->easy_handle);
            CURLcode code = message->data.result;
            take_result(self, call, code);
        }
}

/* The trace as it goes to the judge. */
struct reading {
    struct score_question question;
    struct judge_input input;
};

static int read_trace_row(void *arg, const struct list_value *values)
{
    struct reading *reading = arg;
    return score_take_trace(&reading->question, values);
}

static int read_span_row(void *arg, const struct list_value *values)
{
    struct reading *reading = arg;
    judge_input_add(&reading->input, values);
    return score_take_span(&reading->question, values);
}

/* Sends the request; where that cannot be, the try has failed. */
static void ask(judges_t *self, struct call *call)
{
    const struct settings_judge *judge = call->scorer->settings->judge;
    struct outcall_target target = {
        .url = judge->url,
        .key = judge->key_env ? options_named_variable(judge->key_env) : NULL,
        .timeout_ms = judge->timeout_ms,
    };
    call->outcall = outcall_new(call);
    call->begun_us = clock_mono_us();
    if (outcall_prepare(call->outcall, &target, (struct slice){call->body.data, call->body.len},
                        &call->reason) == 0 &&
        curl_multi_add_handle(self->multi, outcall_handle(call->outcall)) == CURLM_OK)
        return;
    outcall_destroy(&call->outcall);
    fail_call(self, call);
}

/* Reads the trace and begins the request, or finds that there is none to send. -1 where the store
 * cannot be read. */
static int begin(judges_t *self, struct call *call, struct err *err)
{
    struct reading *reading = calloc(1, sizeof *reading);
    const struct settings_scorer *scorer = call->scorer->settings;
    struct trace_key key = {.project = call->job.project,
                            .deadline_ms = clock_mono_ms() + READ_LIMIT_MS};
    assert(reading);
    memcpy(key.trace_id, call->job.trace_id, sizeof key.trace_id);
    reading->question = (struct score_question){.plan = self->plan, .scorer = call->scorer};
    judge_input_init(&reading->input, scorer->judge->max_input_bytes);
    int rc = self->config.backend->read_trace(self->conn, &key, read_trace_row, read_span_row,
                                              reading, err);
    if (rc == 1 || (rc == 0 && !score_is_wanted(&reading->question))) {
        end_call(call, SCORE_SKIPPED);
    } else if (rc == 0) {
        if (judge_write_request(&reading->input, scorer, &call->job, &call->body) == 0)
            ask(self, call);
        else
            rc = err_set(err, "the request to %s would be too large", scorer->name);
    }
    judge_input_fini(&reading->input);
    free(reading);
    return rc == -1 ? -1 : 0;
}

static bool is_under_way(const judges_t *self, const struct planned_scorer *scorer,
                         const struct score_job *job)
{
    for (const struct call *call = self->calls; call; call = call->next)
        if (call->scorer == scorer && strcmp(call->job.project, job->project) == 0 &&
            memcmp(call->job.trace_id, job->trace_id, sizeof job->trace_id) == 0)
            return true;
    return false;
}

static size_t calls_of(const judges_t *self, const struct planned_scorer *scorer)
{
    size_t count = 0;
    for (const struct call *call = self->calls; call; call = call->next)
        count += call->scorer == scorer;
    return count;
}

static int begin_job(judges_t *self, const struct planned_scorer *scorer,
                     const struct score_job *job, struct err *err)
{
    struct call *call = calloc(1, sizeof *call);
    assert(call);
    call->scorer = scorer;
    call->job = *job;
    buf_init(&call->body, BODY_MAX_BYTES);
    int rc = begin(self, call, err);
    if (rc == -1) {
        destroy_call(self, call);
    } else {
        call->next = self->calls;
        self->calls = call;
    }
    return rc;
}

/* Fills what the scorer has free. 0, also where nothing is due; -1 with the reason. */
static int begin_due(judges_t *self, size_t index, struct err *err)
{
    const struct planned_scorer *scorer = &self->plan->scorers[index];
    struct score_job jobs[2 * PARALLEL_MAX];
    size_t parallel = scorer->settings->judge->parallel;
    size_t busy = calls_of(self, scorer);
    size_t count = 0;
    if (busy >= parallel || clock_mono_ms() < self->looked_at_ms[index] + self->config.pass_ms)
        return 0;
    if (self->config.backend->score_due(self->conn, scorer->settings->name, parallel + busy, jobs,
                                        &count, err) == -1)
        return -1;
    if (count <= busy)
        self->looked_at_ms[index] = clock_mono_ms();
    for (size_t i = 0; i < count && busy < parallel; i++) {
        if (is_under_way(self, scorer, &jobs[i]))
            continue;
        if (leading_holds(self->config.leading, &self->claim) == 0)
            return 0;
        if (begin_job(self, scorer, &jobs[i], err) == -1)
            return -1;
        busy++;
    }
    return 0;
}

static void begin_all(judges_t *self)
{
    struct err err = {""};
    for (size_t i = 0; i < self->plan->count; i++)
        if (self->plan->scorers[i].settings->judge && begin_due(self, i, &err) == -1) {
            self->looked_at_ms[i] = clock_mono_ms();
            note_failure(self, &err);
        }
}

/* Takes the calls that were written out of those under way. */
static void forget_written(judges_t *self)
{
    for (struct call **at = &self->calls; *at;) {
        struct call *call = *at;
        if (call->is_written) {
            *at = call->next;
            destroy_call(self, call);
        } else {
            at = &call->next;
        }
    }
}

/* Up to WRITE_MAX outcomes that are there; how many. */
static size_t gather_done(judges_t *self, struct call **done, struct score_outcome *outcomes)
{
    size_t count = 0;
    for (struct call *call = self->calls; call && count < WRITE_MAX; call = call->next) {
        if (!call->is_done)
            continue;
        done[count] = call;
        outcomes[count++] = call->outcome;
    }
    return count;
}

/* Writes outcomes that are there, and returns how many. What cannot be written now stays for the
 * next time. */
static size_t write_some(judges_t *self)
{
    struct call *done[WRITE_MAX];
    struct score_outcome outcomes[WRITE_MAX];
    struct err err = {""};
    size_t count = gather_done(self, done, outcomes);
    if (count == 0)
        return 0;
    enum backend_status status =
        self->config.backend->score_write(self->conn, &self->claim, outcomes, count, &err);
    if (status == BACKEND_FENCED) {
        leading_fenced(self->config.leading, &self->claim);
        break_off(self);
        return 0;
    }
    if (status != BACKEND_OK) {
        note_failure(self, &err);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        score_count(done[i]->scorer, done[i]->result);
        done[i]->is_written = true;
    }
    forget_written(self);
    return count;
}

static void write_done(judges_t *self)
{
    while (write_some(self) == WRITE_MAX)
        ;
}

enum standing { IS_FOLLOWER, IS_DOUBTFUL, IS_LEADER };

/* Breaks off what was begun under a claim that is over. While a renewal is unanswered nothing new
 * begins, but what is under way may go on: its outcome is written under the lease or not at all. */
static enum standing stand(judges_t *self)
{
    struct lease_claim now;
    uint64_t left_ms = leading_claim(self->config.leading, &now);
    if (now.fence != self->claim.fence)
        break_off(self);
    self->claim = now;
    return now.fence == 0 ? IS_FOLLOWER : left_ms > 0 ? IS_LEADER : IS_DOUBTFUL;
}

/* The leader tells how many jobs wait. */
static void tell_nothing_waits(judges_t *self)
{
    for (size_t i = 0; self->plan && i < self->plan->count; i++)
        metric_series_set(self->plan->scorers[i].waiting_series, 0);
}

/* Takes the settings in force for the plan. */
static void follow_settings(judges_t *self)
{
    const struct settings *settings = settings_watch_hold(self->config.settings);
    bool is_current = self->plan && self->plan->settings == settings;
    settings_release(&settings);
    if (is_current)
        return;
    break_off(self);
    score_plan_refresh(&self->plan, self->config.settings);
    memset(self->looked_at_ms, 0, sizeof self->looked_at_ms);
}

static void turn(judges_t *self, unsigned *seen)
{
    enum standing standing = stand(self);
    if (standing == IS_FOLLOWER)
        tell_nothing_waits(self);
    if (standing == IS_LEADER) {
        follow_settings(self);
        begin_all(self);
    }
    perform(self);
    if (standing == IS_LEADER)
        write_done(self);
    if (self->calls)
        curl_multi_poll(self->multi, NULL, 0, LOOK_AGAIN_MS, NULL);
    else
        leading_wait(self->config.leading,
                     clock_mono_ms() + clock_sooner_ms(self->config.pass_ms, IDLE_MAX_MS), seen);
}

static void *run(void *arg)
{
    judges_t *self = arg;
    unsigned seen = 0;
    log_thread_role("daemon");
    while (!atomic_load(&self->is_stopping))
        turn(self, &seen);
    return NULL;
}

judges_t *judges_new(const struct judges_config *config, struct err *err)
{
    judges_t *self = calloc(1, sizeof *self);
    assert(self);
    self->config = *config;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        self->multi = curl_multi_init();
    assert(self->multi);
    self->conn = config->backend->connect(config->store, true, err);
    if (self->conn) {
        self->is_started = pthread_create(&self->thread, NULL, run, self) == 0;
        if (!self->is_started)
            err_set(err, "cannot start the thread of the judges");
    }
    if (!self->is_started)
        judges_destroy(&self);
    return self;
}

void judges_destroy(judges_t **self_p)
{
    judges_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    if (self->is_started) {
        atomic_store(&self->is_stopping, true);
        leading_wake(self->config.leading);
        curl_multi_wakeup(self->multi);
        pthread_join(self->thread, NULL);
    }
    break_off(self);
    score_plan_destroy(&self->plan);
    self->config.backend->disconnect(&self->conn);
    curl_multi_cleanup(self->multi);
    curl_global_cleanup();
    free(self);
}
