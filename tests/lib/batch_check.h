// SPDX-License-Identifier: MIT
/*
 * What must be true of every batch, whatever the body was: used by unit tests and fuzzers. jansson
 * is the judge of the JSON columns, as it refuses what a store's JSON type refuses: bad UTF-8,
 * U+0000, lone surrogates, numbers out of range.
 */
#ifndef MCPD_TESTS_BATCH_CHECK_H
#define MCPD_TESTS_BATCH_CHECK_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/batch.h"
#include "proto/genai.h"
#include "proto/utf8.h"

#define BATCH_CHECK(fact)                                                        \
    do {                                                                         \
        if (!(fact)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #fact); \
            abort();                                                             \
        }                                                                        \
    } while (0)

static inline void batch_check_json(struct slice text)
{
    json_error_t error;
    json_t *json = json_loadb(text.data, text.len, 0, &error);
    if (!json)
        fprintf(stderr, "%s in %.*s\n", error.text, (int)text.len, text.data);
    BATCH_CHECK(json && json_is_object(json));
    json_decref(json);
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

static inline void batch_check(const struct batch *batch, const struct batch_policy *policy)
{
    size_t next_index = 0;
    BATCH_CHECK(batch->sent == batch->event_count + batch->rejected);
    BATCH_CHECK(batch->reject_count ==
                (batch->rejected < BATCH_REJECTS_KEPT ? batch->rejected : BATCH_REJECTS_KEPT));
    for (size_t i = 0; i < batch->event_count; i++) {
        BATCH_CHECK(batch->events[i].index >= next_index && batch->events[i].index < batch->sent);
        next_index = batch->events[i].index + 1;
        batch_check_span(&batch->events[i].span, policy);
    }
    for (size_t i = 0; i < batch->reject_count; i++) {
        BATCH_CHECK(batch->rejects[i].code < REJECT_CODE_COUNT);
        BATCH_CHECK(utf8_is_clean(batch->rejects[i].id));
        BATCH_CHECK(utf8_is_clean(batch->rejects[i].message));
    }
}

#endif
