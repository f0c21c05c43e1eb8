// SPDX-License-Identifier: MIT
/*
 * The envelopes (request, resource, scope), which are the same for all signals, are stepped through
 * on the wire; protobuf-c unpacks one item at a time into memory that the next one reuses. So a
 * body never exists as a whole tree, and the library's many small allocations are moves of a
 * pointer.
 *
 * Of several resources in one envelope (or scopes) the last one counts, wherever it stands.
 */
#include "proto/otlp_pb.h"

#include "proto/otlp_pb_items.h"
#include "proto/pb_any.h"
#include "proto/pb_wire.h"
#include "proto/prewalk.h"

/* Field numbers, alike in ResourceSpans, ResourceLogs, ... */
enum { REQUEST_RESOURCES = 1, RESOURCE_RESOURCE = 1, RESOURCE_SCOPES = 2 };
enum { SCOPE_SCOPE = 1, SCOPE_ITEMS = 2 };

/* Of a reason, so that a hint has room behind it. */
#define HINTED_LEN 200

struct decoder {
    struct maker maker;
    otlp_pb_item *decode_item;
};

enum batch_result otlp_pb_failed(struct maker *maker, const struct arena *arena, const char *what)
{
    /* The library does not say which of the two it was. */
    if (arena->total_bytes > arena->max_bytes / 2) {
        err_set(maker->err, "protobuf: a %s takes too much memory", what);
        return BATCH_TOO_LARGE;
    }
    err_set(maker->err, "protobuf: a %s that cannot be decoded", what);
    return BATCH_MALFORMED;
}

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
            err_set(self->maker.err, "protobuf: no field at byte %zu of a message", at);
            return BATCH_MALFORMED;
        }
        if (field.number == number && field.type == PB_BYTES)
            result = decode(self, field.bytes);
    }
    return result;
}

static enum batch_result decode_item(struct decoder *self, struct slice message)
{
    arena_reset(&self->maker.scratch);
    self->maker.message = message;
    return self->decode_item(&self->maker, message);
}

static enum batch_result decode_scope(struct decoder *self, struct slice message)
{
    struct arena *scratch = &self->maker.scratch;
    struct raw_scope scope = {0};
    struct slice part;
    arena_reset(scratch);
    if (find_message(message, SCOPE_SCOPE, &part)) {
        const Mcpd__Otlp__InstrumentationScope *from =
            pb_unpack(&mcpd__otlp__instrumentation_scope__descriptor, scratch, part);
        if (!from ||
            pb_any_members(scratch, from->attributes, from->n_attributes, &scope.attributes) == -1)
            return otlp_pb_failed(&self->maker, scratch, "scope");
        scope.name = pb_slice(from->name);
        scope.version = pb_slice(from->version);
    }
    maker_scope(&self->maker, &scope);
    return for_each(self, message, SCOPE_ITEMS, decode_item);
}

static enum batch_result decode_resource(struct decoder *self, struct slice message)
{
    struct arena *memory = &self->maker.resource_memory;
    struct value *members = NULL;
    struct slice part;
    arena_reset(memory);
    arena_reset(&self->maker.scratch);
    if (find_message(message, RESOURCE_RESOURCE, &part)) {
        const Mcpd__Otlp__Resource *from =
            pb_unpack(&mcpd__otlp__resource__descriptor, memory, part);
        if (!from || pb_any_members(memory, from->attributes, from->n_attributes, &members) == -1)
            return otlp_pb_failed(&self->maker, memory, "resource");
    }
    maker_resource(&self->maker, members);
    return for_each(self, message, RESOURCE_SCOPES, decode_scope);
}

struct signal {
    const ProtobufCMessageDescriptor *schema;
    otlp_pb_item *decode_item;
    const char *path;
};

enum { TRACES, LOGS, METRICS, SIGNAL_COUNT };
static const struct signal signals[SIGNAL_COUNT] = {
    [TRACES] = {&mcpd__otlp__traces_request__descriptor, otlp_pb_span, "/v1/traces"},
    [LOGS] = {&mcpd__otlp__logs_request__descriptor, otlp_pb_log, "/v1/logs"},
    [METRICS] = {&mcpd__otlp__metrics_request__descriptor, otlp_pb_metric, "/v1/metrics"},
};

/* Names the paths that a refused body fits, if any: nothing in it says what it is. */
static void add_hint(const struct signal *tried, struct slice body, struct err *err)
{
    const char *joint = "; is it meant for ";
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        if (&signals[i] == tried || prewalk_protobuf(signals[i].schema, body, NULL) != BATCH_OK)
            continue;
        struct err reason = *err;
        err_set(err, "%.*s%s%s", HINTED_LEN, reason.text, joint, signals[i].path);
        joint = " or ";
    }
}

static enum batch_result decode_request(const struct signal *signal, struct batch *batch,
                                        struct slice body, const struct batch_policy *policy,
                                        struct err *err)
{
    enum batch_result result = prewalk_protobuf(signal->schema, body, err);
    if (result == BATCH_OK) {
        struct decoder decoder = {.decode_item = signal->decode_item};
        maker_init(&decoder.maker, batch, policy, body.len, err);
        result = for_each(&decoder, body, REQUEST_RESOURCES, decode_resource);
        maker_fini(&decoder.maker);
    }
    if (result == BATCH_MALFORMED)
        add_hint(signal, body, err);
    return result;
}

enum batch_result otlp_pb_traces(struct batch *batch, struct slice body,
                                 const struct batch_policy *policy, struct err *err)
{
    return decode_request(&signals[TRACES], batch, body, policy, err);
}

enum batch_result otlp_pb_logs(struct batch *batch, struct slice body,
                               const struct batch_policy *policy, struct err *err)
{
    return decode_request(&signals[LOGS], batch, body, policy, err);
}

enum batch_result otlp_pb_metrics(struct batch *batch, struct slice body,
                                  const struct batch_policy *policy, struct err *err)
{
    return decode_request(&signals[METRICS], batch, body, policy, err);
}
