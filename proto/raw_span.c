// SPDX-License-Identifier: MIT
/*
 * The JSON of a span is first written into a buffer that all spans of a body share and then copied
 * to the batch in one piece, as its length is not known before. Resource and scope are written once
 * and copied into each of their spans.
 */
#include "proto/raw_span.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/utf8.h"

#define SCRATCH_MAX ((size_t)512 * 1024 * 1024)
#define JSON_MAX    ((size_t)256 * 1024 * 1024)
#define DAY_NS      (UINT64_C(86400) * 1000000000)

static struct raw_id raw_id_checked(struct raw_id id, size_t len)
{
    static const uint8_t zero[16];
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
    return raw_id_checked(id, len);
}

struct raw_id raw_id_from_bytes(struct slice bytes, size_t len)
{
    struct raw_id id = {.state = RAW_ID_ABSENT};
    if (bytes.len == 0)
        return id;
    id.state = bytes.len == len ? RAW_ID_GOOD : RAW_ID_BAD;
    if (id.state == RAW_ID_GOOD)
        memcpy(id.bytes, bytes.data, len);
    return raw_id_checked(id, len);
}

void span_maker_init(struct span_maker *self, struct batch *batch,
                     const struct batch_policy *policy, size_t body_len)
{
    *self = (struct span_maker){.batch = batch, .policy = policy};
    batch_limit(batch, body_len);
    arena_init(&self->scratch, SCRATCH_MAX);
    arena_init(&self->resource_memory, SCRATCH_MAX);
    json_out_init(&self->attrs, JSON_MAX, &self->scratch);
    json_out_init(&self->content, JSON_MAX, &self->scratch);
    json_out_init(&self->resource_json, JSON_MAX, &self->scratch);
    json_out_init(&self->scope_json, JSON_MAX, &self->scratch);
}

void span_maker_fini(struct span_maker *self)
{
    json_out_fini(&self->scope_json);
    json_out_fini(&self->resource_json);
    json_out_fini(&self->content);
    json_out_fini(&self->attrs);
    arena_fini(&self->resource_memory);
    arena_fini(&self->scratch);
}

/* Starts the next member of the object being written. */
static void write_key(struct json_out *out, const char *key)
{
    size_t len = out->buf.len;
    if (len > 0 && out->buf.data[len - 1] != '{')
        json_out_str(out, ",");
    json_out_str(out, "\"");
    json_out_str(out, key);
    json_out_str(out, "\":");
}

static void write_text_member(struct json_out *out, const char *key, struct slice text)
{
    if (text.len == 0)
        return;
    write_key(out, key);
    json_out_text(out, text);
}

static void write_number_member(struct json_out *out, const char *key, uint64_t number)
{
    if (number == 0)
        return;
    write_key(out, key);
    json_out_int(out, (int64_t)number);
}

static void write_map_member(struct json_out *out, const char *key, struct value *members)
{
    if (!members)
        return;
    struct value map = {.type = VALUE_MAP, .first = members};
    write_key(out, key);
    json_out_value(out, &map);
}

static void write_id_member(struct json_out *out, const char *key, const struct raw_id *id,
                            size_t len)
{
    char hex[32];
    if (id->state != RAW_ID_GOOD)
        return;
    codec_hex_encode(id->bytes, len, hex);
    write_text_member(out, key, (struct slice){hex, 2 * len});
}

/* Appends members that were written before, without their braces. */
static void write_fragment(struct json_out *out, const struct json_out *fragment)
{
    if (fragment->is_full)
        out->is_full = true;
    if (fragment->buf.len == 0)
        return;
    if (out->buf.len > 0 && out->buf.data[out->buf.len - 1] != '{')
        json_out_str(out, ",");
    json_out_raw(out, fragment->buf.data, fragment->buf.len);
}

void span_maker_resource(struct span_maker *self, struct value *members)
{
    json_out_reset(&self->resource_json);
    json_out_reset(&self->scope_json);
    self->resource = (struct genai_found){0};
    genai_find(&self->resource, members);
    write_map_member(&self->resource_json, "resource", members);
    arena_reset(&self->scratch);
}

void span_maker_scope(struct span_maker *self, const struct raw_scope *scope)
{
    struct json_out *out = &self->scope_json;
    json_out_reset(out);
    if (scope->name.len > 0 || scope->version.len > 0 || scope->attributes) {
        write_key(out, "scope");
        json_out_str(out, "{");
        write_text_member(out, "name", scope->name);
        write_text_member(out, "version", scope->version);
        write_map_member(out, "attributes", scope->attributes);
        json_out_str(out, "}");
    }
    arena_reset(&self->scratch);
}

/* Takes the content out of members: writes it to out and marks it skipped. Returns whether there
 * was any. */
static bool move_content(struct json_out *out, struct value *members)
{
    bool is_moved = false;
    for (struct value *member = members; member; member = member->next) {
        if (member->is_skipped || !genai_is_content(member->key))
            continue;
        json_out_str(out, out->buf.data[out->buf.len - 1] == '{' ? "" : ",");
        json_out_text(out, member->key);
        json_out_str(out, ":");
        json_out_value(out, member);
        member->is_skipped = true;
        is_moved = true;
    }
    return is_moved;
}

static bool has_content(const struct value *members)
{
    for (const struct value *member = members; member; member = member->next)
        if (!member->is_skipped && genai_is_content(member->key))
            return true;
    return false;
}

static void move_event_content(struct json_out *out, const struct raw_span *raw)
{
    bool is_first = true;
    uint64_t index = 0;
    for (const struct raw_event *event = raw->events; event; event = event->next, index++) {
        if (!has_content(event->attributes))
            continue;
        if (is_first)
            write_key(out, "events");
        json_out_str(out, is_first ? "[{\"index\":" : ",{\"index\":");
        json_out_int(out, (int64_t)index);
        move_content(out, event->attributes);
        json_out_str(out, "}");
        is_first = false;
    }
    if (!is_first)
        json_out_str(out, "]");
}

/* Leaves the buffer empty where there is no content. */
static int write_content(struct span_maker *self, const struct raw_span *raw)
{
    struct json_out *out = &self->content;
    json_out_reset(out);
    if (value_mark_duplicates(raw->attributes, &self->scratch) == -1)
        return -1;
    for (struct raw_event *event = raw->events; event; event = event->next)
        if (value_mark_duplicates(event->attributes, &self->scratch) == -1)
            return -1;
    json_out_str(out, "{");
    move_content(out, raw->attributes);
    move_event_content(out, raw);
    if (out->buf.len == 1)
        json_out_reset(out);
    else
        json_out_str(out, "}");
    return out->is_full ? -1 : 0;
}

static void write_events(struct json_out *out, const struct raw_event *first)
{
    if (!first)
        return;
    write_key(out, "events");
    const char *before = "[{";
    for (const struct raw_event *event = first; event; event = event->next) {
        json_out_str(out, before);
        write_number_member(out, "ts_ns", event->time_ns);
        write_text_member(out, "name", event->name);
        write_map_member(out, "attributes", event->attributes);
        write_number_member(out, "dropped_attributes", event->dropped_attributes);
        before = "},{";
    }
    json_out_str(out, "}]");
}

static void write_links(struct json_out *out, const struct raw_link *first)
{
    if (!first)
        return;
    write_key(out, "links");
    const char *before = "[{";
    for (const struct raw_link *link = first; link; link = link->next) {
        json_out_str(out, before);
        write_id_member(out, "trace_id", &link->trace_id, 16);
        write_id_member(out, "span_id", &link->span_id, 8);
        write_text_member(out, "trace_state", link->trace_state);
        write_number_member(out, "flags", link->flags);
        write_map_member(out, "attributes", link->attributes);
        write_number_member(out, "dropped_attributes", link->dropped_attributes);
        before = "},{";
    }
    json_out_str(out, "}]");
}

static void write_dropped(struct json_out *out, const struct raw_span *raw)
{
    if (!raw->dropped_attributes && !raw->dropped_events && !raw->dropped_links)
        return;
    write_key(out, "dropped");
    json_out_str(out, "{");
    write_number_member(out, "attributes", raw->dropped_attributes);
    write_number_member(out, "events", raw->dropped_events);
    write_number_member(out, "links", raw->dropped_links);
    json_out_str(out, "}");
}

static int write_attrs(struct span_maker *self, const struct raw_span *raw)
{
    struct json_out *out = &self->attrs;
    json_out_reset(out);
    json_out_str(out, "{");
    write_map_member(out, "attributes", raw->attributes);
    write_fragment(out, &self->resource_json);
    write_fragment(out, &self->scope_json);
    write_text_member(out, "status_message", raw->status_message);
    write_text_member(out, "trace_state", raw->trace_state);
    write_number_member(out, "flags", raw->flags);
    write_events(out, raw->events);
    write_links(out, raw->links);
    write_dropped(out, raw);
    json_out_str(out, "}");
    return out->is_full ? -1 : 0;
}

struct finding {
    enum reject_code code;
    const char *message; /* null: nothing found */
};

static struct finding check_ids(const struct raw_span *raw)
{
    if (raw->trace_id.state == RAW_ID_ABSENT)
        return (struct finding){REJECT_MISSING, "no trace id"};
    if (raw->span_id.state == RAW_ID_ABSENT)
        return (struct finding){REJECT_MISSING, "no span id"};
    if (raw->trace_id.state != RAW_ID_GOOD)
        return (struct finding){REJECT_BAD_ID, "a trace id is 16 bytes (32 hex digits), not zero"};
    if (raw->span_id.state != RAW_ID_GOOD)
        return (struct finding){REJECT_BAD_ID, "a span id is 8 bytes (16 hex digits), not zero"};
    if (raw->parent_id.state == RAW_ID_BAD)
        return (struct finding){REJECT_BAD_ID, "a parent id is 8 bytes (16 hex digits), or absent"};
    return (struct finding){0};
}

static struct finding check_times(const struct batch_policy *policy, const struct raw_span *raw)
{
    uint64_t latest_ns = policy->now_ns + DAY_NS;
    if (raw->start_ns == 0)
        return (struct finding){REJECT_MISSING, "no start time"};
    if (raw->end_ns != 0 && raw->end_ns < raw->start_ns)
        return (struct finding){REJECT_BAD_TIME, "the end lies before the start"};
    if (raw->start_ns > latest_ns || raw->end_ns > latest_ns)
        return (struct finding){REJECT_OUT_OF_RANGE, "the time is more than 24 h ahead"};
    if (raw->start_ns < policy->oldest_ns)
        return (struct finding){REJECT_OUT_OF_RANGE, "the start is older than what is kept"};
    return (struct finding){0};
}

static int fill_error_type(struct span *span, const struct raw_span *raw, struct arena *arena)
{
    static const struct slice fallback = {"_OTHER", 6};
    if (raw->error.len > 0)
        return utf8_clean(arena, raw->error, GENAI_COLUMN_MAX_BYTES, &span->error_type);
    if (span->error_type.len > 0)
        return 0;
    for (const struct raw_event *event = raw->events; event; event = event->next) {
        const struct value *type = genai_exception_type(event->name, event->attributes);
        if (type && type->text.len > 0)
            return utf8_clean(arena, type->text, GENAI_COLUMN_MAX_BYTES, &span->error_type);
    }
    if (span->status == SPAN_STATUS_ERROR)
        return utf8_clean(arena, fallback, fallback.len, &span->error_type);
    return 0;
}

/* Numbers a later version of the schema may bring are taken as the unspecified ones. */
static void fill_plain(struct span *span, const struct raw_span *raw)
{
    memcpy(span->trace_id, raw->trace_id.bytes, sizeof(span->trace_id));
    memcpy(span->span_id, raw->span_id.bytes, sizeof(span->span_id));
    span->has_parent = raw->parent_id.state == RAW_ID_GOOD;
    if (span->has_parent)
        memcpy(span->parent_id, raw->parent_id.bytes, sizeof(span->parent_id));
    if (raw->kind > 0 && raw->kind < SPAN_KIND_COUNT)
        span->kind = (enum span_kind)raw->kind;
    if (raw->status > 0 && raw->status < SPAN_STATUS_COUNT)
        span->status = (enum span_status)raw->status;
    span->start_ns = raw->start_ns;
    span->end_ns = raw->end_ns;
}

static int keep_json(struct arena *arena, const struct json_out *from, struct slice *to)
{
    if (from->buf.len == 0)
        return 0;
    to->data = arena_copy(arena, from->buf.data, from->buf.len);
    to->len = from->buf.len;
    return to->data ? 0 : -1;
}

static int fill_span(struct span_maker *self, struct span *span, const struct raw_span *raw)
{
    struct arena *arena = &self->batch->arena;
    struct genai_found found = {0};
    fill_plain(span, raw);
    genai_find(&found, raw->attributes);
    genai_inherit(&found, &self->resource);
    if (utf8_clean(arena, raw->name, SIZE_MAX, &span->name) == -1 ||
        genai_fill(&found, arena, span) == -1 || fill_error_type(span, raw, arena) == -1)
        return -1;
    /* Content first: it marks what attrs must leave out. */
    if (write_content(self, raw) == -1 || write_attrs(self, raw) == -1)
        return -1;
    if (keep_json(arena, &self->content, &span->content) == -1)
        return -1;
    return keep_json(arena, &self->attrs, &span->attrs);
}

void span_maker_reject(struct span_maker *self, enum reject_code code, struct slice id,
                       const char *message)
{
    batch_reject(self->batch, code, id, message);
    arena_reset(&self->scratch);
}

static struct slice reject_id(const struct raw_span *raw, char hex[16])
{
    if (raw->id.len > 0 || raw->span_id.state != RAW_ID_GOOD)
        return raw->id;
    codec_hex_encode(raw->span_id.bytes, 8, hex);
    return (struct slice){hex, 16};
}

enum batch_result span_maker_add(struct span_maker *self, const struct raw_span *raw,
                                 struct err *err)
{
    struct finding finding = check_ids(raw);
    if (!finding.message)
        finding = check_times(self->policy, raw);
    if (finding.message) {
        char hex[16];
        span_maker_reject(self, finding.code, reject_id(raw, hex), finding.message);
        return BATCH_OK;
    }
    struct event *event = batch_add(self->batch, EVENT_SPAN);
    if (!event) {
        err_set(err, "more than %d events in one body", BATCH_OTLP_EVENTS_MAX);
        return BATCH_TOO_MANY_EVENTS;
    }
    int rc = fill_span(self, &event->span, raw);
    arena_reset(&self->scratch);
    if (rc == 0)
        return BATCH_OK;
    err_set(err, "event %u takes too much memory", event->index);
    return BATCH_TOO_LARGE;
}
