// SPDX-License-Identifier: MIT
#include "proto/otlp_pb_items.h"
#include "proto/pb_any.h"
#include "proto/raw_log.h"

static int convert(struct arena *arena, const Mcpd__Otlp__LogRecord *from, struct raw_log *to)
{
    struct value *body = NULL;
    if (from->body) {
        body = arena_zalloc(arena, sizeof(*body));
        if (!body || pb_any_value(arena, from->body, body) == -1)
            return -1;
    }
    *to = (struct raw_log){
        .time_ns = from->time_unix_nano,
        .observed_ns = from->observed_time_unix_nano,
        .severity = from->severity_number,
        .severity_text = pb_slice(from->severity_text),
        .event_name = pb_slice(from->event_name),
        .body = body,
        .dropped_attributes = from->dropped_attributes_count,
        .flags = from->flags,
        .trace_id = raw_id_from_bytes(pb_slice(from->trace_id), TRACE_ID_LEN),
        .span_id = raw_id_from_bytes(pb_slice(from->span_id), SPAN_ID_LEN),
    };
    return pb_any_members(arena, from->attributes, from->n_attributes, &to->attributes);
}

enum batch_result otlp_pb_log(struct maker *maker, struct slice message)
{
    struct raw_log raw;
    const Mcpd__Otlp__LogRecord *log =
        pb_unpack(&mcpd__otlp__log_record__descriptor, &maker->scratch, message);
    if (!log || convert(&maker->scratch, log, &raw) == -1)
        return otlp_pb_failed(maker, &maker->scratch, "log record");
    return raw_log_add(maker, &raw);
}
