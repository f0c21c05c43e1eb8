// SPDX-License-Identifier: MIT
#include "proto/otlp_pb_items.h"
#include "proto/pb_any.h"
#include "proto/raw_span.h"

static int convert_events(struct arena *arena, const Mcpd__Otlp__Span *from, struct raw_span *to)
{
    struct raw_event **next = &to->events;
    for (size_t i = 0; i < from->n_events; i++) {
        const Mcpd__Otlp__SpanEvent *event = from->events[i];
        struct raw_event *raw = arena_zalloc(arena, sizeof(*raw));
        if (!raw ||
            pb_any_members(arena, event->attributes, event->n_attributes, &raw->attributes) == -1)
            return -1;
        raw->time_ns = event->time_unix_nano;
        raw->name = pb_slice(event->name);
        raw->dropped_attributes = event->dropped_attributes_count;
        *next = raw;
        next = &raw->next;
    }
    return 0;
}

static int convert_links(struct arena *arena, const Mcpd__Otlp__Span *from, struct raw_span *to)
{
    struct raw_link **next = &to->links;
    for (size_t i = 0; i < from->n_links; i++) {
        const Mcpd__Otlp__SpanLink *link = from->links[i];
        struct raw_link *raw = arena_zalloc(arena, sizeof(*raw));
        if (!raw ||
            pb_any_members(arena, link->attributes, link->n_attributes, &raw->attributes) == -1)
            return -1;
        raw->trace_id = raw_id_from_bytes(pb_slice(link->trace_id), 16);
        raw->span_id = raw_id_from_bytes(pb_slice(link->span_id), 8);
        raw->trace_state = pb_slice(link->trace_state);
        raw->flags = link->flags;
        raw->dropped_attributes = link->dropped_attributes_count;
        *next = raw;
        next = &raw->next;
    }
    return 0;
}

static int convert_span(struct arena *arena, const Mcpd__Otlp__Span *from, struct raw_span *to)
{
    *to = (struct raw_span){
        .trace_id = raw_id_from_bytes(pb_slice(from->trace_id), 16),
        .span_id = raw_id_from_bytes(pb_slice(from->span_id), 8),
        .parent_id = raw_id_from_bytes(pb_slice(from->parent_span_id), 8),
        .name = pb_slice(from->name),
        .trace_state = pb_slice(from->trace_state),
        .kind = from->kind,
        .start_ns = from->start_time_unix_nano,
        .end_ns = from->end_time_unix_nano,
        .flags = from->flags,
        .dropped_attributes = from->dropped_attributes_count,
        .dropped_events = from->dropped_events_count,
        .dropped_links = from->dropped_links_count,
    };
    if (from->status) {
        to->status = from->status->code;
        to->status_message = pb_slice(from->status->message);
    }
    if (pb_any_members(arena, from->attributes, from->n_attributes, &to->attributes) == -1)
        return -1;
    if (convert_events(arena, from, to) == -1)
        return -1;
    return convert_links(arena, from, to);
}

enum batch_result otlp_pb_span(struct maker *maker, struct slice message)
{
    struct raw_span raw;
    const Mcpd__Otlp__Span *span =
        pb_unpack(&mcpd__otlp__span__descriptor, &maker->scratch, message);
    if (!span || convert_span(&maker->scratch, span, &raw) == -1)
        return otlp_pb_failed(maker, &maker->scratch, "span");
    return raw_span_add(maker, &raw);
}
