// SPDX-License-Identifier: MIT
/* The small types, and what all types share; spans have their own file. */
#include "proto/native_types.h"

#include "proto/raw_log.h"
#include "proto/raw_point.h"
#include "proto/raw_score.h"

static int read_id(struct value *value, struct raw_id *id, size_t len)
{
    if (value->type == VALUE_BYTES)
        *id = raw_id_from_bytes(value->text, len);
    else if (value->type == VALUE_TEXT)
        *id = raw_id_from_hex(value->text, len);
    else
        return -1;
    return 0;
}

int native_trace_id(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_id(value, field, TRACE_ID_LEN);
}

int native_span_id(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_id(value, field, SPAN_ID_LEN);
}

int native_name(struct fields_reader *reader, struct value *value, const char *const *names,
                int64_t *number)
{
    if (value->type != VALUE_TEXT)
        return field_i64(reader, value, number);
    for (int64_t i = 0; names[i]; i++) {
        if (slice_equals_nocase(value->text, names[i])) {
            *number = i;
            return 0;
        }
    }
    return -1;
}

/* Which code a field of the wrong type gives. */
static enum reject_code wrong_code(struct slice key)
{
    static const struct {
        const char *key;
        enum reject_code code;
    } rows[] = {{"trace_id", REJECT_BAD_ID},  {"span_id", REJECT_BAD_ID},
                {"parent_id", REJECT_BAD_ID}, {"start_ns", REJECT_BAD_TIME},
                {"end_ns", REJECT_BAD_TIME},  {"ts_ns", REJECT_BAD_TIME}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (slice_equals(key, rows[i].key))
            return rows[i].code;
    return REJECT_BAD_VALUE;
}

enum batch_result native_wrong(struct maker *maker, const struct fields_reader *reader,
                               struct slice id)
{
    struct err reason;
    struct slice key = reader->wrong; /* a name we know, or empty */
    if (reader->is_full)
        return maker_too_large(maker);
    if (key.len == 0)
        key = slice_of("a value");
    err_set(&reason, "%.*s is not of the type it must be", SLICE_ARGS(key));
    maker_reject(maker, wrong_code(key), id, reason.text);
    return BATCH_OK;
}

/* Logs */

/* The middle of what OTLP counts for each name. */
static int field_severity(struct fields_reader *reader, struct value *value, void *field)
{
    enum { PER_NAME = 4 };
    static const char *const names[] = {"trace", "debug", "info", "warn", "error", "fatal", NULL};
    if (value->type != VALUE_TEXT)
        return field_i64(reader, value, field);
    int64_t at;
    if (native_name(reader, value, names, &at) == -1)
        return -1;
    *(int64_t *)field = at * PER_NAME + 1;
    return 0;
}

static const struct field log_fields[] = {
    {"id", field_text, offsetof(struct raw_log, id)},
    {"ts_ns", field_u64, offsetof(struct raw_log, time_ns)},
    {"severity", field_severity, offsetof(struct raw_log, severity)},
    {"body", field_value, offsetof(struct raw_log, body)},
    {"event_name", field_text, offsetof(struct raw_log, event_name)},
    {"trace_id", native_trace_id, offsetof(struct raw_log, trace_id)},
    {"span_id", native_span_id, offsetof(struct raw_log, span_id)},
    {"attrs", field_map, offsetof(struct raw_log, attributes)},
    {0},
};

enum batch_result native_log(struct maker *maker, struct value *event)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    struct raw_log raw = {0};
    if (fields_read(&reader, event, log_fields, &raw) == -1)
        return native_wrong(maker, &reader, raw.id);
    return raw_log_add(maker, &raw);
}

/* Metrics */

struct metric {
    struct raw_metric shared;
    struct raw_point point;
    int64_t kind;
};

/* A histogram has no native form: its one value would be a lie. */
static int field_metric_kind(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"gauge", "sum", NULL};
    return value->type == VALUE_TEXT ? native_name(reader, value, names, field) : -1;
}

static int field_temporality(struct fields_reader *reader, struct value *value, void *field)
{
    static const char *const names[] = {"unspecified", "delta", "cumulative", NULL};
    return native_name(reader, value, names, field);
}

static int field_number(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    struct raw_number *number = field;
    number->state = value->type == VALUE_INT ? RAW_NUMBER_INT : RAW_NUMBER_DOUBLE;
    if (value->type == VALUE_INT)
        number->integer = value->integer;
    else if (value->type == VALUE_DOUBLE)
        number->number = value->number;
    else
        return -1;
    return 0;
}

static const struct field metric_fields[] = {
    {"id", field_text, offsetof(struct metric, shared.id)},
    {"name", field_text, offsetof(struct metric, shared.name)},
    {"unit", field_text, offsetof(struct metric, shared.unit)},
    {"kind", field_metric_kind, offsetof(struct metric, kind)},
    {"temporality", field_temporality, offsetof(struct metric, shared.temporality)},
    {"monotonic", field_bool, offsetof(struct metric, shared.is_monotonic)},
    {"ts_ns", field_u64, offsetof(struct metric, point.time_ns)},
    {"start_ns", field_u64, offsetof(struct metric, point.start_ns)},
    {"value", field_number, offsetof(struct metric, point.value)},
    {"attrs", field_map, offsetof(struct metric, point.attributes)},
    {0},
};

enum batch_result native_metric(struct maker *maker, struct value *event)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    struct metric metric = {0};
    if (fields_read(&reader, event, metric_fields, &metric) == -1)
        return native_wrong(maker, &reader, metric.shared.id);
    metric.shared.kind = metric.kind == 0 ? POINT_GAUGE : POINT_SUM;
    return raw_point_add(maker, &metric.shared, &metric.point);
}

/* Scores and runs */

static const struct field score_fields[] = {
    {"id", field_text, offsetof(struct raw_score, id)},
    {"name", field_text, offsetof(struct raw_score, name)},
    {"value", field_value, offsetof(struct raw_score, value)},
    {"data_type", field_text, offsetof(struct raw_score, data_type)},
    {"trace_id", native_trace_id, offsetof(struct raw_score, trace_id)},
    {"span_id", native_span_id, offsetof(struct raw_score, span_id)},
    {"session_id", field_text, offsetof(struct raw_score, session)},
    {"run_id", field_text, offsetof(struct raw_score, run)},
    {"source", field_text, offsetof(struct raw_score, source)},
    {"comment", field_text, offsetof(struct raw_score, comment)},
    {"scorer", field_text, offsetof(struct raw_score, scorer)},
    {"version", field_text, offsetof(struct raw_score, version)},
    {"ts_ns", field_u64, offsetof(struct raw_score, time_ns)},
    {0},
};

enum batch_result native_score(struct maker *maker, struct value *event)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    struct raw_score raw = {0};
    if (fields_read(&reader, event, score_fields, &raw) == -1)
        return native_wrong(maker, &reader, raw.id);
    return raw_score_add(maker, &raw);
}

static const struct field run_fields[] = {
    {"id", field_text, offsetof(struct raw_run, id)},
    {"state", field_text, offsetof(struct raw_run, state)},
    {"trace_id", native_trace_id, offsetof(struct raw_run, trace_id)},
    {"start_ns", field_u64, offsetof(struct raw_run, start_ns)},
    {"end_ns", field_u64, offsetof(struct raw_run, end_ns)},
    {"attrs", field_map, offsetof(struct raw_run, attributes)},
    {0},
};

enum batch_result native_run(struct maker *maker, struct value *event)
{
    struct fields_reader reader = {.arena = &maker->scratch};
    struct raw_run raw = {0};
    if (fields_read(&reader, event, run_fields, &raw) == -1)
        return native_wrong(maker, &reader, raw.id);
    return raw_run_add(maker, &raw);
}
