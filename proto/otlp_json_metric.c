// SPDX-License-Identifier: MIT
/*
 * Each data point of a metric becomes an event. One table reads the points of every kind: their
 * fields have one meaning wherever they appear, and a field that its kind does not have is only an
 * unknown one.
 */
#include "proto/json_any.h"
#include "proto/otlp_json_items.h"
#include "proto/raw_point.h"

static int field_number(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_number *number = field;
    number->state = RAW_NUMBER_DOUBLE;
    return field_double(reader, value, &number->number);
}

static int field_integer(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_number *number = field;
    number->state = RAW_NUMBER_INT;
    return field_i64(reader, value, &number->integer);
}

/* A list of counts, in place. */
static int field_counts(struct fields_reader *reader, struct value *value, void *field)
{
    if (field_list(reader, value, field) == -1)
        return -1;
    for (struct value *item = value->first; item; item = item->next) {
        uint64_t count;
        if (field_u64(reader, item, &count) == -1)
            return -1;
        if (value_set_uint(reader->arena, item, count) == -1) {
            reader->is_full = true;
            return -1;
        }
    }
    return 0;
}

/* A list of doubles, in place. */
static int field_doubles(struct fields_reader *reader, struct value *value, void *field)
{
    if (field_list(reader, value, field) == -1)
        return -1;
    for (struct value *item = value->first; item; item = item->next) {
        double number;
        if (field_double(reader, item, &number) == -1)
            return -1;
        item->type = VALUE_DOUBLE;
        item->number = number;
    }
    return 0;
}

static const struct field bucket_fields[] = {
    {"offset", field_i64, offsetof(struct raw_buckets, offset)},
    {"bucketCounts", field_counts, offsetof(struct raw_buckets, counts)},
    {0},
};

static int field_buckets(struct fields_reader *reader, struct value *value, void *field)
{
    struct raw_buckets *buckets = field;
    buckets->is_set = true;
    return fields_read(reader, value, bucket_fields, buckets);
}

struct quantile {
    double quantile;
    double value;
};

static const struct field quantile_fields[] = {
    {"quantile", field_double, offsetof(struct quantile, quantile)},
    {"value", field_double, offsetof(struct quantile, value)},
    {0},
};

/* A list of {quantile, value}, in place, to arrays of the two. */
static int field_quantiles(struct fields_reader *reader, struct value *value, void *field)
{
    if (field_list(reader, value, field) == -1)
        return -1;
    for (struct value *item = value->first; item; item = item->next) {
        struct quantile pair = {0};
        struct value_list list = {0};
        if (fields_read(reader, item, quantile_fields, &pair) == -1)
            return -1;
        if (!value_append_double(reader->arena, &list, pair.quantile) ||
            !value_append_double(reader->arena, &list, pair.value)) {
            reader->is_full = true;
            return -1;
        }
        item->type = VALUE_ARRAY;
        item->first = list.first;
    }
    return 0;
}

static const struct field exemplar_fields[] = {
    {"timeUnixNano", field_u64, offsetof(struct raw_exemplar, time_ns)},
    {"asDouble", field_number, offsetof(struct raw_exemplar, value)},
    {"asInt", field_integer, offsetof(struct raw_exemplar, value)},
    {"traceId", json_any_trace_id, offsetof(struct raw_exemplar, trace_id)},
    {"spanId", json_any_span_id, offsetof(struct raw_exemplar, span_id)},
    {"filteredAttributes", json_any_attributes, offsetof(struct raw_exemplar, attributes)},
    {0},
};

static int field_exemplars(struct fields_reader *reader, struct value *value, void *field)
{
    return fields_read_chain(reader, value, exemplar_fields, sizeof(struct raw_exemplar), field);
}

static const struct field point_fields[] = {
    {"startTimeUnixNano", field_u64, offsetof(struct raw_point, start_ns)},
    {"timeUnixNano", field_u64, offsetof(struct raw_point, time_ns)},
    {"flags", field_u32, offsetof(struct raw_point, flags)},
    {"attributes", json_any_attributes, offsetof(struct raw_point, attributes)},
    {"asDouble", field_number, offsetof(struct raw_point, value)},
    {"asInt", field_integer, offsetof(struct raw_point, value)},
    {"count", field_u64, offsetof(struct raw_point, count)},
    {"sum", field_number, offsetof(struct raw_point, sum)},
    {"min", field_number, offsetof(struct raw_point, min)},
    {"max", field_number, offsetof(struct raw_point, max)},
    {"bucketCounts", field_counts, offsetof(struct raw_point, counts)},
    {"explicitBounds", field_doubles, offsetof(struct raw_point, bounds)},
    {"scale", field_i64, offsetof(struct raw_point, scale)},
    {"zeroCount", field_u64, offsetof(struct raw_point, zero_count)},
    {"zeroThreshold", field_double, offsetof(struct raw_point, zero_threshold)},
    {"positive", field_buckets, offsetof(struct raw_point, positive)},
    {"negative", field_buckets, offsetof(struct raw_point, negative)},
    {"quantileValues", field_quantiles, offsetof(struct raw_point, quantiles)},
    {"exemplars", field_exemplars, offsetof(struct raw_point, exemplars)},
    {0},
};

struct metric {
    struct slice name;
    struct slice unit;
    struct slice description;
    struct value *kinds[POINT_KIND_COUNT]; /* at most one is set in a metric that makes sense */
};

static const struct field metric_fields[] = {
    {"name", field_text, offsetof(struct metric, name)},
    {"unit", field_text, offsetof(struct metric, unit)},
    {"description", field_text, offsetof(struct metric, description)},
    {"gauge", field_value, offsetof(struct metric, kinds[POINT_GAUGE])},
    {"sum", field_value, offsetof(struct metric, kinds[POINT_SUM])},
    {"histogram", field_value, offsetof(struct metric, kinds[POINT_HISTOGRAM])},
    {"exponentialHistogram", field_value, offsetof(struct metric, kinds[POINT_EXPONENTIAL])},
    {"summary", field_value, offsetof(struct metric, kinds[POINT_SUMMARY])},
    {0},
};

static int field_temporality(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"UNSPECIFIED", "DELTA", "CUMULATIVE", NULL};
    return otlp_json_enum(reader, value, "AGGREGATION_TEMPORALITY_", names, field);
}

struct points {
    struct value *list;
    int64_t temporality;
    bool is_monotonic;
};

static const struct field points_fields[] = {
    {"dataPoints", field_list, offsetof(struct points, list)},
    {"aggregationTemporality", field_temporality, offsetof(struct points, temporality)},
    {"isMonotonic", field_bool, offsetof(struct points, is_monotonic)},
    {0},
};

static enum batch_result add_point(struct maker *maker, const struct raw_metric *metric,
                                   struct value *item)
{
    struct fields_reader reader = {.arena = &maker->scratch, .is_camel = true};
    struct raw_point raw = {0};
    if (fields_read(&reader, item, point_fields, &raw) == -1)
        return otlp_json_wrong(maker, &reader, "data point");
    return raw_point_add(maker, metric, &raw);
}

static enum batch_result add_points(struct maker *maker, struct raw_metric *metric,
                                    struct value *kind)
{
    struct fields_reader reader = {.arena = &maker->scratch, .is_camel = true};
    struct points points = {0};
    enum batch_result result = BATCH_OK;
    if (fields_read(&reader, kind, points_fields, &points) == -1)
        return otlp_json_wrong(maker, &reader, "metric");
    metric->temporality = points.temporality;
    metric->is_monotonic = points.is_monotonic;
    for (struct value *item = points.list; item && result == BATCH_OK; item = item->next) {
        arena_reset(&maker->scratch);
        result = add_point(maker, metric, item);
    }
    return result;
}

enum batch_result otlp_json_metric(struct maker *maker, struct value *item)
{
    struct fields_reader reader = {.arena = &maker->scratch, .is_camel = true};
    struct metric metric = {0};
    enum batch_result result = BATCH_OK;
    if (fields_read(&reader, item, metric_fields, &metric) == -1)
        return otlp_json_wrong(maker, &reader, "metric");
    for (size_t i = 0; i < POINT_KIND_COUNT && result == BATCH_OK; i++) {
        struct raw_metric shared = {.name = metric.name,
                                    .id = metric.name,
                                    .unit = metric.unit,
                                    .description = metric.description,
                                    .kind = (enum point_kind)i};
        if (metric.kinds[i])
            result = add_points(maker, &shared, metric.kinds[i]);
    }
    return result;
}
