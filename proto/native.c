// SPDX-License-Identifier: MIT
/*
 * The body is read into a value tree, its events into raw_spans by tables of field names. Only
 * spans are taken so far; every other type is rejected as an event.
 */
#include "proto/native.h"

#include <inttypes.h>

#include "proto/fields.h"
#include "proto/idem.h"
#include "proto/json_read.h"
#include "proto/raw_span.h"

#define EVENT_BYTES_MAX ((size_t)1024 * 1024)
#define ATTRIBUTES_MAX  256
#define KEY_BYTES_MAX   256
#define EVENT_DEPTH_MAX 16

struct decoder {
    struct batch *batch;
    struct span_maker maker;
    struct err *err;
};

/* Spans */

static int read_id(struct value *value, struct raw_id *id, size_t len)
{
    if (value->type == VALUE_BYTES)
        *id = raw_id_from_bytes(value->text, len);
    else if (value->type == VALUE_TEXT)
        *id = raw_id_from_hex(value->text, len);
    else
        return -1;
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

/* One of the names, in any case, or its number. */
static int read_name(struct fields_reader *reader, struct value *value, const char *const *names,
                     int64_t *number)
{
    if (value->type != VALUE_TEXT)
        return field_i64(reader, value, number);
    for (int64_t i = 0; names[i]; i++) {
        if (slice_equals_nocase(value->text, names[i])) {
            *number = i;
            return 0;
        }
    }
    return -1;
}

static int field_kind(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"unspecified", "internal", "server", "client",
                                        "producer",    "consumer", NULL};
    return read_name(reader, value, names, field);
}

static int field_status(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"unset", "ok", "error", NULL};
    return read_name(reader, value, names, field);
}

static const struct field event_fields[] = {
    {"ts_ns", field_u64, offsetof(struct raw_event, time_ns)},
    {"name", field_text, offsetof(struct raw_event, name)},
    {"attrs", field_map, offsetof(struct raw_event, attributes)},
    {0},
};

static const struct field link_fields[] = {
    {"trace_id", field_trace_id, offsetof(struct raw_link, trace_id)},
    {"span_id", field_span_id, offsetof(struct raw_link, span_id)},
    {"attrs", field_map, offsetof(struct raw_link, attributes)},
    {0},
};

static int field_events(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_event **next = field;
    if (value->type != VALUE_ARRAY)
        return -1;
    for (struct value *item = value->first; item; item = item->next) {
        struct raw_event *event = arena_zalloc(reader->arena, sizeof(*event));
        if (!event || fields_read(reader, item, event_fields, event) == -1)
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
        if (!link || fields_read(reader, item, link_fields, link) == -1)
            return -1;
        *next = link;
        next = &link->next;
    }
    return 0;
}

static const struct field span_fields[] = {
    {"id", field_text, offsetof(struct raw_span, id)},
    {"trace_id", field_trace_id, offsetof(struct raw_span, trace_id)},
    {"span_id", field_span_id, offsetof(struct raw_span, span_id)},
    {"parent_id", field_span_id, offsetof(struct raw_span, parent_id)},
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

/* Which code a field of the wrong type gives. */
static enum reject_code wrong_code(struct slice key)
{
    static const struct {
        const char *key;
        enum reject_code code;
    } rows[] = {{"trace_id", REJECT_BAD_ID},  {"span_id", REJECT_BAD_ID},
                {"parent_id", REJECT_BAD_ID}, {"start_ns", REJECT_BAD_TIME},
                {"end_ns", REJECT_BAD_TIME},  {"ts_ns", REJECT_BAD_TIME}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (slice_equals(key, rows[i].key))
            return rows[i].code;
    return REJECT_BAD_VALUE;
}

static enum batch_result add_span(struct decoder *self, struct value *event)
{
    struct fields_reader reader = {.arena = &self->maker.scratch};
    struct raw_span raw = {0};
    if (fields_read(&reader, event, span_fields, &raw) == -1) {
        struct err reason;
        err_set(&reason, "%.*s is not of the type it must be", (int)reader.wrong.len,
                reader.wrong.data);
        span_maker_reject(&self->maker, wrong_code(reader.wrong), raw.id, reason.text);
        return BATCH_OK;
    }
    if (raw.name.len == 0) {
        span_maker_reject(&self->maker, REJECT_MISSING, raw.id, "no name");
        return BATCH_OK;
    }
    /* Who names an error means one. */
    if (raw.error.len > 0 && raw.status == SPAN_STATUS_UNSET)
        raw.status = SPAN_STATUS_ERROR;
    return span_maker_add(&self->maker, &raw, self->err);
}

/* Events */

/* Null, or what is too big about the members. */
static const char *check_members(const struct value *members)
{
    size_t count = 0;
    for (const struct value *member = members; member; member = member->next, count++)
        if (member->key.len > KEY_BYTES_MAX)
            return "an attribute's key is longer than 256 bytes";
    return count > ATTRIBUTES_MAX ? "more than 256 attributes" : NULL;
}

static const char *check_size(const struct value *event)
{
    if (event->source_len > EVENT_BYTES_MAX)
        return "the event is larger than 1 MiB";
    if (value_depth(event) > EVENT_DEPTH_MAX)
        return "nested deeper than 16";
    for (const struct value *member = event->first; member; member = member->next) {
        bool is_attrs = slice_equals(member->key, "attrs") && member->type == VALUE_MAP;
        const char *finding = is_attrs ? check_members(member->first) : NULL;
        if (finding)
            return finding;
    }
    return NULL;
}

struct event_head {
    struct slice type;
    struct slice id;
};

static const struct field head_fields[] = {
    {"type", field_text, offsetof(struct event_head, type)},
    {"id", field_text, offsetof(struct event_head, id)},
    {0},
};

static enum batch_result add_event(struct decoder *self, struct value *event)
{
    struct fields_reader reader = {.arena = &self->maker.scratch};
    struct event_head head = {0};
    if (event->type != VALUE_MAP) {
        span_maker_reject(&self->maker, REJECT_BAD_TYPE, head.id, "an event is an object");
        return BATCH_OK;
    }
    if (fields_read(&reader, event, head_fields, &head) == -1)
        head.type = (struct slice){0};
    const char *finding = check_size(event);
    if (finding) {
        span_maker_reject(&self->maker, REJECT_TOO_BIG, head.id, finding);
        return BATCH_OK;
    }
    if (slice_equals(head.type, "span"))
        return add_span(self, event);
    span_maker_reject(&self->maker, REJECT_BAD_TYPE, head.id, "type must be span");
    return BATCH_OK;
}

/* The batch */

struct envelope {
    int64_t schema;
    struct slice idempotency_key;
    struct value *resource;
    struct value *events; /* the array itself: an empty one is a batch, none is not */
};

static const struct field envelope_fields[] = {
    {"schema", field_i64, offsetof(struct envelope, schema)},
    {"idempotency_key", field_text, offsetof(struct envelope, idempotency_key)},
    {"resource", field_map, offsetof(struct envelope, resource)},
    {"events", field_value, offsetof(struct envelope, events)},
    {0},
};

static enum batch_result read_envelope(struct decoder *self, struct value *body,
                                       struct envelope *envelope)
{
    struct fields_reader reader = {.arena = &self->maker.scratch};
    *envelope = (struct envelope){.schema = 1};
    if (fields_read(&reader, body, envelope_fields, envelope) == -1) {
        if (slice_equals(reader.wrong, "idempotency_key"))
            return err_set(self->err, "idempotency_key must be a text"), BATCH_BAD_KEY;
        err_set(self->err, "a batch is an object with schema 1 and a list of events");
        return BATCH_MALFORMED;
    }
    if (envelope->schema != 1) {
        err_set(self->err, "schema %" PRId64 " is not known, only 1", envelope->schema);
        return BATCH_MALFORMED;
    }
    if (!envelope->events || envelope->events->type != VALUE_ARRAY) {
        err_set(self->err, "a batch has a list of events");
        return BATCH_MALFORMED;
    }
    return BATCH_OK;
}

static enum batch_result keep_key(struct batch *batch, struct slice given, struct err *err)
{
    struct slice key;
    if (!given.data)
        return BATCH_OK;
    if (idem_check(given, &key, err) == -1)
        return BATCH_BAD_KEY;
    char *copy = arena_copy(&batch->arena, key.data, key.len);
    if (!copy)
        return BATCH_TOO_LARGE;
    batch->idempotency_key = (struct slice){copy, key.len};
    return BATCH_OK;
}

static enum batch_result check_count(const struct value *events, struct err *err)
{
    size_t count = 0;
    for (const struct value *event = events; event; event = event->next)
        count++;
    if (count <= BATCH_NATIVE_EVENTS_MAX)
        return BATCH_OK;
    err_set(err, "%zu events, at most %d are taken in a batch", count, BATCH_NATIVE_EVENTS_MAX);
    return BATCH_TOO_MANY_EVENTS;
}

static enum batch_result decode_body(struct decoder *self, struct value *body)
{
    struct envelope envelope;
    enum batch_result result = read_envelope(self, body, &envelope);
    if (result == BATCH_OK)
        result = keep_key(self->batch, envelope.idempotency_key, self->err);
    if (result == BATCH_OK)
        result = check_count(envelope.events->first, self->err);
    if (result != BATCH_OK)
        return result;
    span_maker_resource(&self->maker, envelope.resource);
    for (struct value *event = envelope.events->first; event && result == BATCH_OK;
         event = event->next)
        result = add_event(self, event);
    return result;
}

enum batch_result native_json(struct batch *batch, struct slice body,
                              const struct batch_policy *policy, struct err *err)
{
    struct arena tree;
    struct value root;
    struct decoder decoder = {.batch = batch, .err = err};
    arena_init(&tree, json_tree_max(body.len));
    enum batch_result result = json_read(&tree, body, &root, err);
    if (result == BATCH_OK) {
        span_maker_init(&decoder.maker, batch, policy, body.len);
        result = decode_body(&decoder, &root);
        span_maker_fini(&decoder.maker);
    }
    arena_fini(&tree);
    return result;
}
