// SPDX-License-Identifier: MIT
#include "proto/json_any.h"
#include "proto/otlp_json_items.h"
#include "proto/raw_log.h"

static int field_severity(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {
        "UNSPECIFIED", "TRACE",  "TRACE2", "TRACE3", "TRACE4", "DEBUG",  "DEBUG2",
        "DEBUG3",      "DEBUG4", "INFO",   "INFO2",  "INFO3",  "INFO4",  "WARN",
        "WARN2",       "WARN3",  "WARN4",  "ERROR",  "ERROR2", "ERROR3", "ERROR4",
        "FATAL",       "FATAL2", "FATAL3", "FATAL4", NULL};
    return otlp_json_enum(reader, value, "SEVERITY_NUMBER_", names, field);
}

static const struct field log_fields[] = {
    {"timeUnixNano", field_u64, offsetof(struct raw_log, time_ns)},
    {"observedTimeUnixNano", field_u64, offsetof(struct raw_log, observed_ns)},
    {"severityNumber", field_severity, offsetof(struct raw_log, severity)},
    {"severityText", field_text, offsetof(struct raw_log, severity_text)},
    {"body", json_any_value, offsetof(struct raw_log, body)},
    {"attributes", json_any_attributes, offsetof(struct raw_log, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_log, dropped_attributes)},
    {"flags", field_u32, offsetof(struct raw_log, flags)},
    {"traceId", json_any_trace_id, offsetof(struct raw_log, trace_id)},
    {"spanId", json_any_span_id, offsetof(struct raw_log, span_id)},
    {"eventName", field_text, offsetof(struct raw_log, event_name)},
    {0},
};

enum batch_result otlp_json_log(struct maker *maker, struct value *item)
{
    struct fields_reader reader = {.arena = &maker->scratch, .is_camel = true};
    struct raw_log raw = {0};
    if (fields_read(&reader, item, log_fields, &raw) == -1)
        return otlp_json_wrong(maker, &reader, "log record");
    return raw_log_add(maker, &raw);
}
