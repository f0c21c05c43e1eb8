// SPDX-License-Identifier: MIT
/*
 * The body is read into a value tree, and its objects into the structs of raw_span by tables. An
 * attribute, {"key":"k","value":{"intValue":"1"}}, is turned in place into what it means: a member
 * k with the integer 1.
 *
 * As lenient as what else is out there: keys in snake_case, names of enums, numbers as texts and
 * texts of digits as numbers. A span with a field of the wrong type is rejected alone; an envelope
 * with one makes the body malformed.
 */
#include "proto/otlp_json.h"

#include "proto/codec.h"
#include "proto/fields.h"
#include "proto/json_read.h"
#include "proto/raw_span.h"

/* Values */

static int convert_value(struct fields_reader *reader, struct value *value);

/* Takes over what another node is, keeping its own place and key. */
static void become(struct value *value, const struct value *other)
{
    struct value copy = *other;
    copy.key = value->key;
    copy.next = value->next;
    *value = copy;
}

struct pair {
    struct slice key;
    struct value *value;
};

static const struct field pair_fields[] = {
    {"key", field_text, offsetof(struct pair, key)},
    {"value", field_value, offsetof(struct pair, value)},
    {0},
};

/* An array of {key, value} objects, in place, to a list of members. */
static int convert_members(struct fields_reader *reader, struct value *first)
{
    for (struct value *member = first; member; member = member->next) {
        struct pair pair = {0};
        if (fields_read(reader, member, pair_fields, &pair) == -1)
            return -1;
        if (pair.value && convert_value(reader, pair.value) == -1)
            return -1;
        member->key = pair.key;
        become(member, pair.value ? pair.value : &(struct value){.type = VALUE_NULL});
    }
    return 0;
}

/* A struct value * that gets the members of an attribute list. */
static int field_attributes(struct fields_reader *reader, struct value *value, void *field)
{
    if (field_list(reader, value, field) == -1)
        return -1;
    return convert_members(reader, value->first);
}

/* What the one key of an AnyValue says its value is; each reader changes the value in place. */

static int any_text(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    *(struct value **)field = value;
    return value->type == VALUE_TEXT ? 0 : -1;
}

static int any_bool(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    *(struct value **)field = value;
    return value->type == VALUE_BOOL ? 0 : -1;
}

static int any_int(struct fields_reader *reader, struct value *value, void *field)
{
    int64_t number;
    if (field_i64(reader, value, &number) == -1)
        return -1;
    value->type = VALUE_INT;
    value->integer = number;
    *(struct value **)field = value;
    return 0;
}

static int any_double(struct fields_reader *reader, struct value *value, void *field)
{
    double number;
    if (field_double(reader, value, &number) == -1)
        return -1;
    value->type = VALUE_DOUBLE;
    value->number = number;
    *(struct value **)field = value;
    return 0;
}

static int any_bytes(struct fields_reader *reader, struct value *value, void *field)
{
    if (value->type != VALUE_TEXT)
        return -1;
    char *bytes = arena_alloc(reader->arena, value->text.len);
    if (!bytes) {
        reader->is_full = true;
        return -1;
    }
    long len = codec_base64_decode(value->text, bytes);
    if (len == -1)
        return -1;
    value->type = VALUE_BYTES;
    value->text = (struct slice){bytes, (size_t)len};
    *(struct value **)field = value;
    return 0;
}

static const struct field values_fields[] = {{"values", field_list, 0}, {0}};

static int any_array(struct fields_reader *reader, struct value *value, void *field)
{
    struct value *first = NULL;
    if (fields_read(reader, value, values_fields, &first) == -1)
        return -1;
    for (struct value *item = first; item; item = item->next)
        if (convert_value(reader, item) == -1)
            return -1;
    value->type = VALUE_ARRAY;
    value->first = first;
    *(struct value **)field = value;
    return 0;
}

static int any_map(struct fields_reader *reader, struct value *value, void *field)
{
    struct value *first = NULL;
    if (fields_read(reader, value, values_fields, &first) == -1 ||
        convert_members(reader, first) == -1)
        return -1;
    value->first = first;
    *(struct value **)field = value;
    return 0;
}

static const struct field any_fields[] = {
    {"stringValue", any_text, 0}, {"boolValue", any_bool, 0},
    {"intValue", any_int, 0},     {"doubleValue", any_double, 0},
    {"arrayValue", any_array, 0}, {"kvlistValue", any_map, 0},
    {"bytesValue", any_bytes, 0}, {0},
};

/* An AnyValue, in place. Without any key that we know it is a value without content. */
static int convert_value(struct fields_reader *reader, struct value *value)
{
    struct value *content = NULL;
    if (value->type == VALUE_NULL)
        return 0;
    if (fields_read(reader, value, any_fields, &content) == -1)
        return -1;
    become(value, content ? content : &(struct value){.type = VALUE_NULL});
    return 0;
}

/* Spans */

static int read_id(struct value *value, struct raw_id *id, size_t len)
{
    if (value->type != VALUE_TEXT)
        return -1;
    *id = raw_id_from_hex(value->text, len);
    return 0;
}

static int field_trace_id(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_id(value, field, 16);
}

static int field_span_id(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_id(value, field, 8);
}

/* A number, or prefix and one of the names, which stand in the order of their numbers. */
static int read_enum(struct fields_reader *reader, struct value *value, const char *prefix,
                     const char *const *names, int64_t *number)
{
    size_t prefix_len = slice_of(prefix).len;
    if (field_i64(reader, value, number) == 0)
        return 0;
    if (value->type != VALUE_TEXT || value->text.len < prefix_len ||
        !slice_equals((struct slice){value->text.data, prefix_len}, prefix))
        return -1;
    struct slice name = {value->text.data + prefix_len, value->text.len - prefix_len};
    for (int64_t i = 0; names[i]; i++) {
        if (slice_equals(name, names[i])) {
            *number = i;
            return 0;
        }
    }
    return -1;
}

static int field_kind(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT",
                                        "PRODUCER",    "CONSUMER", NULL};
    return read_enum(reader, value, "SPAN_KIND_", names, field);
}

static int field_status_code(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"UNSET", "OK", "ERROR", NULL};
    return read_enum(reader, value, "STATUS_CODE_", names, field);
}

static const struct field event_fields[] = {
    {"timeUnixNano", field_u64, offsetof(struct raw_event, time_ns)},
    {"name", field_text, offsetof(struct raw_event, name)},
    {"attributes", field_attributes, offsetof(struct raw_event, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_event, dropped_attributes)},
    {0},
};

static const struct field link_fields[] = {
    {"traceId", field_trace_id, offsetof(struct raw_link, trace_id)},
    {"spanId", field_span_id, offsetof(struct raw_link, span_id)},
    {"traceState", field_text, offsetof(struct raw_link, trace_state)},
    {"flags", field_u32, offsetof(struct raw_link, flags)},
    {"attributes", field_attributes, offsetof(struct raw_link, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_link, dropped_attributes)},
    {0},
};

static int field_events(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_event **next = field;
    if (value->type != VALUE_ARRAY)
        return -1;
    for (struct value *item = value->first; item; item = item->next) {
        struct raw_event *event = arena_zalloc(reader->arena, sizeof(*event));
        if (!event) {
            reader->is_full = true;
            return -1;
        }
        if (fields_read(reader, item, event_fields, event) == -1)
            return -1;
        *next = event;
        next = &event->next;
    }
    return 0;
}

static int field_links(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_link **next = field;
    if (value->type != VALUE_ARRAY)
        return -1;
    for (struct value *item = value->first; item; item = item->next) {
        struct raw_link *link = arena_zalloc(reader->arena, sizeof(*link));
        if (!link) {
            reader->is_full = true;
            return -1;
        }
        if (fields_read(reader, item, link_fields, link) == -1)
            return -1;
        *next = link;
        next = &link->next;
    }
    return 0;
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
    {"traceId", field_trace_id, offsetof(struct raw_span, trace_id)},
    {"spanId", field_span_id, offsetof(struct raw_span, span_id)},
    {"parentSpanId", field_span_id, offsetof(struct raw_span, parent_id)},
    {"traceState", field_text, offsetof(struct raw_span, trace_state)},
    {"name", field_text, offsetof(struct raw_span, name)},
    {"kind", field_kind, offsetof(struct raw_span, kind)},
    {"startTimeUnixNano", field_u64, offsetof(struct raw_span, start_ns)},
    {"endTimeUnixNano", field_u64, offsetof(struct raw_span, end_ns)},
    {"attributes", field_attributes, offsetof(struct raw_span, attributes)},
    {"droppedAttributesCount", field_u32, offsetof(struct raw_span, dropped_attributes)},
    {"events", field_events, offsetof(struct raw_span, events)},
    {"droppedEventsCount", field_u32, offsetof(struct raw_span, dropped_events)},
    {"links", field_links, offsetof(struct raw_span, links)},
    {"droppedLinksCount", field_u32, offsetof(struct raw_span, dropped_links)},
    {"status", field_status, 0},
    {"flags", field_u32, offsetof(struct raw_span, flags)},
    {0},
};

/* Envelopes */

struct decoder {
    struct span_maker maker;
    struct fields_reader fields;
    struct err *err;
};

static void say_wrong(struct err *err, const char *where, const struct fields_reader *reader)
{
    enum { SHOWN = 40 };
    struct slice key = reader->wrong;
    if (key.len == 0)
        key = slice_of("a value");
    err_set(err, "%s: %.*s is not of the type it must be", where,
            (int)(key.len < SHOWN ? key.len : SHOWN), key.data);
}

static enum batch_result fail(struct decoder *self, const char *where,
                              const struct fields_reader *reader)
{
    if (reader->is_full) {
        err_set(self->err, "%s: takes too much memory", where);
        return BATCH_TOO_LARGE;
    }
    say_wrong(self->err, where, reader);
    return BATCH_MALFORMED;
}

static enum batch_result decode_span(struct decoder *self, struct value *span)
{
    struct fields_reader reader = {.arena = &self->maker.scratch, .is_camel = true};
    struct raw_span raw = {0};
    struct err reason;
    if (fields_read(&reader, span, span_fields, &raw) == 0)
        return span_maker_add(&self->maker, &raw, self->err);
    if (reader.is_full)
        return fail(self, "span", &reader);
    say_wrong(&reason, "span", &reader);
    span_maker_reject(&self->maker, REJECT_BAD_VALUE, (struct slice){0}, reason.text);
    return BATCH_OK;
}

static const struct field scope_name_fields[] = {
    {"name", field_text, offsetof(struct raw_scope, name)},
    {"version", field_text, offsetof(struct raw_scope, version)},
    {"attributes", field_attributes, offsetof(struct raw_scope, attributes)},
    {0},
};

struct scope_spans {
    struct value *scope;
    struct value *spans;
};

static const struct field scope_spans_fields[] = {
    {"scope", field_value, offsetof(struct scope_spans, scope)},
    {"spans", field_list, offsetof(struct scope_spans, spans)},
    {0},
};

static enum batch_result decode_scope(struct decoder *self, struct value *envelope)
{
    struct scope_spans parts = {0};
    struct raw_scope scope = {0};
    enum batch_result result = BATCH_OK;
    if (fields_read(&self->fields, envelope, scope_spans_fields, &parts) == -1)
        return fail(self, "scopeSpans", &self->fields);
    if (parts.scope && fields_read(&self->fields, parts.scope, scope_name_fields, &scope) == -1)
        return fail(self, "scope", &self->fields);
    span_maker_scope(&self->maker, &scope);
    for (struct value *span = parts.spans; span && result == BATCH_OK; span = span->next)
        result = decode_span(self, span);
    return result;
}

struct resource_spans {
    struct value *resource;
    struct value *scopes;
};

static const struct field resource_spans_fields[] = {
    {"resource", field_value, offsetof(struct resource_spans, resource)},
    {"scopeSpans", field_list, offsetof(struct resource_spans, scopes)},
    {0},
};

static const struct field resource_fields[] = {{"attributes", field_attributes, 0}, {0}};

static enum batch_result decode_resource(struct decoder *self, struct value *envelope)
{
    struct resource_spans parts = {0};
    struct value *members = NULL;
    enum batch_result result = BATCH_OK;
    if (fields_read(&self->fields, envelope, resource_spans_fields, &parts) == -1)
        return fail(self, "resourceSpans", &self->fields);
    if (parts.resource &&
        fields_read(&self->fields, parts.resource, resource_fields, &members) == -1)
        return fail(self, "resource", &self->fields);
    span_maker_resource(&self->maker, members);
    for (struct value *scope = parts.scopes; scope && result == BATCH_OK; scope = scope->next)
        result = decode_scope(self, scope);
    return result;
}

static const struct field request_fields[] = {{"resourceSpans", field_list, 0}, {0}};

static enum batch_result decode_request(struct decoder *self, struct value *request)
{
    struct value *resources = NULL;
    enum batch_result result = BATCH_OK;
    if (fields_read(&self->fields, request, request_fields, &resources) == -1)
        return fail(self, "request", &self->fields);
    for (struct value *item = resources; item && result == BATCH_OK; item = item->next)
        result = decode_resource(self, item);
    return result;
}

enum batch_result otlp_json_traces(struct batch *batch, struct slice body,
                                   const struct batch_policy *policy, struct err *err)
{
    struct arena tree;
    struct value request;
    struct decoder decoder = {.err = err};
    arena_init(&tree, json_tree_max(body.len));
    enum batch_result result = json_read(&tree, body, &request, err);
    if (result == BATCH_OK) {
        decoder.fields = (struct fields_reader){.arena = &tree, .is_camel = true};
        span_maker_init(&decoder.maker, batch, policy, body.len);
        result = decode_request(&decoder, &request);
        span_maker_fini(&decoder.maker);
    }
    arena_fini(&tree);
    return result;
}
