// SPDX-License-Identifier: MIT
#include "proto/raw_span.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/raw_score.h"
#include "common/utf8.h"

static const struct genai_slot slots[] = {
    {GENAI_OP, offsetof(struct span, op)},
    {GENAI_PROVIDER, offsetof(struct span, provider)},
    {GENAI_MODEL, offsetof(struct span, model)},
    {GENAI_TOOL, offsetof(struct span, tool)},
    {GENAI_AGENT, offsetof(struct span, agent)},
    {GENAI_SESSION, offsetof(struct span, session)},
    {GENAI_USER_ID, offsetof(struct span, user_id)},
    {GENAI_MCP_METHOD, offsetof(struct span, mcp_method)},
    {GENAI_MCP_SESSION, offsetof(struct span, mcp_session)},
    {GENAI_SERVICE, offsetof(struct span, service)},
    {GENAI_ENV, offsetof(struct span, env)},
    {GENAI_ERROR_TYPE, offsetof(struct span, error_type)},
    {GENAI_IN_TOK, offsetof(struct span, in_tok)},
    {GENAI_OUT_TOK, offsetof(struct span, out_tok)},
    {GENAI_CACHE_TOK, offsetof(struct span, cache_tok)},
    {GENAI_REASON_TOK, offsetof(struct span, reason_tok)},
    {GENAI_COLUMN_COUNT, 0},
};

static bool has_content(const struct value *members)
{
    for (const struct value *member = members; member; member = member->next)
        if (!member->is_skipped && genai_is_content(member->key))
            return true;
    return false;
}

/* {"index":n, and the event's content} for each event that has some. */
static void move_event_content(struct maker *maker, const struct raw_span *raw)
{
    struct json_out *out = &maker->content;
    bool is_first = true;
    uint64_t index = 0;
    for (const struct raw_event *event = raw->events; event; event = event->next, index++) {
        if (!has_content(event->attributes))
            continue;
        if (is_first)
            json_out_key(out, "events");
        json_out_str(out, is_first ? "[{\"index\":" : ",{\"index\":");
        json_out_int(out, (int64_t)index);
        maker_move_content(maker, event->attributes);
        json_out_str(out, "}");
        is_first = false;
    }
    if (!is_first)
        json_out_str(out, "]");
}

/* Leaves the buffer empty where there is no content. */
static int write_content(struct maker *maker, const struct raw_span *raw)
{
    struct json_out *out = &maker->content;
    json_out_reset(out);
    if (value_mark_duplicates(raw->attributes, &maker->scratch) == -1)
        return -1;
    for (struct raw_event *event = raw->events; event; event = event->next)
        if (value_mark_duplicates(event->attributes, &maker->scratch) == -1)
            return -1;
    json_out_str(out, "{");
    maker_move_content(maker, raw->attributes);
    move_event_content(maker, raw);
    if (out->buf.len == 1)
        json_out_reset(out);
    else
        json_out_str(out, "}");
    return 0;
}

static void write_events(struct json_out *out, const struct raw_event *first)
{
    if (!first)
        return;
    json_out_key(out, "events");
    const char *before = "[{";
    for (const struct raw_event *event = first; event; event = event->next) {
        json_out_str(out, before);
        json_out_number_member(out, "ts_ns", event->time_ns);
        json_out_text_member(out, "name", event->name);
        json_out_map_member(out, "attributes", event->attributes);
        json_out_number_member(out, "dropped_attributes", event->dropped_attributes);
        before = "},{";
    }
    json_out_str(out, "}]");
}

static void write_links(struct json_out *out, const struct raw_link *first)
{
    if (!first)
        return;
    json_out_key(out, "links");
    const char *before = "[{";
    for (const struct raw_link *link = first; link; link = link->next) {
        json_out_str(out, before);
        raw_id_write(out, "trace_id", &link->trace_id, TRACE_ID_LEN);
        raw_id_write(out, "span_id", &link->span_id, SPAN_ID_LEN);
        json_out_text_member(out, "trace_state", link->trace_state);
        json_out_number_member(out, "flags", link->flags);
        json_out_map_member(out, "attributes", link->attributes);
        json_out_number_member(out, "dropped_attributes", link->dropped_attributes);
        before = "},{";
    }
    json_out_str(out, "}]");
}

static void write_dropped(struct json_out *out, const struct raw_span *raw)
{
    if (!raw->dropped_attributes && !raw->dropped_events && !raw->dropped_links)
        return;
    json_out_key(out, "dropped");
    json_out_str(out, "{");
    json_out_number_member(out, "attributes", raw->dropped_attributes);
    json_out_number_member(out, "events", raw->dropped_events);
    json_out_number_member(out, "links", raw->dropped_links);
    json_out_str(out, "}");
}

static void write_attrs(struct maker *maker, const struct raw_span *raw)
{
    struct json_out *out = &maker->attrs;
    maker_open_attrs(maker, raw->attributes);
    json_out_text_member(out, "status_message", raw->status_message);
    json_out_text_member(out, "trace_state", raw->trace_state);
    json_out_number_member(out, "flags", raw->flags);
    write_events(out, raw->events);
    write_links(out, raw->links);
    write_dropped(out, raw);
    json_out_str(out, "}");
}

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

static struct finding check_times(const struct maker *maker, const struct raw_span *raw)
{
    if (raw->start_ns == 0)
        return (struct finding){REJECT_MISSING, "no start time"};
    if (raw->end_ns != 0 && raw->end_ns < raw->start_ns)
        return (struct finding){REJECT_BAD_TIME, "the end lies before the start"};
    struct finding finding = maker_check_time(maker, raw->start_ns);
    if (!finding.message && raw->end_ns != 0)
        finding = maker_check_time(maker, raw->end_ns);
    return finding;
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
    raw_id_copy(&raw->trace_id, span->trace_id, TRACE_ID_LEN);
    raw_id_copy(&raw->span_id, span->span_id, SPAN_ID_LEN);
    span->has_parent = raw_id_copy(&raw->parent_id, span->parent_id, SPAN_ID_LEN);
    if (raw->kind > 0 && raw->kind < SPAN_KIND_COUNT)
        span->kind = (enum span_kind)raw->kind;
    if (raw->status > 0 && raw->status < SPAN_STATUS_COUNT)
        span->status = (enum span_status)raw->status;
    span->start_ns = raw->start_ns;
    span->end_ns = raw->end_ns;
}

static int fill_span(struct maker *maker, struct span *span, struct raw_span *raw)
{
    struct arena *arena = &maker->batch->arena;
    fill_plain(span, raw);
    if (utf8_clean(arena, raw->name, SIZE_MAX, &span->name) == -1 ||
        maker_fill_columns(maker, raw->attributes, slots, span) == -1 ||
        fill_error_type(span, raw, arena) == -1)
        return -1;
    /* Content first: it marks what attrs must leave out. */
    if (write_content(maker, raw) == -1)
        return -1;
    write_attrs(maker, raw);
    if (json_out_keep(&maker->content, arena, &span->content) == -1)
        return -1;
    return json_out_keep(&maker->attrs, arena, &span->attrs);
}

/* What its events tell of how it was judged. */
static int derive_scores(struct maker *maker, const struct raw_span *raw)
{
    int64_t place = 0;
    for (const struct raw_event *event = raw->events; event; event = event->next, place++) {
        uint64_t time_ns = event->time_ns ? event->time_ns : raw->start_ns;
        if (raw_score_derive(maker, event->name, event->attributes, time_ns, &raw->trace_id,
                             &raw->span_id, place) == -1)
            return -1;
    }
    return 0;
}

static void reject(struct maker *maker, const struct raw_span *raw, struct finding finding)
{
    char hex[2 * SPAN_ID_LEN];
    struct slice id = raw->id;
    if (id.len == 0 && raw->span_id.state == RAW_ID_GOOD) {
        codec_hex_encode(raw->span_id.bytes, SPAN_ID_LEN, hex);
        id = (struct slice){hex, sizeof(hex)};
    }
    maker_reject(maker, finding.code, id, finding.message);
}

enum batch_result raw_span_add(struct maker *maker, struct raw_span *raw)
{
    struct finding finding = check_ids(raw);
    if (!finding.message)
        finding = check_times(maker, raw);
    if (finding.message) {
        reject(maker, raw, finding);
        return BATCH_OK;
    }
    struct event *event = maker_add(maker, EVENT_SPAN);
    if (!event)
        return BATCH_TOO_MANY_EVENTS;
    if (fill_span(maker, &event->span, raw) == -1 || derive_scores(maker, raw) == -1)
        return maker_too_large(maker);
    return BATCH_OK;
}
