// SPDX-License-Identifier: MIT
#include "proto/json_any.h"
#include "proto/otlp_json_items.h"
#include "proto/raw_span.h"

static int field_kind(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT",
                                        "PRODUCER",    "CONSUMER", NULL};
    return otlp_json_enum(reader, value, "SPAN_KIND_", names, field);
}

static int field_status_code(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"UNSET", "OK", "ERROR", NULL};
    return otlp_json_enum(reader, value, "STATUS_CODE_", names, field);
}

static const struct field event_fields[] = {
    {"timeUnixNano", field_u64, offsetof(struct raw_event, time_ns)},
    {"name", field_text, offsetof(struct raw_event, name)},
    {"attributes", json_any_attributes, offsetof(struct raw_event, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_event, dropped_attributes)},
    {0},
};

static const struct field link_fields[] = {
    {"traceId", json_any_trace_id, offsetof(struct raw_link, trace_id)},
    {"spanId", json_any_span_id, offsetof(struct raw_link, span_id)},
    {"traceState", field_text, offsetof(struct raw_link, trace_state)},
    {"flags", field_u32, offsetof(struct raw_link, flags)},
    {"attributes", json_any_attributes, offsetof(struct raw_link, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_link, dropped_attributes)},
    {0},
};

static int field_events(struct fields_reader *reader, struct value *value, void *field)
{
    return fields_read_chain(reader, value, event_fields, sizeof(struct raw_event), field);
}

static int field_links(struct fields_reader *reader, struct value *value, void *field)
{
    return fields_read_chain(reader, value, link_fields, sizeof(struct raw_link), field);
}

struct status {
    struct slice message;
    int64_t code;
};

static const struct field status_fields[] = {
    {"message", field_text, offsetof(struct status, message)},
    {"code", field_status_code, offsetof(struct status, code)},
    {0},
};

/* The field is the whole raw_span. */
static int field_status(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_span *raw = field;
    struct status status = {0};
    if (fields_read(reader, value, status_fields, &status) == -1)
        return -1;
    raw->status = status.code;
    raw->status_message = status.message;
    return 0;
}

static const struct field span_fields[] = {
    {"traceId", json_any_trace_id, offsetof(struct raw_span, trace_id)},
    {"spanId", json_any_span_id, offsetof(struct raw_span, span_id)},
    {"parentSpanId", json_any_span_id, offsetof(struct raw_span, parent_id)},
    {"traceState", field_text, offsetof(struct raw_span, trace_state)},
    {"name", field_text, offsetof(struct raw_span, name)},
    {"kind", field_kind, offsetof(struct raw_span, kind)},
    {"startTimeUnixNano", field_u64, offsetof(struct raw_span, start_ns)},
    {"endTimeUnixNano", field_u64, offsetof(struct raw_span, end_ns)},
    {"attributes", json_any_attributes, offsetof(struct raw_span, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_span, dropped_attributes)},
    {"events", field_events, offsetof(struct raw_span, events)},
    {"droppedEventsCount", field_u32, offsetof(struct raw_span, dropped_events)},
    {"links", field_links, offsetof(struct raw_span, links)},
    {"droppedLinksCount", field_u32, offsetof(struct raw_span, dropped_links)},
    {"status", field_status, 0},
    {"flags", field_u32, offsetof(struct raw_span, flags)},
    {0},
};

enum batch_result otlp_json_span(struct maker *maker, struct value *item)
{
    struct fields_reader reader = {.arena = &maker->scratch, .is_camel = true};
    struct raw_span raw = {0};
    if (fields_read(&reader, item, span_fields, &raw) == -1)
        return otlp_json_wrong(maker, &reader, "span");
    return raw_span_add(maker, &raw);
}
