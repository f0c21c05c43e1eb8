// SPDX-License-Identifier: MIT
#include "store/rows.h"

#include <assert.h>
#include <string.h>

#include "common/clock.h"

static const struct row_column span_columns[] = {
    {"project", LIST_INT},   {"day", LIST_INT},         {"trace_id", LIST_BYTES},
    {"span_id", LIST_BYTES}, {"parent_id", LIST_BYTES}, {"name", LIST_TEXT},
    {"kind", LIST_INT},      {"status", LIST_INT},      {"error_type", LIST_TEXT},
    {"start_ns", LIST_INT},  {"end_ns", LIST_INT},      {"op", LIST_TEXT},
    {"provider", LIST_TEXT}, {"model", LIST_TEXT},      {"in_tok", LIST_INT},
    {"out_tok", LIST_INT},   {"cache_tok", LIST_INT},   {"reason_tok", LIST_INT},
    {"tool", LIST_TEXT},     {"agent", LIST_TEXT},      {"session", LIST_TEXT},
    {"user_id", LIST_TEXT},  {"mcp_method", LIST_TEXT}, {"mcp_session", LIST_TEXT},
    {"service", LIST_TEXT},  {"env", LIST_TEXT},        {"attrs", LIST_TEXT},
    {"content", LIST_TEXT},
};
static const struct row_column log_columns[] = {
    {"project", LIST_INT},
    {"day", LIST_INT},
    {"id", LIST_BYTES},
    {"ts_ns", LIST_INT},
    {"observed_ns", LIST_INT},
    {"severity", LIST_INT},
    {"severity_text", LIST_TEXT},
    {"event_name", LIST_TEXT},
    {"body", LIST_TEXT},
    {"body_is_json", LIST_INT},
    {"trace_id", LIST_BYTES},
    {"span_id", LIST_BYTES},
    {"op", LIST_TEXT},
    {"model", LIST_TEXT},
    {"tool", LIST_TEXT},
    {"agent", LIST_TEXT},
    {"session", LIST_TEXT},
    {"user_id", LIST_TEXT},
    {"service", LIST_TEXT},
    {"env", LIST_TEXT},
    {"attrs", LIST_TEXT},
    {"content", LIST_TEXT},
};
static const struct row_column metric_columns[] = {
    {"project", LIST_INT},      {"day", LIST_INT},      {"id", LIST_BYTES},
    {"ts_ns", LIST_INT},        {"start_ns", LIST_INT}, {"name", LIST_TEXT},
    {"kind", LIST_TEXT},        {"unit", LIST_TEXT},    {"temporality", LIST_TEXT},
    {"is_monotonic", LIST_INT}, {"value", LIST_REAL},   {"value_int", LIST_INT},
    {"point_count", LIST_INT},  {"op", LIST_TEXT},      {"provider", LIST_TEXT},
    {"model", LIST_TEXT},       {"tool", LIST_TEXT},    {"agent", LIST_TEXT},
    {"service", LIST_TEXT},     {"env", LIST_TEXT},     {"data", LIST_TEXT},
    {"attrs", LIST_TEXT},
};
static const struct row_column score_columns[] = {
    {"project", LIST_INT},  {"id", LIST_TEXT},        {"name", LIST_TEXT},
    {"type", LIST_TEXT},    {"num", LIST_REAL},       {"txt", LIST_TEXT},
    {"source", LIST_TEXT},  {"comment", LIST_TEXT},   {"scorer", LIST_TEXT},
    {"version", LIST_TEXT}, {"trace_id", LIST_BYTES}, {"span_id", LIST_BYTES},
    {"session", LIST_TEXT}, {"run", LIST_TEXT},       {"created_ns", LIST_INT},
};
static const struct row_column run_columns[] = {
    {"project", LIST_INT},  {"id", LIST_TEXT},    {"state", LIST_TEXT}, {"trace_id", LIST_BYTES},
    {"start_ns", LIST_INT}, {"end_ns", LIST_INT}, {"agent", LIST_TEXT}, {"session", LIST_TEXT},
    {"service", LIST_TEXT}, {"env", LIST_TEXT},   {"attrs", LIST_TEXT}, {"seen_ns", LIST_INT},
};

#define TABLE(name, columns, keys)                               \
    {                                                            \
        name, columns, sizeof(columns) / sizeof *(columns), keys \
    }
static const struct row_table tables[EVENT_TYPE_COUNT] = {
    [EVENT_SPAN] = TABLE("spans", span_columns, 4),
    [EVENT_LOG] = TABLE("logs", log_columns, 3),
    [EVENT_METRIC] = TABLE("metrics", metric_columns, 3),
    [EVENT_SCORE] = TABLE("scores", score_columns, 2),
    [EVENT_RUN] = TABLE("runs", run_columns, 2),
};

const struct row_table *row_table(enum event_type type)
{
    assert(type < EVENT_TYPE_COUNT);
    return &tables[type];
}

static struct list_value *next(struct row *row)
{
    assert(row->count < ROW_VALUES_MAX);
    struct list_value *value = &row->values[row->count++];
    value->type = LIST_NULL;
    return value;
}

void row_add_null(struct row *row)
{
    next(row);
}

void row_add_int(struct row *row, int64_t number)
{
    struct list_value *value = next(row);
    value->type = LIST_INT;
    value->integer = number;
}

void row_add_real(struct row *row, double number)
{
    struct list_value *value = next(row);
    value->type = LIST_REAL;
    value->real = number;
}

void row_add_bytes(struct row *row, const void *bytes, size_t len)
{
    struct list_value *value = next(row);
    value->type = LIST_BYTES;
    value->bytes = (struct slice){.data = bytes, .len = len};
}

void row_add_required(struct row *row, struct slice text)
{
    struct list_value *value = next(row);
    value->type = LIST_TEXT;
    value->bytes = text;
}

/* An empty text says "not given" in an event; so does the time 0. */
void row_add_text(struct row *row, struct slice text)
{
    if (text.len == 0)
        row_add_null(row);
    else
        row_add_required(row, text);
}

void row_add_word(struct row *row, const char *word)
{
    row_add_text(row, word ? slice_of(word) : (struct slice){0});
}

static void add_time(struct row *row, uint64_t ns)
{
    if (ns)
        row_add_int(row, (int64_t)ns);
    else
        row_add_null(row);
}

static void add_id(struct row *row, bool is_given, const uint8_t *id, size_t len)
{
    if (is_given)
        row_add_bytes(row, id, len);
    else
        row_add_null(row);
}

static void add_tokens(struct row *row, int64_t tokens)
{
    if (tokens == BATCH_TOKENS_NONE)
        row_add_null(row);
    else
        row_add_int(row, tokens);
}

static void add_texts(struct row *row, const struct slice *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        row_add_text(row, *texts[i]);
}
#define ADD_TEXTS(row, ...)                                    \
    add_texts(row, (const struct slice *const[]){__VA_ARGS__}, \
              sizeof((const struct slice *const[]){__VA_ARGS__}) / sizeof(const struct slice *))

/* The identity of a log record or metric point. */
static void add_identity(struct row *row, const struct backend_request *request,
                         const struct event *event)
{
    uint8_t identity[IDENTITY_LEN];
    _Static_assert(IDENTITY_LEN <= IDENTITY_SCORE_SIZE, "one place for both");
    identity_of_event(request, event, identity);
    memcpy(row->identity, identity, IDENTITY_LEN);
    row_add_bytes(row, row->identity, IDENTITY_LEN);
}

static void add_span(struct row *row, const struct span *span)
{
    row_add_int(row, (int64_t)(span->start_ns / DAY_NS));
    row_add_bytes(row, span->trace_id, sizeof span->trace_id);
    row_add_bytes(row, span->span_id, sizeof span->span_id);
    add_id(row, span->has_parent, span->parent_id, sizeof span->parent_id);
    row_add_required(row, span->name);
    row_add_int(row, span->kind);
    row_add_int(row, span->status);
    row_add_text(row, span->error_type);
    row_add_int(row, (int64_t)span->start_ns);
    add_time(row, span->end_ns);
    ADD_TEXTS(row, &span->op, &span->provider, &span->model);
    add_tokens(row, span->in_tok);
    add_tokens(row, span->out_tok);
    add_tokens(row, span->cache_tok);
    add_tokens(row, span->reason_tok);
    ADD_TEXTS(row, &span->tool, &span->agent, &span->session, &span->user_id, &span->mcp_method,
              &span->mcp_session, &span->service, &span->env);
    row_add_required(row, span->attrs);
    row_add_text(row, span->content);
}

static void add_log(struct row *row, const struct backend_request *request,
                    const struct event *event)
{
    const struct log_record *log = &event->log;
    row_add_int(row, (int64_t)(log->ts_ns / DAY_NS));
    add_identity(row, request, event);
    row_add_int(row, (int64_t)log->ts_ns);
    add_time(row, log->observed_ns);
    add_time(row, (uint64_t)log->severity);
    ADD_TEXTS(row, &log->severity_text, &log->event_name, &log->body);
    row_add_int(row, log->body_is_json);
    add_id(row, log->has_trace, log->trace_id, sizeof log->trace_id);
    add_id(row, log->has_span, log->span_id, sizeof log->span_id);
    ADD_TEXTS(row, &log->op, &log->model, &log->tool, &log->agent, &log->session, &log->user_id,
              &log->service, &log->env);
    row_add_required(row, log->attrs);
    row_add_text(row, log->content);
}

static void add_point_value(struct row *row, const struct metric_point *point)
{
    if (point->has_value)
        row_add_real(row, point->value);
    else
        row_add_null(row);
    if (point->has_value && point->is_int)
        row_add_int(row, point->integer);
    else
        row_add_null(row);
    if (point->kind >= POINT_HISTOGRAM)
        row_add_int(row, (int64_t)point->count);
    else
        row_add_null(row);
}

static void add_metric(struct row *row, const struct backend_request *request,
                       const struct event *event)
{
    static const char *const temporality_names[] = {
        [TEMPORALITY_UNSPECIFIED] = NULL,
        [TEMPORALITY_DELTA] = "delta",
        [TEMPORALITY_CUMULATIVE] = "cumulative",
    };
    const struct metric_point *point = &event->metric;
    row_add_int(row, (int64_t)(point->ts_ns / DAY_NS));
    add_identity(row, request, event);
    row_add_int(row, (int64_t)point->ts_ns);
    add_time(row, point->start_ns);
    row_add_required(row, point->name);
    row_add_word(row, point_kind_name(point->kind));
    row_add_text(row, point->unit);
    row_add_word(row, temporality_names[point->temporality]);
    if (point->kind == POINT_SUM)
        row_add_int(row, point->is_monotonic);
    else
        row_add_null(row);
    add_point_value(row, point);
    ADD_TEXTS(row, &point->op, &point->provider, &point->model, &point->tool, &point->agent,
              &point->service, &point->env);
    row_add_required(row, point->data);
    row_add_required(row, point->attrs);
}

static void add_score(struct row *row, const struct score *score)
{
    bool has_number = score->type == SCORE_NUMBER || score->type == SCORE_BOOLEAN;
    bool has_span = score->target == SCORE_OF_SPAN;
    if (score->id.len == 0)
        identity_of_score(score, row->identity);
    row_add_required(row, score->id.len == 0 ? slice_of(row->identity) : score->id);
    row_add_required(row, score->name);
    row_add_word(row, score_type_name(score->type));
    if (has_number)
        row_add_real(row, score->number);
    else
        row_add_null(row);
    ADD_TEXTS(row, &score->text, &score->source, &score->comment, &score->scorer, &score->version);
    add_id(row, has_span || score->target == SCORE_OF_TRACE, score->trace_id,
           sizeof score->trace_id);
    add_id(row, has_span, score->span_id, sizeof score->span_id);
    ADD_TEXTS(row, &score->session, &score->run);
    row_add_int(row, (int64_t)score->ts_ns);
}

static void add_run(struct row *row, const struct run *run)
{
    row_add_required(row, run->id);
    row_add_required(row, run->state);
    add_id(row, run->has_trace, run->trace_id, sizeof run->trace_id);
    add_time(row, run->start_ns);
    add_time(row, run->end_ns);
    ADD_TEXTS(row, &run->agent, &run->session, &run->service, &run->env);
    row_add_required(row, run->attrs);
    row_add_int(row, (int64_t)clock_wall_ns());
}

void row_of_event(const struct backend_request *request, int64_t project, const struct event *event,
                  struct row *row)
{
    row->count = 0;
    row_add_int(row, project);
    switch (event->type) {
    case EVENT_SPAN:
        add_span(row, &event->span);
        break;
    case EVENT_LOG:
        add_log(row, request, event);
        break;
    case EVENT_METRIC:
        add_metric(row, request, event);
        break;
    case EVENT_SCORE:
        add_score(row, &event->score);
        break;
    case EVENT_RUN:
        add_run(row, &event->run);
        break;
    case EVENT_TYPE_COUNT:
        break;
    }
    assert(row->count == row_table(event->type)->count);
}
