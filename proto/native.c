// SPDX-License-Identifier: MIT
/*
 * The body is read into a value tree, JSON and msgpack alike, and its events into structs by tables
 * of field names, one table a type.
 */
#include "proto/native.h"

#include <inttypes.h>

#include "proto/idem.h"
#include "proto/json_read.h"
#include "proto/msgpack_read.h"
#include "proto/native_types.h"

#define EVENT_BYTES_MAX ((size_t)1024 * 1024)
#define ATTRIBUTES_MAX  256
#define KEY_BYTES_MAX   256
#define EVENT_DEPTH_MAX 16

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

static const struct {
    const char *name;
    native_type *add;
} types[EVENT_TYPE_COUNT] = {
    [EVENT_SPAN] = {"span", native_span},       [EVENT_LOG] = {"log", native_log},
    [EVENT_METRIC] = {"metric", native_metric}, [EVENT_SCORE] = {"score", native_score},
    [EVENT_RUN] = {"run", native_run},
};

/* Null where the type is unknown, or not taken: *why tells. */
static native_type *find_type(const struct batch_policy *policy, struct slice name,
                              const char **why)
{
    unsigned taken = policy->types ? policy->types : EVENT_BIT(EVENT_SPAN);
    *why = "type must be span, log, metric, score or run";
    for (int i = 0; i < EVENT_TYPE_COUNT; i++) {
        if (!slice_equals(name, types[i].name))
            continue;
        if (taken & EVENT_BIT(i))
            return types[i].add;
        *why = "events of this type are not taken with this key, or by this daemon";
    }
    return NULL;
}

static enum batch_result add_event(struct maker *maker, struct value *event)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    struct event_head head = {0};
    struct finding finding = {REJECT_BAD_TYPE, "an event is an object"};
    native_type *add = NULL;
    if (event->type == VALUE_MAP) {
        if (fields_read(&reader, event, head_fields, &head) == -1)
            head.type = (struct slice){0};
        finding = (struct finding){REJECT_TOO_BIG, check_size(event)};
    }
    if (!finding.message) {
        finding.code = REJECT_BAD_TYPE;
        add = find_type(maker->policy, head.type, &finding.message);
    }
    if (add)
        return add(maker, event);
    maker_reject(maker, finding.code, head.id, finding.message);
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

static enum batch_result read_envelope(struct maker *maker, struct value *body,
                                       struct envelope *envelope)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    *envelope = (struct envelope){.schema = 1};
    if (fields_read(&reader, body, envelope_fields, envelope) == -1) {
        if (slice_equals(reader.wrong, "idempotency_key")) {
            err_set(maker->err, "idempotency_key must be a text");
            return BATCH_BAD_KEY;
        }
        err_set(maker->err, "a batch is an object with schema 1 and a list of events");
        return BATCH_MALFORMED;
    }
    if (envelope->schema != 1) {
        err_set(maker->err, "schema %" PRId64 " is not known, only 1", envelope->schema);
        return BATCH_MALFORMED;
    }
    if (!envelope->events || envelope->events->type != VALUE_ARRAY) {
        err_set(maker->err, "a batch has a list of events");
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

static enum batch_result decode_tree(struct maker *maker, struct value *body)
{
    struct envelope envelope;
    enum batch_result result = read_envelope(maker, body, &envelope);
    if (result == BATCH_OK)
        result = keep_key(maker->batch, envelope.idempotency_key, maker->err);
    if (result == BATCH_OK)
        result = check_count(envelope.events->first, maker->err);
    if (result != BATCH_OK)
        return result;
    maker_resource(maker, envelope.resource);
    for (struct value *event = envelope.events->first; event && result == BATCH_OK;
         event = event->next) {
        arena_reset(&maker->scratch);
        maker->item = event;
        result = add_event(maker, event);
    }
    return result;
}

typedef enum batch_result read_tree(struct arena *arena, struct slice body, struct value *out,
                                    struct err *err);

static enum batch_result decode(read_tree *read, bool is_text, struct batch *batch,
                                struct slice body, const struct batch_policy *policy,
                                struct err *err)
{
    struct arena tree;
    struct value root;
    struct maker maker;
    arena_init(&tree, json_tree_max(body.len));
    enum batch_result result = read(&tree, body, &root, err);
    if (result == BATCH_OK) {
        maker_init(&maker, batch, policy, body.len, err);
        maker.text = is_text ? body : (struct slice){0};
        result = decode_tree(&maker, &root);
        maker_fini(&maker);
    }
    arena_fini(&tree);
    return result;
}

enum batch_result native_json(struct batch *batch, struct slice body,
                              const struct batch_policy *policy, struct err *err)
{
    return decode(json_read, true, batch, body, policy, err);
}

enum batch_result native_msgpack(struct batch *batch, struct slice body,
                                 const struct batch_policy *policy, struct err *err)
{
    return decode(msgpack_read, false, batch, body, policy, err);
}
