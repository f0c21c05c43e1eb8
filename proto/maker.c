// SPDX-License-Identifier: MIT
/*
 * The JSON of an item is first written into a buffer that all items of a body share and then copied
 * to the batch in one piece, as its length is not known before. Resource and scope are written once
 * and copied into each of their items.
 */
#include "proto/maker.h"

#include <string.h>

#include "proto/codec.h"

#define SCRATCH_MAX ((size_t)256 * 1024 * 1024)
#define JSON_MAX    ((size_t)256 * 1024 * 1024)
#define DAY_NS      (UINT64_C(86400) * 1000000000)

static struct raw_id without_zero(struct raw_id id, size_t len)
{
    static const uint8_t zero[TRACE_ID_LEN];
    if (id.state == RAW_ID_GOOD && memcmp(id.bytes, zero, len) == 0)
        id.state = RAW_ID_ZERO;
    return id;
}

struct raw_id raw_id_from_hex(struct slice text, size_t len)
{
    struct raw_id id = {.state = RAW_ID_ABSENT};
    if (text.len == 0)
        return id;
    id.state = codec_hex_decode(text, id.bytes, len) == 0 ? RAW_ID_GOOD : RAW_ID_BAD;
    return without_zero(id, len);
}

struct raw_id raw_id_from_bytes(struct slice bytes, size_t len)
{
    struct raw_id id = {.state = RAW_ID_ABSENT};
    if (bytes.len == 0)
        return id;
    id.state = bytes.len == len ? RAW_ID_GOOD : RAW_ID_BAD;
    if (id.state == RAW_ID_GOOD)
        memcpy(id.bytes, bytes.data, len);
    return without_zero(id, len);
}

bool raw_id_copy(const struct raw_id *id, uint8_t *out, size_t len)
{
    if (id->state != RAW_ID_GOOD)
        return false;
    memcpy(out, id->bytes, len);
    return true;
}

void raw_id_write(struct json_out *out, const char *key, const struct raw_id *id, size_t len)
{
    char hex[2 * TRACE_ID_LEN];
    if (id->state != RAW_ID_GOOD)
        return;
    codec_hex_encode(id->bytes, len, hex);
    json_out_text_member(out, key, (struct slice){hex, 2 * len});
}

void maker_init(struct maker *self, struct batch *batch, const struct batch_policy *policy,
                size_t body_len, struct err *err)
{
    *self = (struct maker){.batch = batch, .policy = policy, .err = err};
    batch_limit(batch, body_len);
    arena_init(&self->scratch, SCRATCH_MAX);
    arena_init(&self->resource_memory, SCRATCH_MAX);
    json_out_init(&self->attrs, JSON_MAX, &self->scratch);
    json_out_init(&self->content, JSON_MAX, &self->scratch);
    json_out_init(&self->extra, JSON_MAX, &self->scratch);
    json_out_init(&self->resource_json, JSON_MAX, &self->scratch);
    json_out_init(&self->scope_json, JSON_MAX, &self->scratch);
}

void maker_fini(struct maker *self)
{
    json_out_fini(&self->scope_json);
    json_out_fini(&self->resource_json);
    json_out_fini(&self->extra);
    json_out_fini(&self->content);
    json_out_fini(&self->attrs);
    arena_fini(&self->resource_memory);
    arena_fini(&self->scratch);
}

void maker_resource(struct maker *self, struct value *members)
{
    json_out_reset(&self->resource_json);
    json_out_reset(&self->scope_json);
    self->resource = (struct genai_found){0};
    genai_find(&self->resource, members);
    json_out_map_member(&self->resource_json, "resource", members);
}

void maker_scope(struct maker *self, const struct raw_scope *scope)
{
    struct json_out *out = &self->scope_json;
    json_out_reset(out);
    if (scope->name.len == 0 && scope->version.len == 0 && !scope->attributes)
        return;
    json_out_key(out, "scope");
    json_out_str(out, "{");
    json_out_text_member(out, "name", scope->name);
    json_out_text_member(out, "version", scope->version);
    json_out_map_member(out, "attributes", scope->attributes);
    json_out_str(out, "}");
}

struct finding maker_check_time(const struct maker *self, uint64_t ns)
{
    if (ns == 0)
        return (struct finding){REJECT_MISSING, "no time"};
    if (ns > self->policy->now_ns + DAY_NS)
        return (struct finding){REJECT_OUT_OF_RANGE, "the time is more than 24 h ahead"};
    if (ns < self->policy->oldest_ns)
        return (struct finding){REJECT_OUT_OF_RANGE, "the time is older than what is kept"};
    return (struct finding){0};
}

struct finding maker_check_ids(const struct raw_id *trace_id, const struct raw_id *span_id)
{
    if (trace_id->state == RAW_ID_BAD)
        return (struct finding){REJECT_BAD_ID, "a trace id is 16 bytes (32 hex digits)"};
    if (span_id->state == RAW_ID_BAD)
        return (struct finding){REJECT_BAD_ID, "a span id is 8 bytes (16 hex digits)"};
    return (struct finding){0};
}

struct event *maker_add(struct maker *self, enum event_type type)
{
    struct event *event = batch_add(self->batch, type);
    if (!event)
        err_set(self->err, "more than %d events in one body", BATCH_OTLP_EVENTS_MAX);
    return event;
}

enum batch_result maker_too_large(struct maker *self)
{
    err_set(self->err, "event %zu takes too much memory", self->batch->sent - 1);
    return BATCH_TOO_LARGE;
}

/* The item as it came. What stands in a JSON body is taken from there. */
static struct source item_source(struct maker *self)
{
    const struct value *item = self->item;
    if (!item)
        return (struct source){self->message.data ? SOURCE_PROTOBUF : SOURCE_NONE, self->message};
    bool is_container = item->type == VALUE_MAP || item->type == VALUE_ARRAY;
    if (is_container && item->source_at < UINT32_MAX && item->source_at < self->text.len &&
        item->source_len <= self->text.len - item->source_at)
        return (struct source){SOURCE_JSON, {self->text.data + item->source_at, item->source_len}};
    json_out_reset(&self->extra);
    json_out_value(&self->extra, item);
    return (struct source){SOURCE_JSON, {self->extra.buf.data, self->extra.buf.len}};
}

void maker_reject(struct maker *self, enum reject_code code, struct slice id, const char *message)
{
    struct source source = {.form = SOURCE_NONE};
    if (self->batch->reject_count < BATCH_REJECTS_KEPT &&
        self->batch->source_bytes < BATCH_REJECT_SOURCES_MAX)
        source = item_source(self);
    batch_reject(self->batch, code, id, message, &source);
}

int maker_fill_columns(struct maker *self, const struct value *members,
                       const struct genai_slot *slots, void *out)
{
    struct genai_found found = {0};
    genai_find(&found, members);
    genai_inherit(&found, &self->resource);
    return genai_fill(&found, &self->batch->arena, slots, out);
}

void maker_move_content(struct maker *self, struct value *members)
{
    struct json_out *out = &self->content;
    for (struct value *member = members; member; member = member->next) {
        if (member->is_skipped || !genai_is_content(member->key))
            continue;
        json_out_member(out, member);
        member->is_skipped = true;
    }
}

void maker_open_attrs(struct maker *self, struct value *attributes)
{
    struct json_out *out = &self->attrs;
    json_out_reset(out);
    json_out_str(out, "{");
    json_out_map_member(out, "attributes", attributes);
    json_out_fragment(out, &self->resource_json);
    json_out_fragment(out, &self->scope_json);
}
