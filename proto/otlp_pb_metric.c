// SPDX-License-Identifier: MIT
/*
 * A metric is unpacked whole and each of its data points becomes an event. The four point messages
 * share most of their fields, but not their numbers, so each has its own few lines.
 */
#include "proto/otlp_pb_items.h"
#include "proto/pb_any.h"
#include "proto/raw_point.h"

static struct raw_number double_number(double number)
{
    return (struct raw_number){.state = RAW_NUMBER_DOUBLE, .number = number};
}

static struct raw_number int_number(int64_t number)
{
    return (struct raw_number){.state = RAW_NUMBER_INT, .integer = number};
}

static int convert_counts(struct arena *arena, const uint64_t *counts, size_t n, struct value **out)
{
    struct value_list list = {0};
    for (size_t i = 0; i < n; i++) {
        struct value *count = value_append(arena, &list);
        if (!count || value_set_uint(arena, count, counts[i]) == -1)
            return -1;
    }
    *out = list.first;
    return 0;
}

static int convert_doubles(struct arena *arena, const double *numbers, size_t n, struct value **out)
{
    struct value_list list = {0};
    for (size_t i = 0; i < n; i++)
        if (!value_append_double(arena, &list, numbers[i]))
            return -1;
    *out = list.first;
    return 0;
}

static int convert_exemplars(struct arena *arena, Mcpd__Otlp__Exemplar **from, size_t n,
                             struct raw_exemplar **next)
{
    for (size_t i = 0; i < n; i++) {
        const Mcpd__Otlp__Exemplar *exemplar = from[i];
        struct raw_exemplar *raw = arena_zalloc(arena, sizeof(*raw));
        if (!raw || pb_any_members(arena, exemplar->filtered_attributes,
                                   exemplar->n_filtered_attributes, &raw->attributes) == -1)
            return -1;
        raw->time_ns = exemplar->time_unix_nano;
        raw->trace_id = raw_id_from_bytes(pb_slice(exemplar->trace_id), TRACE_ID_LEN);
        raw->span_id = raw_id_from_bytes(pb_slice(exemplar->span_id), SPAN_ID_LEN);
        if (exemplar->value_case == MCPD__OTLP__EXEMPLAR__VALUE_AS_DOUBLE)
            raw->value = double_number(exemplar->as_double);
        else if (exemplar->value_case == MCPD__OTLP__EXEMPLAR__VALUE_AS_INT)
            raw->value = int_number(exemplar->as_int);
        *next = raw;
        next = &raw->next;
    }
    return 0;
}

static int convert_number_point(struct arena *arena, const Mcpd__Otlp__NumberPoint *from,
                                struct raw_point *to)
{
    *to = (struct raw_point){.start_ns = from->start_time_unix_nano,
                             .time_ns = from->time_unix_nano,
                             .flags = from->flags};
    if (from->value_case == MCPD__OTLP__NUMBER_POINT__VALUE_AS_DOUBLE)
        to->value = double_number(from->as_double);
    else if (from->value_case == MCPD__OTLP__NUMBER_POINT__VALUE_AS_INT)
        to->value = int_number(from->as_int);
    if (convert_exemplars(arena, from->exemplars, from->n_exemplars, &to->exemplars) == -1)
        return -1;
    return pb_any_members(arena, from->attributes, from->n_attributes, &to->attributes);
}

static int convert_histogram_point(struct arena *arena, const Mcpd__Otlp__HistogramPoint *from,
                                   struct raw_point *to)
{
    *to = (struct raw_point){.start_ns = from->start_time_unix_nano,
                             .time_ns = from->time_unix_nano,
                             .flags = from->flags,
                             .count = from->count};
    if (from->has_sum_case == MCPD__OTLP__HISTOGRAM_POINT__HAS_SUM_SUM)
        to->sum = double_number(from->sum);
    if (from->has_min_case == MCPD__OTLP__HISTOGRAM_POINT__HAS_MIN_MIN)
        to->min = double_number(from->min);
    if (from->has_max_case == MCPD__OTLP__HISTOGRAM_POINT__HAS_MAX_MAX)
        to->max = double_number(from->max);
    if (convert_counts(arena, from->bucket_counts, from->n_bucket_counts, &to->counts) == -1 ||
        convert_doubles(arena, from->explicit_bounds, from->n_explicit_bounds, &to->bounds) == -1 ||
        convert_exemplars(arena, from->exemplars, from->n_exemplars, &to->exemplars) == -1)
        return -1;
    return pb_any_members(arena, from->attributes, from->n_attributes, &to->attributes);
}

static int convert_buckets(struct arena *arena, const Mcpd__Otlp__ExponentialBuckets *from,
                           struct raw_buckets *to)
{
    if (!from)
        return 0;
    to->is_set = true;
    to->offset = from->offset;
    return convert_counts(arena, from->bucket_counts, from->n_bucket_counts, &to->counts);
}

static int convert_exponential_point(struct arena *arena, const Mcpd__Otlp__ExponentialPoint *from,
                                     struct raw_point *to)
{
    *to = (struct raw_point){.start_ns = from->start_time_unix_nano,
                             .time_ns = from->time_unix_nano,
                             .flags = from->flags,
                             .count = from->count,
                             .scale = from->scale,
                             .zero_count = from->zero_count,
                             .zero_threshold = from->zero_threshold};
    if (from->has_sum_case == MCPD__OTLP__EXPONENTIAL_POINT__HAS_SUM_SUM)
        to->sum = double_number(from->sum);
    if (from->has_min_case == MCPD__OTLP__EXPONENTIAL_POINT__HAS_MIN_MIN)
        to->min = double_number(from->min);
    if (from->has_max_case == MCPD__OTLP__EXPONENTIAL_POINT__HAS_MAX_MAX)
        to->max = double_number(from->max);
    if (convert_buckets(arena, from->positive, &to->positive) == -1 ||
        convert_buckets(arena, from->negative, &to->negative) == -1 ||
        convert_exemplars(arena, from->exemplars, from->n_exemplars, &to->exemplars) == -1)
        return -1;
    return pb_any_members(arena, from->attributes, from->n_attributes, &to->attributes);
}

static int convert_summary_point(struct arena *arena, const Mcpd__Otlp__SummaryPoint *from,
                                 struct raw_point *to)
{
    struct value_list quantiles = {0};
    *to = (struct raw_point){.start_ns = from->start_time_unix_nano,
                             .time_ns = from->time_unix_nano,
                             .flags = from->flags,
                             .count = from->count,
                             .sum = double_number(from->sum)};
    for (size_t i = 0; i < from->n_quantile_values; i++) {
        const double pair[] = {from->quantile_values[i]->quantile, from->quantile_values[i]->value};
        struct value *quantile = value_append(arena, &quantiles);
        if (!quantile || convert_doubles(arena, pair, 2, &quantile->first) == -1)
            return -1;
        quantile->type = VALUE_ARRAY;
    }
    to->quantiles = quantiles.first;
    return pb_any_members(arena, from->attributes, from->n_attributes, &to->attributes);
}

/* The points of one kind of metric: how many, and how each becomes a raw_point. */
struct points {
    size_t count;
    void *const *items;
    int (*convert)(struct arena *arena, const void *from, struct raw_point *to);
};

#define CONVERTER(kind, type)                                                                     \
    static int convert_##kind##_item(struct arena *arena, const void *from, struct raw_point *to) \
    {                                                                                             \
        return convert_##kind##_point(arena, (const type *)from, to);                             \
    }
CONVERTER(number, Mcpd__Otlp__NumberPoint)
CONVERTER(histogram, Mcpd__Otlp__HistogramPoint)
CONVERTER(exponential, Mcpd__Otlp__ExponentialPoint)
CONVERTER(summary, Mcpd__Otlp__SummaryPoint)

static struct points describe(const Mcpd__Otlp__Metric *from, struct raw_metric *to)
{
    switch (from->data_case) {
    case MCPD__OTLP__METRIC__DATA_GAUGE:
        to->kind = POINT_GAUGE;
        return (struct points){from->gauge->n_data_points, (void *const *)from->gauge->data_points,
                               convert_number_item};
    case MCPD__OTLP__METRIC__DATA_SUM:
        to->kind = POINT_SUM;
        to->temporality = from->sum->aggregation_temporality;
        to->is_monotonic = from->sum->is_monotonic;
        return (struct points){from->sum->n_data_points, (void *const *)from->sum->data_points,
                               convert_number_item};
    case MCPD__OTLP__METRIC__DATA_HISTOGRAM:
        to->kind = POINT_HISTOGRAM;
        to->temporality = from->histogram->aggregation_temporality;
        return (struct points){from->histogram->n_data_points,
                               (void *const *)from->histogram->data_points, convert_histogram_item};
    case MCPD__OTLP__METRIC__DATA_EXPONENTIAL_HISTOGRAM:
        to->kind = POINT_EXPONENTIAL;
        to->temporality = from->exponential_histogram->aggregation_temporality;
        return (struct points){from->exponential_histogram->n_data_points,
                               (void *const *)from->exponential_histogram->data_points,
                               convert_exponential_item};
    case MCPD__OTLP__METRIC__DATA_SUMMARY:
        to->kind = POINT_SUMMARY;
        return (struct points){from->summary->n_data_points,
                               (void *const *)from->summary->data_points, convert_summary_item};
    default: /* a kind we do not know, or none: nothing that could be counted */
        return (struct points){0};
    }
}

enum batch_result otlp_pb_metric(struct maker *maker, struct slice message)
{
    const Mcpd__Otlp__Metric *metric =
        pb_unpack(&mcpd__otlp__metric__descriptor, &maker->scratch, message);
    if (!metric)
        return otlp_pb_failed(maker, &maker->scratch, "metric");
    struct raw_metric shared = {.name = pb_slice(metric->name),
                                .id = pb_slice(metric->name),
                                .unit = pb_slice(metric->unit),
                                .description = pb_slice(metric->description)};
    struct points points = describe(metric, &shared);
    enum batch_result result = BATCH_OK;
    for (size_t i = 0; i < points.count && result == BATCH_OK; i++) {
        struct raw_point raw;
        if (points.convert(&maker->scratch, points.items[i], &raw) == -1)
            return otlp_pb_failed(maker, &maker->scratch, "data point");
        result = raw_point_add(maker, &shared, &raw);
    }
    return result;
}
