// SPDX-License-Identifier: MIT
#include "proto/raw_log.h"

#include "proto/raw_score.h"
#include "common/utf8.h"

#define SEVERITY_MAX 24

static const struct genai_slot slots[] = {
    {GENAI_OP, offsetof(struct log_record, op)},
    {GENAI_MODEL, offsetof(struct log_record, model)},
    {GENAI_TOOL, offsetof(struct log_record, tool)},
    {GENAI_AGENT, offsetof(struct log_record, agent)},
    {GENAI_SESSION, offsetof(struct log_record, session)},
    {GENAI_USER_ID, offsetof(struct log_record, user_id)},
    {GENAI_SERVICE, offsetof(struct log_record, service)},
    {GENAI_ENV, offsetof(struct log_record, env)},
    {GENAI_COLUMN_COUNT, 0},
};

/* A text stays as it is; of anything else the JSON is kept. */
static int fill_body(struct maker *maker, struct log_record *log, const struct raw_log *raw)
{
    struct arena *arena = &maker->batch->arena;
    if (!raw->body || raw->body->type == VALUE_NULL)
        return 0;
    if (raw->body->type == VALUE_TEXT)
        return utf8_clean(arena, raw->body->text, SIZE_MAX, &log->body);
    log->body_is_json = true;
    json_out_reset(&maker->extra);
    json_out_value(&maker->extra, raw->body);
    return json_out_keep(&maker->extra, arena, &log->body);
}

static int fill_content(struct maker *maker, struct log_record *log, struct raw_log *raw)
{
    struct json_out *out = &maker->content;
    json_out_reset(out);
    if (value_mark_duplicates(raw->attributes, &maker->scratch) == -1)
        return -1;
    json_out_str(out, "{");
    maker_move_content(maker, raw->attributes);
    json_out_str(out, "}");
    return out->buf.len == 2 ? 0 : json_out_keep(out, &maker->batch->arena, &log->content);
}

static int fill_attrs(struct maker *maker, struct log_record *log, struct raw_log *raw)
{
    struct json_out *out = &maker->attrs;
    maker_open_attrs(maker, raw->attributes);
    json_out_number_member(out, "trace_flags", raw->flags);
    if (raw->dropped_attributes > 0) {
        json_out_key(out, "dropped");
        json_out_str(out, "{");
        json_out_number_member(out, "attributes", raw->dropped_attributes);
        json_out_str(out, "}");
    }
    json_out_str(out, "}");
    return json_out_keep(out, &maker->batch->arena, &log->attrs);
}

static int fill(struct maker *maker, struct log_record *log, struct raw_log *raw)
{
    struct arena *arena = &maker->batch->arena;
    log->ts_ns = raw->time_ns;
    log->observed_ns = raw->observed_ns;
    if (raw->severity > 0 && raw->severity <= SEVERITY_MAX)
        log->severity = (int)raw->severity;
    log->has_trace = raw_id_copy(&raw->trace_id, log->trace_id, TRACE_ID_LEN);
    log->has_span = raw_id_copy(&raw->span_id, log->span_id, SPAN_ID_LEN);
    if (utf8_clean(arena, raw->severity_text, GENAI_COLUMN_MAX_BYTES, &log->severity_text) == -1 ||
        utf8_clean(arena, raw->event_name, GENAI_COLUMN_MAX_BYTES, &log->event_name) == -1 ||
        maker_fill_columns(maker, raw->attributes, slots, log) == -1)
        return -1;
    /* Content first: it marks what attrs must leave out. */
    if (fill_body(maker, log, raw) == -1 || fill_content(maker, log, raw) == -1)
        return -1;
    return fill_attrs(maker, log, raw);
}

enum batch_result raw_log_add(struct maker *maker, struct raw_log *raw)
{
    if (raw->time_ns == 0)
        raw->time_ns = raw->observed_ns;
    struct finding finding = maker_check_ids(&raw->trace_id, &raw->span_id);
    if (!finding.message)
        finding = maker_check_time(maker, raw->time_ns);
    if (!finding.message && raw->observed_ns > INT64_MAX)
        finding = (struct finding){REJECT_OUT_OF_RANGE, "the observed time is out of range"};
    if (finding.message) {
        maker_reject(maker, finding.code, raw->id, finding.message);
        return BATCH_OK;
    }
    struct event *event = maker_add(maker, EVENT_LOG);
    if (!event)
        return BATCH_TOO_MANY_EVENTS;
    if (fill(maker, &event->log, raw) == -1 ||
        raw_score_derive(maker, raw->event_name, raw->attributes, raw->time_ns, &raw->trace_id,
                         &raw->span_id, -1) == -1)
        return maker_too_large(maker);
    return BATCH_OK;
}
