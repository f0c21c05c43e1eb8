// SPDX-License-Identifier: MIT
/* Logs and metrics: both encodings say the same, points of every kind keep what they carry, and
 * broken bodies do no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/otlp_json.h"
#include "proto/otlp_pb.h"
#include "tests/lib/mutate.h"

#define NOW_NS UINT64_C(1800000000000000000)

static const struct batch_policy policy = {.now_ns = NOW_NS};

static void assert_slice(struct slice actual, struct slice expected)
{
    assert_int_equal(actual.len, expected.len);
    if (actual.len > 0)
        assert_memory_equal(actual.data, expected.data, actual.len);
}

static void assert_text(struct slice actual, const char *expected)
{
    char copy[2048];
    snprintf(copy, sizeof(copy), SLICE_FORMAT, SLICE_ARGS(actual));
    assert_string_equal(copy, expected);
}

static void decode(decoder_function *decoder, struct slice body, struct batch *batch)
{
    struct err err = {""};
    batch_init(batch);
    assert_int_equal(decoder(batch, body, &policy, &err), BATCH_OK);
    batch_check(batch, &policy);
}

static void sdk_logs_say_the_same_in_both_encodings(void **state)
{
    (void)state;
    struct slice pb = read_data("otlp/sdk-logs.pb");
    struct slice json = read_data("otlp/sdk-logs.json");
    struct batch from_pb, from_json;
    decode(otlp_pb_logs, pb, &from_pb);
    decode(otlp_json_logs, json, &from_json);
    assert_int_equal(from_pb.event_count, 5);
    assert_int_equal(from_json.event_count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct log_record *a = &from_pb.events[i].log;
        const struct log_record *b = &from_json.events[i].log;
        assert_true(a->ts_ns == b->ts_ns && a->observed_ns == b->observed_ns);
        assert_int_equal(a->severity, b->severity);
        assert_slice(a->severity_text, b->severity_text);
        assert_slice(a->body, b->body);
        assert_slice(a->attrs, b->attrs);
        assert_slice(a->service, b->service);
    }
    const struct log_record *log = &from_pb.events[0].log;
    assert_int_equal(log->severity, 13);
    assert_text(log->severity_text, "WARN");
    assert_true(log->body_is_json);
    assert_text(log->body, "{\"codes\":[429,\"x\"],\"msg\":\"retrying\","
                           "\"raw\":{\"bytes\":\"AAH/\"},\"try\":0}");
    assert_true(log->observed_ns - log->ts_ns == 6678);
    batch_fini(&from_json);
    batch_fini(&from_pb);
    free((char *)json.data);
    free((char *)pb.data);
}

static void sdk_metrics_say_the_same_in_both_encodings(void **state)
{
    (void)state;
    struct slice pb = read_data("otlp/sdk-metrics.pb");
    struct slice json = read_data("otlp/sdk-metrics.json");
    struct batch from_pb, from_json;
    decode(otlp_pb_metrics, pb, &from_pb);
    decode(otlp_json_metrics, json, &from_json);
    assert_int_equal(from_pb.event_count, 4);
    assert_int_equal(from_json.event_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct metric_point *a = &from_pb.events[i].metric;
        const struct metric_point *b = &from_json.events[i].metric;
        assert_true(a->ts_ns == b->ts_ns && a->start_ns == b->start_ns);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->temporality, b->temporality);
        assert_int_equal(a->is_monotonic, b->is_monotonic);
        assert_int_equal(a->is_int, b->is_int);
        assert_true(a->value == b->value && a->count == b->count);
        assert_slice(a->name, b->name);
        assert_slice(a->data, b->data);
        assert_slice(a->attrs, b->attrs);
    }
    const struct metric_point *points[] = {&from_pb.events[0].metric, &from_pb.events[1].metric,
                                           &from_pb.events[2].metric};
    assert_true(points[0]->is_int && points[0]->integer == 1225 && points[0]->is_monotonic);
    assert_int_equal(points[1]->kind, POINT_HISTOGRAM);
    assert_true(points[1]->count == 50 && points[1]->value == 175.00000000000003);
    assert_true(points[2]->kind == POINT_GAUGE && points[2]->value == 17.5);
    batch_fini(&from_json);
    batch_fini(&from_pb);
    free((char *)json.data);
    free((char *)pb.data);
}

/* Decodes a metrics request in JSON with this metric in it. */
static enum batch_result decode_metric(const char *metric, struct batch *batch)
{
    char body[4096];
    struct err err = {""};
    snprintf(body, sizeof(body), "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[%s]}]}]}",
             metric);
    batch_init(batch);
    enum batch_result result = otlp_json_metrics(batch, slice_of(body), &policy, &err);
    if (result == BATCH_OK)
        batch_check(batch, &policy);
    return result;
}

#define TIME "\"timeUnixNano\":\"1700000000000000000\""

static void points_of_every_kind_keep_what_they_carry(void **state)
{
    (void)state;
    static const struct {
        const char *metric;
        enum point_kind kind;
        const char *data;
    } cases[] = {
        {"{\"name\":\"n\",\"description\":\"d\",\"gauge\":{\"dataPoints\":[{" TIME
         ",\"asDouble\":1,\"exemplars\":[{\"timeUnixNano\":5,\"asInt\":\"7\",\"traceId\":"
         "\"0000000000000000000000000000000a\",\"spanId\":\"000000000000000b\","
         "\"filteredAttributes\":[{\"key\":\"k\",\"value\":{\"boolValue\":true}}]}]}]}}",
         POINT_GAUGE,
         "{\"description\":\"d\",\"exemplars\":[{\"ts_ns\":5,\"value\":7,\"trace_id\":"
         "\"0000000000000000000000000000000a\",\"span_id\":\"000000000000000b\",\"attributes\":"
         "{\"k\":true}}]}"},
        {"{\"name\":\"n\",\"exponentialHistogram\":{\"aggregationTemporality\":1,\"dataPoints\":"
         "[{" TIME ",\"count\":\"3\",\"sum\":1.5,\"scale\":-2,\"zeroCount\":\"1\","
         "\"zeroThreshold\":0.5,\"positive\":{\"offset\":-1,\"bucketCounts\":[\"1\",2,"
         "\"18446744073709551615\"]},\"negative\":{},\"min\":\"-Infinity\",\"max\":2}]}}",
         POINT_EXPONENTIAL,
         "{\"count\":3,\"sum\":1.5,\"min\":\"-Infinity\",\"max\":2.0,\"scale\":-2,\"zero_count\":"
         "1,\"zero_threshold\":0.5,\"positive\":{\"offset\":-1,\"counts\":[1,2,"
         "\"18446744073709551615\"]},\"negative\":{\"offset\":0}}"},
        {"{\"name\":\"n\",\"summary\":{\"dataPoints\":[{" TIME ",\"count\":2,\"sum\":4,"
         "\"quantileValues\":[{\"quantile\":0.5,\"value\":1},{\"quantile\":1}]}]}}",
         POINT_SUMMARY, "{\"count\":2,\"sum\":4.0,\"quantiles\":[[0.5,1.0],[1.0,0.0]]}"},
        {"{\"name\":\"n\",\"histogram\":{\"dataPoints\":[{" TIME ",\"count\":1,\"bucketCounts\":"
         "[0,1],\"explicitBounds\":[2.5]}]}}",
         POINT_HISTOGRAM, "{\"count\":1,\"bounds\":[2.5],\"counts\":[0,1]}"},
        {"{\"name\":\"n\",\"sum\":{\"dataPoints\":[{" TIME ",\"flags\":1}]}}", POINT_SUM,
         "{\"flags\":1}"}, /* the sender has no value */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        assert_int_equal(decode_metric(cases[i].metric, &batch), BATCH_OK);
        assert_int_equal(batch.event_count, 1);
        assert_int_equal(batch.events[0].metric.kind, cases[i].kind);
        assert_text(batch.events[0].metric.data, cases[i].data);
        batch_fini(&batch);
    }
}

static void points_are_rejected_alone(void **state)
{
    (void)state;
    static const struct {
        const char *points;
        enum reject_code code;
    } cases[] = {
        {"{\"asInt\":1}", REJECT_MISSING},
        {"{" TIME "}", REJECT_MISSING},
        {"{" TIME ",\"asDouble\":\"NaN\"}", REJECT_BAD_VALUE},
        {"{" TIME ",\"asInt\":\"x\"}", REJECT_BAD_VALUE},
        {"5", REJECT_BAD_VALUE},
        {"{\"timeUnixNano\":\"18446744073709551615\",\"asInt\":1}", REJECT_OUT_OF_RANGE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        char metric[1024];
        snprintf(metric, sizeof(metric),
                 "{\"name\":\"n\",\"gauge\":{\"dataPoints\":[{" TIME ",\"asInt\":1},%s,{" TIME
                 ",\"asInt\":2}]}}",
                 cases[i].points);
        assert_int_equal(decode_metric(metric, &batch), BATCH_OK);
        assert_int_equal(batch.sent, 3);
        assert_int_equal(batch.rejected, 1);
        assert_int_equal(batch.rejects[0].index, 1);
        assert_int_equal(batch.rejects[0].code, cases[i].code);
        batch_fini(&batch);
    }
}

static void put_double(struct buf *out, unsigned field, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    put_fixed64(out, field, bits);
}

/* Makes a message a metric's only kind, and that the request's only metric. */
static void wrap_metric(struct buf *point, unsigned kind)
{
    struct buf metric;
    buf_init(&metric, 1 << 16);
    wrap(point, 1);
    put_text(&metric, 1, "n");
    put_bytes(&metric, kind, point->data, point->len);
    buf_fini(point);
    *point = metric;
    wrap(point, 2);
    wrap(point, 2);
    wrap(point, 1);
}

static void protobuf_points_of_the_rarer_kinds(void **state)
{
    (void)state;
    struct batch batch;
    struct buf point, part;
    buf_init(&point, 1 << 16);
    put_fixed64(&point, 3, NOW_NS);
    put_fixed64(&point, 4, 3);
    put_double(&point, 5, 1.5);
    put_number(&point, 6, 3); /* sint32: -2 */
    buf_init(&part, 1000);
    put_number(&part, 1, 1);                /* sint32: -1 */
    put_bytes(&part, 2, "\x01\x80\x01", 3); /* packed: 1, 128 */
    put_bytes(&point, 8, part.data, part.len);
    wrap_metric(&point, 10);
    decode(otlp_pb_metrics, (struct slice){point.data, point.len}, &batch);
    assert_text(batch.events[0].metric.data,
                "{\"count\":3,\"sum\":1.5,\"scale\":-2,\"zero_threshold\":0.0,"
                "\"positive\":{\"offset\":-1,\"counts\":[1,128]}}");
    batch_fini(&batch);
    buf_fini(&point);

    buf_init(&point, 1 << 16);
    put_fixed64(&point, 3, NOW_NS);
    buf_reset(&part);
    put_double(&part, 1, 0.5);
    put_double(&part, 2, 7);
    put_bytes(&point, 6, part.data, part.len);
    wrap_metric(&point, 11);
    decode(otlp_pb_metrics, (struct slice){point.data, point.len}, &batch);
    assert_text(batch.events[0].metric.data, "{\"sum\":0.0,\"quantiles\":[[0.5,7.0]]}");
    batch_fini(&batch);
    buf_fini(&part);
    buf_fini(&point);
}

static void a_log_without_time_takes_the_observed_one(void **state)
{
    (void)state;
    struct batch batch;
    decode(otlp_json_logs,
           slice_of("{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":["
                    "{\"observedTimeUnixNano\":\"1700000000000000000\",\"eventName\":\"e\","
                    "\"severityNumber\":\"SEVERITY_NUMBER_ERROR2\",\"body\":{\"intValue\":5},"
                    "\"traceId\":\"\",\"spanId\":\"0000000000000000\"},"
                    "{\"body\":{\"stringValue\":\"timeless\"}}]}]}]}"),
           &batch);
    assert_int_equal(batch.event_count, 1);
    assert_int_equal(batch.rejects[0].code, REJECT_MISSING);
    const struct log_record *log = &batch.events[0].log;
    assert_true(log->ts_ns == UINT64_C(1700000000000000000));
    assert_int_equal(log->severity, 18);
    assert_text(log->event_name, "e");
    assert_text(log->body, "5");
    assert_true(log->body_is_json && !log->has_trace && !log->has_span);
    batch_fini(&batch);
}

static void broken_bodies_do_no_harm(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        decoder_function *decoder;
    } cases[] = {
        {"otlp/sdk-logs.pb", otlp_pb_logs},
        {"otlp/sdk-logs.json", otlp_json_logs},
        {"otlp/sdk-metrics.pb", otlp_pb_metrics},
        {"otlp/sdk-metrics.json", otlp_json_metrics},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slice body = read_data(cases[i].file);
        for (size_t len = 1; len < body.len; len++)
            assert_int_equal(
                decode_checked(cases[i].decoder, (struct slice){body.data, len}, &policy),
                BATCH_MALFORMED);
        assert_in_range(decode_mutants(cases[i].decoder, body, 5000, &policy), 50, 4950);
        free((char *)body.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sdk_logs_say_the_same_in_both_encodings),
        cmocka_unit_test(sdk_metrics_say_the_same_in_both_encodings),
        cmocka_unit_test(points_of_every_kind_keep_what_they_carry),
        cmocka_unit_test(points_are_rejected_alone),
        cmocka_unit_test(protobuf_points_of_the_rarer_kinds),
        cmocka_unit_test(a_log_without_time_takes_the_observed_one),
        cmocka_unit_test(broken_bodies_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
