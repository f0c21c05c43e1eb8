// SPDX-License-Identifier: MIT
/*
 * raw_span: a span as some body has it, and the step from there to the batch: checked, mapped to
 * columns, written as the JSON that the store keeps.
 */
#ifndef MCPD_RAW_SPAN_H
#define MCPD_RAW_SPAN_H

#include "proto/maker.h"

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

/* Texts are not clean, everything is borrowed for the call of raw_span_add. */
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

/* Adds the span to the batch, or a reject; attributes may be marked skipped. BATCH_OK, also for a
 * reject; BATCH_TOO_MANY_EVENTS or BATCH_TOO_LARGE with the reason. */
enum batch_result raw_span_add(struct maker *maker, struct raw_span *raw) MUST_USE;

#endif
