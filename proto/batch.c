// SPDX-License-Identifier: MIT
/*
 * The event array is malloc'd and doubles; everything the events point to lies in the arena.
 */
#include "proto/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/status_row.h"
#include "common/utf8.h"
#include "proto/codec.h"

/* What a body decodes to: seldom more than 5 times its length, more where spans are tiny and their
 * resource is large. */
#define ARENA_BASE   ((size_t)64 * 1024 * 1024)
#define ARENA_FACTOR 16
#define ARENA_MAX    ((size_t)1024 * 1024 * 1024)
#define ID_MAX       64

const struct batch_result_row *batch_result_row(enum batch_result result)
{
    static const struct batch_result_row rows[] = {
#define BATCH_RESULT(id, status, code, meaning) {status, code, meaning},
#include "proto/batch.def"
#undef BATCH_RESULT
    };
    assert(result < BATCH_RESULT_COUNT);
    return &rows[result];
}

void batch_markdown(FILE *out)
{
    status_rows_head(out);
    for (unsigned i = BATCH_OK + 1; i < BATCH_RESULT_COUNT; i++) {
        const struct batch_result_row *row = batch_result_row((enum batch_result)i);
        status_row(out, row->http_status, row->code, 0, row->meaning);
    }
}

void reject_markdown(FILE *out)
{
    static const char *const rows[][2] = {
#define REJECT_CODE(id, name, meaning) {name, meaning},
#include "proto/reject.def"
#undef REJECT_CODE
    };
    fprintf(out, "| code | meaning |\n|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fprintf(out, "| `%s` | %s |\n", rows[i][0], rows[i][1]);
}

const char *reject_code_name(enum reject_code code)
{
    static const char *const names[] = {
#define REJECT_CODE(id, name, meaning) name,
#include "proto/reject.def"
#undef REJECT_CODE
    };
    assert(code < REJECT_CODE_COUNT);
    return names[code];
}

const char *source_form_name(enum source_form form)
{
    static const char *const names[] = {NULL, "json", "protobuf"};
    assert(form < SOURCE_FORM_COUNT);
    return names[form];
}

const char *span_kind_name(enum span_kind kind)
{
    static const char *const names[] = {"unspecified", "internal", "server",
                                        "client",      "producer", "consumer"};
    assert(kind < SPAN_KIND_COUNT);
    return names[kind];
}

const char *span_status_name(enum span_status status)
{
    static const char *const names[] = {"unset", "ok", "error"};
    assert(status < SPAN_STATUS_COUNT);
    return names[status];
}

const char *point_kind_name(enum point_kind kind)
{
    static const char *const names[] = {"gauge", "sum", "histogram", "exponential_histogram",
                                        "summary"};
    assert(kind < POINT_KIND_COUNT);
    return names[kind];
}

const char *score_type_name(enum score_type type)
{
    static const char *const names[] = {"number", "boolean", "label", "text"};
    assert(type < SCORE_TYPE_COUNT);
    return names[type];
}

void batch_init(struct batch *self)
{
    *self = (struct batch){0};
    arena_init(&self->arena, ARENA_MAX);
}

void batch_fini(struct batch *self)
{
    free(self->derived);
    free(self->events);
    arena_fini(&self->arena);
    *self = (struct batch){0};
}

void batch_limit(struct batch *self, size_t body_len)
{
    size_t room = ARENA_MAX - ARENA_BASE;
    self->arena.max_bytes =
        ARENA_BASE + (body_len < room / ARENA_FACTOR ? body_len * ARENA_FACTOR : room);
}

/* Makes room for one more; the first time for so many. */
static void grow(struct event **events, size_t count, size_t *capacity, size_t first)
{
    if (count < *capacity)
        return;
    *capacity = *capacity ? *capacity * 2 : first;
    *events = realloc(*events, *capacity * sizeof(**events));
    if (!*events)
        abort();
}

struct event *batch_derive(struct batch *self, enum event_type type)
{
    assert(self->event_count > 0);
    if (self->derived_count >= BATCH_OTLP_EVENTS_MAX)
        return NULL;
    grow(&self->derived, self->derived_count, &self->derived_capacity, 4);
    struct event *event = &self->derived[self->derived_count++];
    *event = (struct event){.type = type, .index = self->events[self->event_count - 1].index};
    return event;
}

struct event *batch_add(struct batch *self, enum event_type type)
{
    if (self->sent >= BATCH_OTLP_EVENTS_MAX)
        return NULL;
    grow(&self->events, self->event_count, &self->event_capacity, 64);
    struct event *event = &self->events[self->event_count++];
    *event = (struct event){.type = type, .index = (uint32_t)self->sent++};
    struct span *span = &event->span;
    if (type == EVENT_SPAN)
        span->in_tok = span->out_tok = span->cache_tok = span->reason_tok = BATCH_TOKENS_NONE;
    return event;
}

/* The event as it came, while there is room for it. */
static int keep_source(struct batch *self, const struct source *source, struct reject *reject)
{
    struct slice bytes = source->bytes;
    if (source->form == SOURCE_NONE || self->source_bytes >= BATCH_REJECT_SOURCES_MAX)
        return 0;
    if (source->form == SOURCE_PROTOBUF) {
        size_t most = BATCH_REJECT_SOURCE_MAX / 4 * 3;
        bytes.len = bytes.len < most ? bytes.len : most;
        char *text = arena_alloc(&self->arena, codec_base64_size(bytes.len));
        if (!text)
            return -1;
        reject->source = (struct slice){text, codec_base64_encode(bytes, text)};
    } else if (utf8_clean(&self->arena, bytes, BATCH_REJECT_SOURCE_MAX, &reject->source) == -1) {
        return -1;
    }
    reject->form = source->form;
    reject->source_bytes = source->bytes.len;
    self->source_bytes += reject->source.len;
    return 0;
}

static void keep_reason(struct batch *self, enum reject_code code, struct slice id,
                        const char *message, const struct source *source)
{
    if (self->reject_count == BATCH_REJECTS_KEPT)
        return;
    if (!self->rejects)
        self->rejects = arena_alloc(&self->arena, BATCH_REJECTS_KEPT * sizeof(*self->rejects));
    struct reject reject = {.index = (uint32_t)self->sent, .code = code};
    if (!self->rejects || utf8_clean(&self->arena, id, ID_MAX, &reject.id) == -1 ||
        utf8_clean(&self->arena, slice_of(message), SIZE_MAX, &reject.message) == -1 ||
        keep_source(self, source, &reject) == -1)
        return;
    self->rejects[self->reject_count++] = reject;
}

void batch_reject(struct batch *self, enum reject_code code, struct slice id, const char *message,
                  const struct source *source)
{
    keep_reason(self, code, id, message, source);
    self->sent++;
    self->rejected++;
}
