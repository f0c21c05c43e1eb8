// SPDX-License-Identifier: MIT
/* Logs, metric points, scores and runs. */
#include "common/clock.h"
#include "store/identity.h"
#include "store/sqlite_step.h"

static const char *const temporality_names[] = {
    [TEMPORALITY_UNSPECIFIED] = NULL,
    [TEMPORALITY_DELTA] = "delta",
    [TEMPORALITY_CUMULATIVE] = "cumulative",
};

/* 0 says "not given" in an event. */
static void bind_time(struct sqlite_call *call, uint64_t ns)
{
    if (ns)
        sqlite_bind_int(call, (int64_t)ns);
    else
        sqlite_bind_null(call);
}

static void bind_id(struct sqlite_call *call, bool is_given, const uint8_t *id, size_t len)
{
    if (is_given)
        sqlite_bind_blob(call, id, len);
    else
        sqlite_bind_null(call);
}

enum step step_log(struct writing *writing, const struct event *event)
{
    const struct log_record *log = &event->log;
    uint8_t identity[IDENTITY_LEN];
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, STATEMENT_LOG_ADD, &call, writing->err) == -1)
        return STEP_STORE;
    identity_of_event(writing->request, event, identity);
    sqlite_bind_int(&call, writing->project);
    sqlite_bind_int(&call, (int64_t)(log->ts_ns / DAY_NS));
    sqlite_bind_blob(&call, identity, sizeof identity);
    sqlite_bind_int(&call, (int64_t)log->ts_ns);
    bind_time(&call, log->observed_ns);
    bind_time(&call, (uint64_t)log->severity);
    sqlite_bind_slice(&call, log->severity_text);
    sqlite_bind_slice(&call, log->event_name);
    sqlite_bind_slice(&call, log->body);
    sqlite_bind_int(&call, log->body_is_json);
    bind_id(&call, log->has_trace, log->trace_id, sizeof log->trace_id);
    bind_id(&call, log->has_span, log->span_id, sizeof log->span_id);
    sqlite_bind_slice(&call, log->op);
    sqlite_bind_slice(&call, log->model);
    sqlite_bind_slice(&call, log->tool);
    sqlite_bind_slice(&call, log->agent);
    sqlite_bind_slice(&call, log->session);
    sqlite_bind_slice(&call, log->user_id);
    sqlite_bind_slice(&call, log->service);
    sqlite_bind_slice(&call, log->env);
    sqlite_bind_required(&call, log->attrs);
    sqlite_bind_slice(&call, log->content);
    return step_finish(writing->conn, &call, writing->err);
}

static void bind_value(struct sqlite_call *call, const struct metric_point *point)
{
    if (point->has_value)
        sqlite_bind_real(call, point->value);
    else
        sqlite_bind_null(call);
    if (point->has_value && point->is_int)
        sqlite_bind_int(call, point->integer);
    else
        sqlite_bind_null(call);
    if (point->kind >= POINT_HISTOGRAM)
        sqlite_bind_int(call, (int64_t)point->count);
    else
        sqlite_bind_null(call);
}

enum step step_metric(struct writing *writing, const struct event *event)
{
    const struct metric_point *point = &event->metric;
    uint8_t identity[IDENTITY_LEN];
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, STATEMENT_METRIC_ADD, &call, writing->err) == -1)
        return STEP_STORE;
    identity_of_event(writing->request, event, identity);
    sqlite_bind_int(&call, writing->project);
    sqlite_bind_int(&call, (int64_t)(point->ts_ns / DAY_NS));
    sqlite_bind_blob(&call, identity, sizeof identity);
    sqlite_bind_int(&call, (int64_t)point->ts_ns);
    bind_time(&call, point->start_ns);
    sqlite_bind_required(&call, point->name);
    sqlite_bind_text(&call, point_kind_name(point->kind));
    sqlite_bind_slice(&call, point->unit);
    sqlite_bind_text(&call, temporality_names[point->temporality]);
    if (point->kind == POINT_SUM)
        sqlite_bind_int(&call, point->is_monotonic);
    else
        sqlite_bind_null(&call);
    bind_value(&call, point);
    sqlite_bind_slice(&call, point->op);
    sqlite_bind_slice(&call, point->provider);
    sqlite_bind_slice(&call, point->model);
    sqlite_bind_slice(&call, point->tool);
    sqlite_bind_slice(&call, point->agent);
    sqlite_bind_slice(&call, point->service);
    sqlite_bind_slice(&call, point->env);
    sqlite_bind_required(&call, point->data);
    sqlite_bind_required(&call, point->attrs);
    return step_finish(writing->conn, &call, writing->err);
}

enum step step_score(struct writing *writing, const struct event *event)
{
    const struct score *score = &event->score;
    char identity[IDENTITY_SCORE_SIZE];
    struct slice id = score->id;
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, STATEMENT_SCORE_ADD, &call, writing->err) == -1)
        return STEP_STORE;
    if (id.len == 0) {
        identity_of_score(score, identity);
        id = slice_of(identity);
    }
    bool has_number = score->type == SCORE_NUMBER || score->type == SCORE_BOOLEAN;
    bool has_span = score->target == SCORE_OF_SPAN;
    sqlite_bind_int(&call, writing->project);
    sqlite_bind_required(&call, id);
    sqlite_bind_required(&call, score->name);
    sqlite_bind_text(&call, score_type_name(score->type));
    if (has_number)
        sqlite_bind_real(&call, score->number);
    else
        sqlite_bind_null(&call);
    sqlite_bind_slice(&call, score->text);
    sqlite_bind_slice(&call, score->source);
    sqlite_bind_slice(&call, score->comment);
    sqlite_bind_slice(&call, score->scorer);
    sqlite_bind_slice(&call, score->version);
    bind_id(&call, has_span || score->target == SCORE_OF_TRACE, score->trace_id,
            sizeof score->trace_id);
    bind_id(&call, has_span, score->span_id, sizeof score->span_id);
    sqlite_bind_slice(&call, score->session);
    sqlite_bind_slice(&call, score->run);
    sqlite_bind_int(&call, (int64_t)score->ts_ns);
    return step_finish(writing->conn, &call, writing->err);
}

enum step step_run(struct writing *writing, const struct event *event)
{
    const struct run *run = &event->run;
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, STATEMENT_RUN_ADD, &call, writing->err) == -1)
        return STEP_STORE;
    sqlite_bind_int(&call, writing->project);
    sqlite_bind_required(&call, run->id);
    sqlite_bind_required(&call, run->state);
    bind_id(&call, run->has_trace, run->trace_id, sizeof run->trace_id);
    bind_time(&call, run->start_ns);
    bind_time(&call, run->end_ns);
    sqlite_bind_slice(&call, run->agent);
    sqlite_bind_slice(&call, run->session);
    sqlite_bind_slice(&call, run->service);
    sqlite_bind_slice(&call, run->env);
    sqlite_bind_required(&call, run->attrs);
    sqlite_bind_int(&call, (int64_t)clock_wall_ns());
    return step_finish(writing->conn, &call, writing->err);
}
