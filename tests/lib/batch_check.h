// SPDX-License-Identifier: MIT
/*
 * What must be true of every batch, whatever the body was: used by unit tests and fuzzers. jansson
 * is the judge of the JSON columns, as it refuses what a store's JSON type refuses: bad UTF-8,
 * U+0000, lone surrogates, numbers out of range.
 */
#ifndef MCPD_TESTS_BATCH_CHECK_H
#define MCPD_TESTS_BATCH_CHECK_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/batch.h"
#include "proto/genai.h"
#include "common/utf8.h"

#define BATCH_CHECK(fact)                                                        \
    do {                                                                         \
        if (!(fact)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #fact); \
            abort();                                                             \
        }                                                                        \
    } while (0)

static inline json_type batch_check_any_json(struct slice text)
{
    json_error_t error;
    json_t *json = json_loadb(text.data, text.len, JSON_DECODE_ANY, &error);
    if (!json)
        fprintf(stderr, "%s in %.*s\n", error.text, (int)text.len, text.data);
    BATCH_CHECK(json);
    json_type type = json_typeof(json);
    json_decref(json);
    return type;
}

static inline void batch_check_json(struct slice text)
{
    BATCH_CHECK(batch_check_any_json(text) == JSON_OBJECT);
}

static inline void batch_check_column(struct slice text)
{
    BATCH_CHECK(text.len <= GENAI_COLUMN_MAX_BYTES);
    BATCH_CHECK(utf8_is_clean(text));
}

static inline void batch_check_span(const struct span *span, const struct batch_policy *policy)
{
    static const uint8_t zero[16];
    BATCH_CHECK(memcmp(span->trace_id, zero, 16) != 0);
    BATCH_CHECK(memcmp(span->span_id, zero, 8) != 0);
    BATCH_CHECK(span->start_ns != 0 && span->start_ns <= INT64_MAX);
    BATCH_CHECK(span->end_ns == 0 || span->end_ns >= span->start_ns);
    BATCH_CHECK(span->start_ns >= policy->oldest_ns);
    BATCH_CHECK(span->kind < SPAN_KIND_COUNT && span->status < SPAN_STATUS_COUNT);
    BATCH_CHECK(span->in_tok >= -1 && span->out_tok >= -1);
    BATCH_CHECK(utf8_is_clean(span->name));
    const struct slice columns[] = {span->error_type, span->op,      span->provider,
                                    span->model,      span->tool,    span->agent,
                                    span->session,    span->user_id, span->mcp_method,
                                    span->service,    span->env,     span->mcp_session};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        batch_check_column(columns[i]);
    batch_check_json(span->attrs);
    if (span->content.len > 0)
        batch_check_json(span->content);
}

static inline void batch_check_log(const struct log_record *log, const struct batch_policy *policy)
{
    BATCH_CHECK(log->ts_ns != 0 && log->ts_ns <= INT64_MAX && log->ts_ns >= policy->oldest_ns);
    BATCH_CHECK(log->severity >= 0 && log->severity <= 24);
    BATCH_CHECK(utf8_is_clean(log->body));
    const struct slice columns[] = {log->severity_text, log->event_name, log->op,      log->model,
                                    log->tool,          log->agent,      log->session, log->user_id,
                                    log->service,       log->env};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        batch_check_column(columns[i]);
    if (log->body_is_json)
        batch_check_any_json(log->body);
    batch_check_json(log->attrs);
    if (log->content.len > 0)
        batch_check_json(log->content);
}

static inline void batch_check_metric(const struct metric_point *point,
                                      const struct batch_policy *policy)
{
    BATCH_CHECK(point->ts_ns != 0 && point->ts_ns <= INT64_MAX);
    BATCH_CHECK(point->ts_ns >= policy->oldest_ns && point->start_ns <= INT64_MAX);
    BATCH_CHECK(point->kind < POINT_KIND_COUNT);
    BATCH_CHECK(point->temporality <= TEMPORALITY_CUMULATIVE);
    BATCH_CHECK(isfinite(point->value) && point->count <= INT64_MAX);
    BATCH_CHECK(point->name.len > 0);
    const struct slice columns[] = {point->name,  point->unit, point->op,      point->provider,
                                    point->model, point->tool, point->service, point->env};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        batch_check_column(columns[i]);
    batch_check_json(point->data);
    batch_check_json(point->attrs);
}

static inline void batch_check_score(const struct score *score)
{
    BATCH_CHECK(score->name.len > 0 && score->name.len <= 200);
    BATCH_CHECK(score->type < SCORE_TYPE_COUNT && isfinite(score->number));
    BATCH_CHECK((score->target == SCORE_OF_SESSION) == (score->session.len > 0));
    BATCH_CHECK((score->target == SCORE_OF_RUN) == (score->run.len > 0));
    BATCH_CHECK(score->ts_ns != 0 && score->ts_ns <= INT64_MAX);
    const struct slice texts[] = {score->id,     score->name,    score->text,   score->session,
                                  score->source, score->comment, score->scorer, score->version};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        BATCH_CHECK(utf8_is_clean(texts[i]));
}

static inline void batch_check_run(const struct run *run)
{
    BATCH_CHECK(run->id.len > 0 && run->id.len <= 200 && utf8_is_clean(run->id));
    BATCH_CHECK(run->state.len > 0 && utf8_is_clean(run->state));
    BATCH_CHECK(run->start_ns <= INT64_MAX && run->end_ns <= INT64_MAX);
    batch_check_json(run->attrs);
}

static inline void batch_check_event(const struct event *event, const struct batch_policy *policy)
{
    switch (event->type) {
    case EVENT_SPAN:
        batch_check_span(&event->span, policy);
        break;
    case EVENT_LOG:
        batch_check_log(&event->log, policy);
        break;
    case EVENT_METRIC:
        batch_check_metric(&event->metric, policy);
        break;
    case EVENT_SCORE:
        batch_check_score(&event->score);
        break;
    case EVENT_RUN:
        batch_check_run(&event->run);
        break;
    case EVENT_TYPE_COUNT:
        abort();
    }
}

static inline void batch_check(const struct batch *batch, const struct batch_policy *policy)
{
    size_t next_index = 0;
    size_t kept = 0;
    BATCH_CHECK(batch->sent == batch->event_count + batch->rejected);
    BATCH_CHECK(batch->reject_count ==
                (batch->rejected < BATCH_REJECTS_KEPT ? batch->rejected : BATCH_REJECTS_KEPT));
    for (size_t i = 0; i < batch->event_count; i++) {
        BATCH_CHECK(batch->events[i].index >= next_index && batch->events[i].index < batch->sent);
        next_index = batch->events[i].index + 1;
        batch_check_event(&batch->events[i], policy);
    }
    for (size_t i = 0; i < batch->derived_count; i++) {
        BATCH_CHECK(batch->derived[i].index < batch->sent);
        batch_check_event(&batch->derived[i], policy);
    }
    for (size_t i = 0; i < batch->reject_count; i++) {
        BATCH_CHECK(batch->rejects[i].code < REJECT_CODE_COUNT);
        BATCH_CHECK(utf8_is_clean(batch->rejects[i].id));
        BATCH_CHECK(utf8_is_clean(batch->rejects[i].message));
        BATCH_CHECK(utf8_is_clean(batch->rejects[i].source));
        BATCH_CHECK(batch->rejects[i].source.len <= BATCH_REJECT_SOURCE_MAX);
        kept += batch->rejects[i].source.len;
    }
    BATCH_CHECK(kept < BATCH_REJECT_SOURCES_MAX + BATCH_REJECT_SOURCE_MAX);
}

#endif
