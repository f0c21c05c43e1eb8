// SPDX-License-Identifier: MIT
/*
 * raw_span: the last step that all decoders share: a span as some body has it, checked, mapped to
 * columns and written as the JSON that the store keeps. A decoder fills a raw_span in memory it
 * reuses, calls span_maker_add, and goes on to the next.
 */
#ifndef MCPD_RAW_SPAN_H
#define MCPD_RAW_SPAN_H

#include "proto/batch.h"
#include "proto/genai.h"
#include "proto/value.h"

/* An id as sent. */
struct raw_id {
    enum { RAW_ID_ABSENT, RAW_ID_GOOD, RAW_ID_ZERO, RAW_ID_BAD } state;
    uint8_t bytes[16];
};

/* len is 16 or 8. An empty text or no bytes are an absent id. */
struct raw_id raw_id_from_hex(struct slice text, size_t len);
struct raw_id raw_id_from_bytes(struct slice bytes, size_t len);

struct raw_event {
    struct raw_event *next;
    uint64_t time_ns;
    struct slice name;
    struct value *attributes;
    uint64_t dropped_attributes;
};

struct raw_link {
    struct raw_link *next;
    struct raw_id trace_id;
    struct raw_id span_id;
    struct slice trace_state;
    uint64_t flags;
    struct value *attributes;
    uint64_t dropped_attributes;
};

/* Texts are not clean, everything is borrowed for the call of span_maker_add. */
struct raw_span {
    struct slice id; /* how the sender may call it when it is rejected */
    struct raw_id trace_id;
    struct raw_id span_id;
    struct raw_id parent_id;
    struct slice name;
    struct slice trace_state;
    struct slice status_message;
    struct slice error; /* native only: error_type as said */
    int64_t kind;
    int64_t status;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t flags;
    uint64_t dropped_attributes, dropped_events, dropped_links;
    struct value *attributes; /* lists of members */
    struct raw_event *events;
    struct raw_link *links;
};

/* What spans of one resource, and of one scope in it, share. */
struct raw_scope {
    struct slice name;
    struct slice version;
    struct value *attributes;
};

struct span_maker {
    struct batch *batch;
    const struct batch_policy *policy;
    struct arena scratch; /* the decoder's memory of one span; reset by span_maker_add */
    struct json_out attrs;
    struct json_out content;
    struct json_out resource_json; /* "resource":{...}, or nothing */
    struct json_out scope_json;    /* "scope":{...}, or nothing */
    struct genai_found resource;
    struct arena resource_memory; /* what resource points to; the decoder's to fill and reset */
};

/* The batch's memory is limited in proportion to the body's length. */
void span_maker_init(struct span_maker *self, struct batch *batch,
                     const struct batch_policy *policy, size_t body_len);
void span_maker_fini(struct span_maker *self);

/* Says which resource and which scope the next spans have. members must live, in resource_memory or
 * in the body, until the next call; scope only for the call. */
void span_maker_resource(struct span_maker *self, struct value *members);
void span_maker_scope(struct span_maker *self, const struct raw_scope *scope);

/* Adds the span to the batch, or a reject. Resets the scratch memory. BATCH_OK, also for a reject;
 * BATCH_TOO_MANY_EVENTS, BATCH_TOO_LARGE. */
enum batch_result span_maker_add(struct span_maker *self, const struct raw_span *raw,
                                 struct err *err) MUST_USE;
/* Counts the span as rejected for a reason that the decoder found. Resets the scratch memory. */
void span_maker_reject(struct span_maker *self, enum reject_code code, struct slice id,
                       const char *message);

#endif
