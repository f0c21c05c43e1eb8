// SPDX-License-Identifier: MIT
#include "proto/raw_point.h"

#include <math.h>

#include "common/utf8.h"

/* The sender says that it has no value, as when a series ends. */
#define FLAG_NO_VALUE 1u

static const struct genai_slot slots[] = {
    {GENAI_OP, offsetof(struct metric_point, op)},
    {GENAI_PROVIDER, offsetof(struct metric_point, provider)},
    {GENAI_MODEL, offsetof(struct metric_point, model)},
    {GENAI_TOOL, offsetof(struct metric_point, tool)},
    {GENAI_AGENT, offsetof(struct metric_point, agent)},
    {GENAI_SERVICE, offsetof(struct metric_point, service)},
    {GENAI_ENV, offsetof(struct metric_point, env)},
    {GENAI_COLUMN_COUNT, 0},
};

static void write_number(struct json_out *out, const char *key, const struct raw_number *number)
{
    struct value value = {.type = VALUE_INT, .integer = number->integer};
    if (number->state == RAW_NUMBER_ABSENT)
        return;
    if (number->state == RAW_NUMBER_DOUBLE) {
        value.type = VALUE_DOUBLE;
        value.number = number->number;
    }
    json_out_key(out, key);
    json_out_value(out, &value);
}

static void write_list(struct json_out *out, const char *key, struct value *first)
{
    struct value list = {.type = VALUE_ARRAY, .first = first};
    if (!first)
        return;
    json_out_key(out, key);
    json_out_value(out, &list);
}

static void write_signed(struct json_out *out, const char *key, int64_t number)
{
    if (number == 0)
        return;
    json_out_key(out, key);
    json_out_int(out, number);
}

static void write_buckets(struct json_out *out, const char *key, const struct raw_buckets *buckets)
{
    if (!buckets->is_set)
        return;
    json_out_key(out, key);
    json_out_str(out, "{\"offset\":");
    json_out_int(out, buckets->offset);
    write_list(out, "counts", buckets->counts);
    json_out_str(out, "}");
}

static void write_exemplars(struct json_out *out, const struct raw_exemplar *first)
{
    if (!first)
        return;
    json_out_key(out, "exemplars");
    const char *before = "[{";
    for (const struct raw_exemplar *exemplar = first; exemplar; exemplar = exemplar->next) {
        json_out_str(out, before);
        json_out_number_member(out, "ts_ns", exemplar->time_ns);
        write_number(out, "value", &exemplar->value);
        raw_id_write(out, "trace_id", &exemplar->trace_id, TRACE_ID_LEN);
        raw_id_write(out, "span_id", &exemplar->span_id, SPAN_ID_LEN);
        json_out_map_member(out, "attributes", exemplar->attributes);
        before = "},{";
    }
    json_out_str(out, "}]");
}

static void write_data(struct json_out *out, const struct raw_metric *metric,
                       const struct raw_point *raw)
{
    struct raw_number zero_threshold = {RAW_NUMBER_DOUBLE, 0, raw->zero_threshold};
    json_out_reset(out);
    json_out_str(out, "{");
    json_out_text_member(out, "description", metric->description);
    json_out_number_member(out, "flags", raw->flags);
    json_out_number_member(out, "count", raw->count);
    write_number(out, "sum", &raw->sum);
    write_number(out, "min", &raw->min);
    write_number(out, "max", &raw->max);
    write_list(out, "bounds", raw->bounds);
    write_list(out, "counts", raw->counts);
    if (metric->kind == POINT_EXPONENTIAL) {
        write_signed(out, "scale", raw->scale);
        json_out_number_member(out, "zero_count", raw->zero_count);
        write_number(out, "zero_threshold", &zero_threshold);
        write_buckets(out, "positive", &raw->positive);
        write_buckets(out, "negative", &raw->negative);
    }
    write_list(out, "quantiles", raw->quantiles);
    write_exemplars(out, raw->exemplars);
    json_out_str(out, "}");
}

/* A histogram's value is its sum. */
static const struct raw_number *value_of(const struct raw_metric *metric,
                                         const struct raw_point *raw)
{
    bool is_number = metric->kind == POINT_GAUGE || metric->kind == POINT_SUM;
    return is_number ? &raw->value : &raw->sum;
}

static void fill_value(struct metric_point *point, const struct raw_number *value)
{
    point->has_value = value->state != RAW_NUMBER_ABSENT;
    point->is_int = value->state == RAW_NUMBER_INT;
    point->integer = value->integer;
    point->value = point->is_int ? (double)value->integer : value->number;
    if (point->has_value && !isfinite(point->value)) {
        point->has_value = false; /* data keeps a histogram's; a gauge's was refused before */
        point->value = 0;
    }
}

static int fill(struct maker *maker, struct metric_point *point, const struct raw_metric *metric,
                const struct raw_point *raw)
{
    struct arena *arena = &maker->batch->arena;
    point->ts_ns = raw->time_ns;
    point->start_ns = raw->start_ns;
    point->kind = metric->kind;
    if (metric->temporality > 0 && metric->temporality <= TEMPORALITY_CUMULATIVE)
        point->temporality = (enum temporality)metric->temporality;
    point->is_monotonic = metric->is_monotonic;
    point->count = raw->count;
    fill_value(point, value_of(metric, raw));
    if (utf8_clean(arena, metric->name, GENAI_COLUMN_MAX_BYTES, &point->name) == -1 ||
        utf8_clean(arena, metric->unit, GENAI_COLUMN_MAX_BYTES, &point->unit) == -1 ||
        maker_fill_columns(maker, raw->attributes, slots, point) == -1)
        return -1;
    write_data(&maker->extra, metric, raw);
    maker_open_attrs(maker, raw->attributes);
    json_out_str(&maker->attrs, "}");
    if (json_out_keep(&maker->extra, arena, &point->data) == -1)
        return -1;
    return json_out_keep(&maker->attrs, arena, &point->attrs);
}

static struct finding check(const struct maker *maker, const struct raw_metric *metric,
                            struct raw_point *raw)
{
    struct raw_number *value = &raw->value;
    bool is_number = metric->kind == POINT_GAUGE || metric->kind == POINT_SUM;
    if (metric->name.len == 0)
        return (struct finding){REJECT_MISSING, "no name"};
    if (raw->count > INT64_MAX)
        return (struct finding){REJECT_OUT_OF_RANGE, "the count is out of range"};
    if (raw->start_ns > INT64_MAX)
        return (struct finding){REJECT_OUT_OF_RANGE, "the start time is out of range"};
    if (raw->flags & FLAG_NO_VALUE)
        value->state = RAW_NUMBER_ABSENT;
    else if (is_number && value->state == RAW_NUMBER_ABSENT)
        return (struct finding){REJECT_MISSING, "no value"};
    if (value->state == RAW_NUMBER_DOUBLE && !isfinite(value->number))
        return (struct finding){REJECT_BAD_VALUE, "the value is not finite"};
    return maker_check_time(maker, raw->time_ns);
}

enum batch_result raw_point_add(struct maker *maker, const struct raw_metric *metric,
                                struct raw_point *raw)
{
    struct finding finding = check(maker, metric, raw);
    if (finding.message) {
        maker_reject(maker, finding.code, metric->id, finding.message);
        return BATCH_OK;
    }
    struct event *event = maker_add(maker, EVENT_METRIC);
    if (!event)
        return BATCH_TOO_MANY_EVENTS;
    return fill(maker, &event->metric, metric, raw) == 0 ? BATCH_OK : maker_too_large(maker);
}
