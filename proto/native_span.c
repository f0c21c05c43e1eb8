// SPDX-License-Identifier: MIT
#include "proto/native_types.h"
#include "proto/raw_span.h"

static int field_kind(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"unspecified", "internal", "server", "client",
                                        "producer",    "consumer", NULL};
    return native_name(reader, value, names, field);
}

static int field_status(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"unset", "ok", "error", NULL};
    return native_name(reader, value, names, field);
}

static const struct field event_fields[] = {
    {"ts_ns", field_u64, offsetof(struct raw_event, time_ns)},
    {"name", field_text, offsetof(struct raw_event, name)},
    {"attrs", field_map, offsetof(struct raw_event, attributes)},
    {0},
};

static const struct field link_fields[] = {
    {"trace_id", native_trace_id, offsetof(struct raw_link, trace_id)},
    {"span_id", native_span_id, offsetof(struct raw_link, span_id)},
    {"attrs", field_map, offsetof(struct raw_link, attributes)},
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

static const struct field span_fields[] = {
    {"id", field_text, offsetof(struct raw_span, id)},
    {"trace_id", native_trace_id, offsetof(struct raw_span, trace_id)},
    {"span_id", native_span_id, offsetof(struct raw_span, span_id)},
    {"parent_id", native_span_id, offsetof(struct raw_span, parent_id)},
    {"name", field_text, offsetof(struct raw_span, name)},
    {"kind", field_kind, offsetof(struct raw_span, kind)},
    {"start_ns", field_u64, offsetof(struct raw_span, start_ns)},
    {"end_ns", field_u64, offsetof(struct raw_span, end_ns)},
    {"status", field_status, offsetof(struct raw_span, status)},
    {"status_message", field_text, offsetof(struct raw_span, status_message)},
    {"error", field_text, offsetof(struct raw_span, error)},
    {"trace_state", field_text, offsetof(struct raw_span, trace_state)},
    {"attrs", field_map, offsetof(struct raw_span, attributes)},
    {"events", field_events, offsetof(struct raw_span, events)},
    {"links", field_links, offsetof(struct raw_span, links)},
    {0},
};

enum batch_result native_span(struct maker *maker, struct value *event)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    struct raw_span raw = {0};
    if (fields_read(&reader, event, span_fields, &raw) == -1)
        return native_wrong(maker, &reader, raw.id);
    if (raw.name.len == 0) {
        maker_reject(maker, REJECT_MISSING, raw.id, "no name");
        return BATCH_OK;
    }
    /* Who names an error means one. */
    if (raw.error.len > 0 && raw.status == SPAN_STATUS_UNSET)
        raw.status = SPAN_STATUS_ERROR;
    return raw_span_add(maker, &raw);
}
