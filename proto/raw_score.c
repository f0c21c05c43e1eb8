// SPDX-License-Identifier: MIT
#include "proto/raw_score.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "proto/codec.h"
#include "common/utf8.h"

#define LABEL_MAX   200 /* characters */
#define TEXT_MAX    500
#define COMMENT_MAX ((size_t)16 * 1024) /* bytes; what is longer is cut */

/* Characters of UTF-8; what is none counts byte by byte, as each becomes one. */
static size_t count_characters(struct slice text)
{
    size_t count = 0;
    for (size_t at = 0; at < text.len; count++) {
        size_t len = utf8_sequence((struct slice){text.data + at, text.len - at});
        at += len > 0 ? len : 1;
    }
    return count;
}

/* What a value looks like when nobody says its type. */
static enum score_type guess_type(const struct value *value)
{
    switch (value->type) {
    case VALUE_BOOL:
        return SCORE_BOOLEAN;
    case VALUE_TEXT:
        return count_characters(value->text) <= LABEL_MAX ? SCORE_LABEL : SCORE_TEXT;
    default:
        return SCORE_NUMBER;
    }
}

static struct finding find_type(const struct raw_score *raw, enum score_type *type)
{
    if (!raw->value || raw->value->type == VALUE_NULL)
        return (struct finding){REJECT_MISSING, "no value"};
    *type = guess_type(raw->value);
    if (raw->data_type.len == 0)
        return (struct finding){0};
    for (*type = SCORE_NUMBER; *type < SCORE_TYPE_COUNT; (*type)++)
        if (slice_equals(raw->data_type, score_type_name(*type)))
            return (struct finding){0};
    return (struct finding){REJECT_BAD_VALUE, "data_type is number, boolean, label or text"};
}

static struct finding check_number(const struct value *value, enum score_type type, double *number)
{
    if (value->type == VALUE_BOOL)
        *number = value->boolean;
    else if (value->type == VALUE_INT)
        *number = (double)value->integer;
    else if (value->type == VALUE_DOUBLE)
        *number = value->number;
    else
        return (struct finding){REJECT_BAD_VALUE, "the value is no number"};
    if (!isfinite(*number))
        return (struct finding){REJECT_BAD_VALUE, "the value is not finite"};
    if (type == SCORE_BOOLEAN && *number != 0 && *number != 1)
        return (struct finding){REJECT_BAD_VALUE, "a boolean is 0 or 1"};
    if (type == SCORE_NUMBER && value->type == VALUE_BOOL)
        return (struct finding){REJECT_BAD_VALUE, "the value is no number"};
    return (struct finding){0};
}

static struct finding check_text(const struct value *value, enum score_type type)
{
    if (value->type != VALUE_TEXT)
        return (struct finding){REJECT_BAD_VALUE, "the value is no text"};
    if (type == SCORE_LABEL && value->text.len == 0)
        return (struct finding){REJECT_BAD_VALUE, "a label is not empty"};
    if (count_characters(value->text) > (type == SCORE_LABEL ? LABEL_MAX : TEXT_MAX))
        return (struct finding){REJECT_TOO_BIG, "a label has up to 200 characters, a text 500"};
    return (struct finding){0};
}

static struct finding check_target(const struct raw_score *raw, enum score_target *target)
{
    bool has_trace = raw->trace_id.state == RAW_ID_GOOD;
    bool has_span = raw->span_id.state == RAW_ID_GOOD;
    bool has_session = raw->session.len > 0;
    bool has_run = raw->run.len > 0;
    if (raw->trace_id.state == RAW_ID_ZERO || raw->span_id.state == RAW_ID_ZERO)
        return (struct finding){REJECT_BAD_ID, "an id is not zero"};
    if (has_span && !has_trace)
        return (struct finding){REJECT_MISSING, "a span's score needs its trace_id"};
    if (has_trace + has_session + has_run == 0)
        return (struct finding){REJECT_MISSING, "no trace_id, session_id or run_id"};
    if (has_trace + has_session + has_run > 1)
        return (struct finding){REJECT_BAD_VALUE, "one target only: span, trace, session or run"};
    if (raw->session.len > RAW_NAME_MAX_BYTES || raw->run.len > RAW_NAME_MAX_BYTES)
        return (struct finding){REJECT_BAD_ID, "an id has up to 200 bytes"};
    *target = has_span    ? SCORE_OF_SPAN
              : has_trace ? SCORE_OF_TRACE
              : has_run   ? SCORE_OF_RUN
                          : SCORE_OF_SESSION;
    return maker_check_ids(&raw->trace_id, &raw->span_id);
}

/* Fills what it checks. */
static struct finding check_score(const struct maker *maker, const struct raw_score *raw,
                                  struct score *score)
{
    if (raw->name.len == 0)
        return (struct finding){REJECT_MISSING, "no name"};
    if (raw->name.len > RAW_NAME_MAX_BYTES)
        return (struct finding){REJECT_TOO_BIG, "a name has up to 200 bytes"};
    if (raw->id.len > RAW_NAME_MAX_BYTES)
        return (struct finding){REJECT_BAD_ID, "an id has up to 200 bytes"};
    struct finding finding = maker_check_ids(&raw->trace_id, &raw->span_id);
    if (!finding.message)
        finding = check_target(raw, &score->target);
    if (!finding.message)
        finding = find_type(raw, &score->type);
    if (finding.message)
        return finding;
    bool is_number = score->type == SCORE_NUMBER || score->type == SCORE_BOOLEAN;
    finding = is_number ? check_number(raw->value, score->type, &score->number)
                        : check_text(raw->value, score->type);
    if (!finding.message && raw->time_ns != 0)
        finding = maker_check_time(maker, raw->time_ns);
    return finding;
}

static int fill_score(struct maker *maker, struct score *score, const struct raw_score *raw)
{
    const struct {
        struct slice from;
        size_t max_bytes;
        struct slice *to;
    } texts[] = {
        {raw->id, RAW_NAME_MAX_BYTES, &score->id},
        {raw->name, RAW_NAME_MAX_BYTES, &score->name},
        {raw->session, RAW_NAME_MAX_BYTES, &score->session},
        {raw->run, RAW_NAME_MAX_BYTES, &score->run},
        {raw->source, GENAI_COLUMN_MAX_BYTES, &score->source},
        {raw->comment, COMMENT_MAX, &score->comment},
        {raw->scorer, GENAI_COLUMN_MAX_BYTES, &score->scorer},
        {raw->version, GENAI_COLUMN_MAX_BYTES, &score->version},
        {raw->value->type == VALUE_TEXT ? raw->value->text : (struct slice){0}, SIZE_MAX,
         &score->text},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].from.len > 0 &&
            utf8_clean(&maker->batch->arena, texts[i].from, texts[i].max_bytes, texts[i].to) == -1)
            return -1;
    raw_id_copy(&raw->trace_id, score->trace_id, TRACE_ID_LEN);
    raw_id_copy(&raw->span_id, score->span_id, SPAN_ID_LEN);
    score->ts_ns = raw->time_ns ? raw->time_ns : maker->policy->now_ns;
    return 0;
}

enum batch_result raw_score_add(struct maker *maker, const struct raw_score *raw)
{
    struct score score = {0};
    struct finding finding = check_score(maker, raw, &score);
    if (finding.message) {
        maker_reject(maker, finding.code, raw->id, finding.message);
        return BATCH_OK;
    }
    struct event *event = maker_add(maker, EVENT_SCORE);
    if (!event)
        return BATCH_TOO_MANY_EVENTS;
    event->score = score;
    return fill_score(maker, &event->score, raw) == 0 ? BATCH_OK : maker_too_large(maker);
}

/* Derived scores */

#define DERIVED_ID_SIZE 96

static struct slice found_text(const struct genai_found *found, enum genai_column column)
{
    const struct value *value = found->columns[column].value;
    return value && value->type == VALUE_TEXT ? value->text : (struct slice){0};
}

/* So that a resent span gives the same score, and two evaluations of a span two. */
static struct slice derived_id(const struct raw_id *trace_id, const struct raw_id *span_id,
                               int64_t place, char out[DERIVED_ID_SIZE])
{
    char trace[2 * TRACE_ID_LEN + 1] = "", span[2 * SPAN_ID_LEN + 1] = "";
    if (place < 0)
        return (struct slice){0};
    codec_hex_encode(trace_id->bytes, TRACE_ID_LEN, trace);
    codec_hex_encode(span_id->bytes, SPAN_ID_LEN, span);
    int len = snprintf(out, DERIVED_ID_SIZE, "otel-%s-%s-%" PRId64, trace, span, place);
    return (struct slice){out, (size_t)len};
}

int raw_score_derive(struct maker *maker, struct slice event_name, const struct value *members,
                     uint64_t time_ns, const struct raw_id *trace_id, const struct raw_id *span_id,
                     int64_t place)
{
    char id[DERIVED_ID_SIZE];
    struct genai_found found = {0};
    struct score score = {0};
    if (!(maker->policy->types & EVENT_BIT(EVENT_SCORE)) || !genai_is_evaluation(event_name))
        return 0;
    genai_find(&found, members);
    const struct value *label = found.columns[GENAI_EVALUATION_LABEL].value;
    const struct value *number = found.columns[GENAI_EVALUATION_VALUE].value;
    struct value value = number ? *number : label ? *label : (struct value){0};
    struct raw_score raw = {
        .id = derived_id(trace_id, span_id, place, id),
        .name = found_text(&found, GENAI_EVALUATION_NAME),
        .value = &value,
        .trace_id = *trace_id,
        .span_id = *span_id,
        .source = slice_of("otel"),
        .comment = found_text(&found, GENAI_EVALUATION_EXPLANATION),
        .time_ns = time_ns,
    };
    if (check_score(maker, &raw, &score).message)
        return 0;
    struct event *event = batch_derive(maker->batch, EVENT_SCORE);
    if (!event)
        return 0;
    event->score = score;
    if (fill_score(maker, &event->score, &raw) == -1)
        return -1;
    if (score.type != SCORE_NUMBER || !label || label->type != VALUE_TEXT)
        return 0;
    return utf8_clean(&maker->batch->arena, label->text, LABEL_MAX, &event->score.text);
}

/* Runs */

static const struct genai_slot run_slots[] = {
    {GENAI_AGENT, offsetof(struct run, agent)},
    {GENAI_SESSION, offsetof(struct run, session)},
    {GENAI_SERVICE, offsetof(struct run, service)},
    {GENAI_ENV, offsetof(struct run, env)},
    {GENAI_COLUMN_COUNT, 0},
};

static struct finding check_run(const struct maker *maker, const struct raw_run *raw)
{
    static const struct raw_id none;
    if (raw->id.len == 0)
        return (struct finding){REJECT_MISSING, "no id"};
    if (raw->id.len > RAW_NAME_MAX_BYTES)
        return (struct finding){REJECT_BAD_ID, "an id has up to 200 bytes"};
    if (raw->state.len == 0)
        return (struct finding){REJECT_MISSING, "no state"};
    if (raw->state.len > RAW_NAME_MAX_BYTES)
        return (struct finding){REJECT_TOO_BIG, "a state has up to 200 bytes"};
    if (raw->end_ns != 0 && raw->end_ns < raw->start_ns)
        return (struct finding){REJECT_BAD_TIME, "the end lies before the start"};
    struct finding finding = maker_check_ids(&raw->trace_id, &none);
    if (!finding.message && raw->start_ns != 0)
        finding = maker_check_time(maker, raw->start_ns);
    if (!finding.message && raw->end_ns != 0)
        finding = maker_check_time(maker, raw->end_ns);
    return finding;
}

static int fill_run(struct maker *maker, struct run *run, const struct raw_run *raw)
{
    struct arena *arena = &maker->batch->arena;
    run->has_trace = raw_id_copy(&raw->trace_id, run->trace_id, TRACE_ID_LEN);
    run->start_ns = raw->start_ns;
    run->end_ns = raw->end_ns;
    if (utf8_clean(arena, raw->id, RAW_NAME_MAX_BYTES, &run->id) == -1 ||
        utf8_clean(arena, raw->state, RAW_NAME_MAX_BYTES, &run->state) == -1 ||
        maker_fill_columns(maker, raw->attributes, run_slots, run) == -1)
        return -1;
    maker_open_attrs(maker, raw->attributes);
    json_out_str(&maker->attrs, "}");
    return json_out_keep(&maker->attrs, arena, &run->attrs);
}

enum batch_result raw_run_add(struct maker *maker, const struct raw_run *raw)
{
    struct finding finding = check_run(maker, raw);
    if (finding.message) {
        maker_reject(maker, finding.code, raw->id, finding.message);
        return BATCH_OK;
    }
    struct event *event = maker_add(maker, EVENT_RUN);
    if (!event)
        return BATCH_TOO_MANY_EVENTS;
    return fill_run(maker, &event->run, raw) == 0 ? BATCH_OK : maker_too_large(maker);
}
