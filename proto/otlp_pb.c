// SPDX-License-Identifier: MIT
/*
 * The envelopes (request, resource, scope) are stepped through on the wire; protobuf-c unpacks one
 * span at a time into memory that the next one reuses. So a body never exists as a whole tree, and
 * the library's many small allocations are moves of a pointer.
 *
 * Of several resources in one envelope (or scopes) the last one counts, wherever it stands.
 */
#include "proto/otlp_pb.h"

#include <string.h>

#include "otlp.pb-c.h"
#include "proto/pb_wire.h"
#include "proto/prewalk.h"
#include "proto/raw_span.h"

struct decoder {
    struct span_maker maker;
    struct err *err;
};

static void *allocate(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void release(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

static void *unpack(const ProtobufCMessageDescriptor *schema, struct arena *arena,
                    struct slice message)
{
    ProtobufCAllocator allocator = {allocate, release, arena};
    return protobuf_c_message_unpack(schema, &allocator, message.len,
                                     (const uint8_t *)message.data);
}

static struct slice slice_of_bytes(ProtobufCBinaryData bytes)
{
    return (struct slice){(const char *)bytes.data, bytes.len};
}

/* Values; each returns -1 over the arena's maximum. Recursion is bounded by the pre-walk. */

static int convert_members(struct arena *arena, Mcpd__Otlp__KeyValue **pairs, size_t count,
                           struct value **out);

static int convert_value(struct arena *arena, const Mcpd__Otlp__AnyValue *from, struct value *to);

static int convert_array(struct arena *arena, const Mcpd__Otlp__ArrayValue *from, struct value *to)
{
    struct value_list list = {0};
    for (size_t i = 0; i < from->n_values; i++) {
        struct value *item = value_append(arena, &list);
        if (!item || convert_value(arena, from->values[i], item) == -1)
            return -1;
    }
    to->type = VALUE_ARRAY;
    to->first = list.first;
    return 0;
}

static int convert_value(struct arena *arena, const Mcpd__Otlp__AnyValue *from, struct value *to)
{
    to->type = VALUE_NULL;
    if (!from)
        return 0;
    switch (from->value_case) {
    case MCPD__OTLP__ANY_VALUE__VALUE_STRING_VALUE:
        to->type = VALUE_TEXT;
        to->text = slice_of_bytes(from->string_value);
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_BYTES_VALUE:
        to->type = VALUE_BYTES;
        to->text = slice_of_bytes(from->bytes_value);
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
        to->type = VALUE_BOOL;
        to->boolean = from->bool_value;
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_INT_VALUE:
        to->type = VALUE_INT;
        to->integer = from->int_value;
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
        to->type = VALUE_DOUBLE;
        to->number = from->double_value;
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_ARRAY_VALUE:
        return convert_array(arena, from->array_value, to);
    case MCPD__OTLP__ANY_VALUE__VALUE_KVLIST_VALUE:
        to->type = VALUE_MAP;
        return convert_members(arena, from->kvlist_value->values, from->kvlist_value->n_values,
                               &to->first);
    default:
        return 0;
    }
}

static int convert_members(struct arena *arena, Mcpd__Otlp__KeyValue **pairs, size_t count,
                           struct value **out)
{
    struct value_list list = {0};
    for (size_t i = 0; i < count; i++) {
        struct value *member = value_append(arena, &list);
        if (!member || convert_value(arena, pairs[i]->value, member) == -1)
            return -1;
        member->key = slice_of_bytes(pairs[i]->key);
    }
    *out = list.first;
    return 0;
}

/* Spans */

static int convert_events(struct arena *arena, const Mcpd__Otlp__Span *from, struct raw_span *to)
{
    struct raw_event **next = &to->events;
    for (size_t i = 0; i < from->n_events; i++) {
        const Mcpd__Otlp__SpanEvent *event = from->events[i];
        struct raw_event *raw = arena_zalloc(arena, sizeof(*raw));
        if (!raw ||
            convert_members(arena, event->attributes, event->n_attributes, &raw->attributes) == -1)
            return -1;
        raw->time_ns = event->time_unix_nano;
        raw->name = slice_of_bytes(event->name);
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
            convert_members(arena, link->attributes, link->n_attributes, &raw->attributes) == -1)
            return -1;
        raw->trace_id = raw_id_from_bytes(slice_of_bytes(link->trace_id), 16);
        raw->span_id = raw_id_from_bytes(slice_of_bytes(link->span_id), 8);
        raw->trace_state = slice_of_bytes(link->trace_state);
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
        .trace_id = raw_id_from_bytes(slice_of_bytes(from->trace_id), 16),
        .span_id = raw_id_from_bytes(slice_of_bytes(from->span_id), 8),
        .parent_id = raw_id_from_bytes(slice_of_bytes(from->parent_span_id), 8),
        .name = slice_of_bytes(from->name),
        .trace_state = slice_of_bytes(from->trace_state),
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
        to->status_message = slice_of_bytes(from->status->message);
    }
    if (convert_members(arena, from->attributes, from->n_attributes, &to->attributes) == -1)
        return -1;
    if (convert_events(arena, from, to) == -1)
        return -1;
    return convert_links(arena, from, to);
}

static enum batch_result fail(struct decoder *self, const struct arena *arena, const char *what)
{
    /* The library does not say which of the two it was; a full arena refuses a byte more. */
    if (arena->total_bytes > arena->max_bytes / 2) {
        err_set(self->err, "protobuf: a %s takes too much memory", what);
        return BATCH_TOO_LARGE;
    }
    err_set(self->err, "protobuf: a %s that cannot be decoded", what);
    return BATCH_MALFORMED;
}

static enum batch_result decode_span(struct decoder *self, struct slice message)
{
    struct arena *scratch = &self->maker.scratch;
    struct raw_span raw;
    const Mcpd__Otlp__Span *span = unpack(&mcpd__otlp__span__descriptor, scratch, message);
    if (!span || convert_span(scratch, span, &raw) == -1)
        return fail(self, scratch, "span");
    return span_maker_add(&self->maker, &raw, self->err);
}

/* Envelopes */

/* The last message field of this number; false when there is none. */
static bool find_message(struct slice message, uint32_t number, struct slice *out)
{
    struct pb_field field;
    bool is_found = false;
    for (size_t at = 0; at < message.len && pb_field_read(message, &at, &field) == 0;) {
        if (field.number != number || field.type != PB_BYTES)
            continue;
        *out = field.bytes;
        is_found = true;
    }
    return is_found;
}

typedef enum batch_result decode_message(struct decoder *self, struct slice message);

static enum batch_result for_each(struct decoder *self, struct slice message, uint32_t number,
                                  decode_message *decode)
{
    struct pb_field field;
    enum batch_result result = BATCH_OK;
    for (size_t at = 0; at < message.len && result == BATCH_OK;) {
        if (pb_field_read(message, &at, &field) == -1) {
            err_set(self->err, "protobuf: no field at byte %zu of a message", at);
            return BATCH_MALFORMED;
        }
        if (field.number == number && field.type == PB_BYTES)
            result = decode(self, field.bytes);
    }
    return result;
}

static enum batch_result decode_scope(struct decoder *self, struct slice message)
{
    enum { SCOPE = 1, SPANS = 2 };
    struct arena *scratch = &self->maker.scratch;
    struct raw_scope scope = {0};
    struct slice part;
    if (find_message(message, SCOPE, &part)) {
        const Mcpd__Otlp__InstrumentationScope *from =
            unpack(&mcpd__otlp__instrumentation_scope__descriptor, scratch, part);
        if (!from ||
            convert_members(scratch, from->attributes, from->n_attributes, &scope.attributes) == -1)
            return fail(self, scratch, "scope");
        scope.name = slice_of_bytes(from->name);
        scope.version = slice_of_bytes(from->version);
    }
    span_maker_scope(&self->maker, &scope);
    return for_each(self, message, SPANS, decode_span);
}

static enum batch_result decode_resource(struct decoder *self, struct slice message)
{
    enum { RESOURCE = 1, SCOPES = 2 };
    struct arena *memory = &self->maker.resource_memory;
    struct value *members = NULL;
    struct slice part;
    arena_reset(memory);
    if (find_message(message, RESOURCE, &part)) {
        const Mcpd__Otlp__Resource *from = unpack(&mcpd__otlp__resource__descriptor, memory, part);
        if (!from || convert_members(memory, from->attributes, from->n_attributes, &members) == -1)
            return fail(self, memory, "resource");
    }
    span_maker_resource(&self->maker, members);
    return for_each(self, message, SCOPES, decode_scope);
}

enum batch_result otlp_pb_traces(struct batch *batch, struct slice body,
                                 const struct batch_policy *policy, struct err *err)
{
    enum { RESOURCES = 1 };
    enum batch_result result = prewalk_protobuf(&mcpd__otlp__traces_request__descriptor, body, err);
    if (result != BATCH_OK)
        return result;
    struct decoder decoder = {.err = err};
    span_maker_init(&decoder.maker, batch, policy, body.len);
    result = for_each(&decoder, body, RESOURCES, decode_resource);
    span_maker_fini(&decoder.maker);
    return result;
}
