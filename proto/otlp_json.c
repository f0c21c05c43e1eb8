// SPDX-License-Identifier: MIT
/*
 * The body is read into a value tree, and its objects into structs by tables of field names. The
 * envelopes are the same for all signals but for their names.
 *
 * As lenient as what else is out there: keys in snake_case, names of enums, numbers as texts and
 * texts of digits as numbers. An item with a field of the wrong type is rejected alone; an envelope
 * with one makes the body malformed.
 */
#include "proto/otlp_json.h"

#include "proto/json_any.h"
#include "proto/json_read.h"
#include "proto/otlp_json_items.h"

/* A container's two parts; each signal has tables that say how they are called. */
struct envelope {
    struct value *head; /* a resource or scope */
    struct value *list;
};

struct signal {
    otlp_json_item *decode_item;
    struct field request[2];
    struct field resource[3];
    struct field scope[3];
};

#define SIGNAL(item, resources, scopes, items)                           \
    {                                                                    \
        item, {{resources, field_list, 0}, {0}},                         \
            {{"resource", field_value, offsetof(struct envelope, head)}, \
             {scopes, field_list, offsetof(struct envelope, list)},      \
             {0}},                                                       \
        {                                                                \
            {"scope", field_value, offsetof(struct envelope, head)},     \
                {items, field_list, offsetof(struct envelope, list)},    \
            {                                                            \
                0                                                        \
            }                                                            \
        }                                                                \
    }

static const struct signal traces = SIGNAL(otlp_json_span, "resourceSpans", "scopeSpans", "spans");
static const struct signal logs = SIGNAL(otlp_json_log, "resourceLogs", "scopeLogs", "logRecords");
static const struct signal metrics =
    SIGNAL(otlp_json_metric, "resourceMetrics", "scopeMetrics", "metrics");

struct decoder {
    struct maker maker;
    struct fields_reader fields; /* of the envelopes; reads into the tree's memory */
    const struct signal *signal;
};

int otlp_json_enum(struct fields_reader *reader, struct value *value, const char *prefix,
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

static void say_wrong(struct err *err, const char *where, const struct fields_reader *reader)
{
    struct slice key = reader->wrong; /* a name we know, or empty */
    if (key.len == 0)
        key = slice_of("a value");
    err_set(err, "%s: %.*s is not of the type it must be", where, SLICE_ARGS(key));
}

static enum batch_result fail(struct maker *maker, const char *where,
                              const struct fields_reader *reader)
{
    if (reader->is_full) {
        err_set(maker->err, "%s: takes too much memory", where);
        return BATCH_TOO_LARGE;
    }
    say_wrong(maker->err, where, reader);
    return BATCH_MALFORMED;
}

enum batch_result otlp_json_wrong(struct maker *maker, const struct fields_reader *reader,
                                  const char *what)
{
    struct err reason;
    if (reader->is_full)
        return fail(maker, what, reader);
    say_wrong(&reason, what, reader);
    maker_reject(maker, REJECT_BAD_VALUE, (struct slice){0}, reason.text);
    return BATCH_OK;
}

static const struct field scope_fields[] = {
    {"name", field_text, offsetof(struct raw_scope, name)},
    {"version", field_text, offsetof(struct raw_scope, version)},
    {"attributes", json_any_attributes, offsetof(struct raw_scope, attributes)},
    {0},
};

static enum batch_result decode_scope(struct decoder *self, struct value *value)
{
    struct envelope envelope = {0};
    struct raw_scope scope = {0};
    enum batch_result result = BATCH_OK;
    arena_reset(&self->maker.scratch);
    if (fields_read(&self->fields, value, self->signal->scope, &envelope) == -1)
        return fail(&self->maker, "list of a scope", &self->fields);
    if (envelope.head && fields_read(&self->fields, envelope.head, scope_fields, &scope) == -1)
        return fail(&self->maker, "scope", &self->fields);
    maker_scope(&self->maker, &scope);
    for (struct value *item = envelope.list; item && result == BATCH_OK; item = item->next) {
        arena_reset(&self->maker.scratch);
        self->maker.item = item;
        result = self->signal->decode_item(&self->maker, item);
    }
    return result;
}

static const struct field resource_fields[] = {{"attributes", json_any_attributes, 0}, {0}};

static enum batch_result decode_resource(struct decoder *self, struct value *value)
{
    struct envelope envelope = {0};
    struct value *members = NULL;
    enum batch_result result = BATCH_OK;
    arena_reset(&self->maker.scratch);
    if (fields_read(&self->fields, value, self->signal->resource, &envelope) == -1)
        return fail(&self->maker, "list of a resource", &self->fields);
    if (envelope.head && fields_read(&self->fields, envelope.head, resource_fields, &members) == -1)
        return fail(&self->maker, "resource", &self->fields);
    maker_resource(&self->maker, members);
    for (struct value *scope = envelope.list; scope && result == BATCH_OK; scope = scope->next)
        result = decode_scope(self, scope);
    return result;
}

/* Whether the request has another signal's list and not this one's. As unknown fields are passed
 * over it would be a success that stores nothing. */
static bool is_misdirected(struct decoder *self, struct value *request)
{
    static const struct {
        const struct signal *signal;
        const char *path;
    } rows[] = {{&traces, "/v1/traces"}, {&logs, "/v1/logs"}, {&metrics, "/v1/metrics"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct value *list = NULL;
        if (rows[i].signal == self->signal ||
            (fields_read(&self->fields, request, rows[i].signal->request, &list) == 0 && !list))
            continue;
        err_set(self->maker.err, "no %s, but %s; is it meant for %s", self->signal->request[0].name,
                rows[i].signal->request[0].name, rows[i].path);
        return true;
    }
    return false;
}

static enum batch_result decode_tree(struct decoder *self, struct value *request)
{
    struct value *resources = NULL;
    enum batch_result result = BATCH_OK;
    if (fields_read(&self->fields, request, self->signal->request, &resources) == -1)
        return fail(&self->maker, "request", &self->fields);
    if (!resources && is_misdirected(self, request))
        return BATCH_MALFORMED;
    for (struct value *item = resources; item && result == BATCH_OK; item = item->next)
        result = decode_resource(self, item);
    return result;
}

static enum batch_result decode_request(const struct signal *signal, struct batch *batch,
                                        struct slice body, const struct batch_policy *policy,
                                        struct err *err)
{
    struct arena tree;
    struct value request;
    struct decoder decoder = {.signal = signal};
    arena_init(&tree, json_tree_max(body.len));
    enum batch_result result = json_read(&tree, body, &request, err);
    if (result == BATCH_OK) {
        decoder.fields = (struct fields_reader){.arena = &tree, .is_camel = true};
        maker_init(&decoder.maker, batch, policy, body.len, err);
        decoder.maker.text = body;
        result = decode_tree(&decoder, &request);
        maker_fini(&decoder.maker);
    }
    arena_fini(&tree);
    return result;
}

enum batch_result otlp_json_traces(struct batch *batch, struct slice body,
                                   const struct batch_policy *policy, struct err *err)
{
    return decode_request(&traces, batch, body, policy, err);
}

enum batch_result otlp_json_logs(struct batch *batch, struct slice body,
                                 const struct batch_policy *policy, struct err *err)
{
    return decode_request(&logs, batch, body, policy, err);
}

enum batch_result otlp_json_metrics(struct batch *batch, struct slice body,
                                    const struct batch_policy *policy, struct err *err)
{
    return decode_request(&metrics, batch, body, policy, err);
}
