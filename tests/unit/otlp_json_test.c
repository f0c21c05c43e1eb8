// SPDX-License-Identifier: MIT
/* JSON traces: what the specification asks for and what senders really write is understood, the
 * rest is refused with a reason, by the span where possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/otlp_json.h"
#include "tests/lib/mutate.h"

#define NOW_NS UINT64_C(1800000000000000000)

static const struct batch_policy policy = {.now_ns = NOW_NS};

#define IDS "\"traceId\":\"00000000000000000000000000000001\",\"spanId\":\"0000000000000002\""
#define TIMES \
    "\"startTimeUnixNano\":\"1700000000000000000\",\"endTimeUnixNano\":\"1700000000000000009\""

/* Decodes a request of one span with these members. */
static enum batch_result decode_span(const char *members, struct batch *batch)
{
    char body[4096];
    struct err err = {""};
    int len = snprintf(body, sizeof(body),
                       "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{%s}]}]}]}", members);
    assert_in_range(len, 1, sizeof(body) - 1);
    batch_init(batch);
    enum batch_result result =
        otlp_json_traces(batch, (struct slice){body, (size_t)len}, &policy, &err);
    if (result == BATCH_OK)
        batch_check(batch, &policy);
    return result;
}

static void assert_text(struct slice actual, const char *expected)
{
    char copy[2048];
    snprintf(copy, sizeof(copy), SLICE_FORMAT, SLICE_ARGS(actual));
    assert_string_equal(copy, expected);
}

static void values_keep_their_type(void **state)
{
    (void)state;
    static const struct {
        const char *any_value;
        const char *json; /* null: the span is rejected */
    } cases[] = {
        {"{\"stringValue\":\"a\\u0000b\\ud83d\\ude42\\ud83d\"}", "\"a\xef\xbf\xbd"
                                                                 "b🙂\xef\xbf\xbd\""},
        {"{\"stringValue\":\"\xff\"}", "\"\xef\xbf\xbd\""},
        {"{\"stringValue\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
         "\"\\\"\\\\/\\u0008\\u000c\\u000a\\u000d\\u0009\""},
        {"{\"intValue\":\"9223372036854775807\"}", "9223372036854775807"},
        {"{\"intValue\":-9223372036854775808}", "-9223372036854775808"},
        {"{\"intValue\":\"9223372036854775808\"}", NULL},
        {"{\"intValue\":1.5}", NULL},
        {"{\"intValue\":1e3}", "1000"},
        {"{\"intValue\":\"1x\"}", NULL},
        {"{\"int_value\":7}", "7"},
        {"{\"doubleValue\":0.1}", "0.1"},
        {"{\"doubleValue\":3}", "3.0"},
        {"{\"doubleValue\":\"2.5\"}", "2.5"},
        {"{\"doubleValue\":\"NaN\"}", "\"NaN\""},
        {"{\"doubleValue\":\"-Infinity\"}", "\"-Infinity\""},
        {"{\"doubleValue\":\"nan\"}", NULL},
        {"{\"doubleValue\":\"0x10\"}", NULL},
        {"{\"boolValue\":true}", "true"},
        {"{\"boolValue\":\"true\"}", NULL},
        {"{\"bytesValue\":\"AAH/\"}", "{\"bytes\":\"AAH/\"}"},
        {"{\"bytesValue\":\"AAE\"}", "{\"bytes\":\"AAE=\"}"},
        {"{\"bytesValue\":\"AAH_\"}", "{\"bytes\":\"AAH/\"}"},
        {"{\"bytesValue\":\"A\"}", NULL},
        {"{\"arrayValue\":{\"values\":[{\"intValue\":1},{},null,{\"stringValue\":\"\"}]}}",
         "[1,null,null,\"\"]"},
        {"{\"arrayValue\":{}}", "[]"},
        {"{\"kvlistValue\":{\"values\":[{\"key\":\"a\",\"value\":{\"boolValue\":false}},{\"key\":"
         "\"b\"}]}}",
         "{\"a\":false,\"b\":null}"},
        {"{}", "null"},
        {"null", "null"},
        {"{\"laterValue\":1}", "null"},
        {"5", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        char members[1024], expected[1024];
        snprintf(members, sizeof(members),
                 IDS "," TIMES ",\"attributes\":[{\"key\":\"k\",\"value\":%s}]",
                 cases[i].any_value);
        assert_int_equal(decode_span(members, &batch), BATCH_OK);
        assert_int_equal(batch.rejected, cases[i].json ? 0 : 1);
        if (cases[i].json) {
            snprintf(expected, sizeof(expected), "{\"attributes\":{\"k\":%s}}", cases[i].json);
            assert_text(batch.events[0].span.attrs, expected);
        } else {
            assert_int_equal(batch.rejects[0].code, REJECT_BAD_VALUE);
        }
        batch_fini(&batch);
    }
}

static void other_spellings_mean_the_same(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        IDS "," TIMES ",\"kind\":3,\"status\":{\"code\":2},\"parentSpanId\":\"00000000000000ab\"",
        IDS "," TIMES ",\"kind\":\"SPAN_KIND_CLIENT\",\"status\":{\"code\":\"STATUS_CODE_ERROR\"},"
            "\"parentSpanId\":\"00000000000000AB\"",
        "\"trace_id\":\"00000000000000000000000000000001\",\"span_id\":\"0000000000000002\","
        "\"start_time_unix_nano\":1700000000000000000,\"end_time_unix_nano\":1700000000000000009,"
        "\"kind\":\"3\",\"status\":{\"code\":\"2\",\"later\":[{}]},\"parent_span_id\":"
        "\"00000000000000ab\","
        "\"name\":null,\"unknown\":{\"deep\":[1,2,{}]}",
    };
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        struct batch batch;
        assert_int_equal(decode_span(spellings[i], &batch), BATCH_OK);
        assert_int_equal(batch.event_count, 1);
        const struct span *span = &batch.events[0].span;
        assert_int_equal(span->trace_id[15], 1);
        assert_int_equal(span->span_id[7], 2);
        assert_int_equal(span->parent_id[7], 0xab);
        assert_int_equal(span->kind, SPAN_KIND_CLIENT);
        assert_int_equal(span->status, SPAN_STATUS_ERROR);
        assert_text(span->error_type, "_OTHER");
        assert_true(span->start_ns == UINT64_C(1700000000000000000));
        assert_true(span->end_ns == UINT64_C(1700000000000000009));
        batch_fini(&batch);
    }
}

static void spans_are_rejected_alone(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        enum reject_code code; /* REJECT_CODE_COUNT: it is taken */
    } cases[] = {
        {"", REJECT_MISSING},
        {"\"traceId\":\"\",\"spanId\":\"0000000000000002\"," TIMES, REJECT_MISSING},
        {"\"traceId\":\"1\",\"spanId\":\"0000000000000002\"," TIMES, REJECT_BAD_ID},
        {"\"traceId\":\"zz000000000000000000000000000001\",\"spanId\":\"0000000000000002\"," TIMES,
         REJECT_BAD_ID},
        {"\"traceId\":\"00000000000000000000000000000000\",\"spanId\":\"0000000000000002\"," TIMES,
         REJECT_BAD_ID},
        {"\"traceId\":5,\"spanId\":\"0000000000000002\"," TIMES, REJECT_BAD_VALUE},
        {IDS, REJECT_MISSING},
        {IDS "," TIMES ",\"parentSpanId\":\"12\"", REJECT_BAD_ID},
        {IDS "," TIMES ",\"parentSpanId\":\"0000000000000000\"", REJECT_CODE_COUNT},
        {IDS "," TIMES ",\"parentSpanId\":\"\"", REJECT_CODE_COUNT},
        {IDS ",\"startTimeUnixNano\":-5", REJECT_BAD_VALUE},
        {IDS ",\"startTimeUnixNano\":\"18446744073709551615\"", REJECT_OUT_OF_RANGE},
        {IDS "," TIMES ",\"kind\":\"SPAN_KIND_NEW\"", REJECT_BAD_VALUE},
        {IDS "," TIMES ",\"kind\":99", REJECT_CODE_COUNT},
        {IDS "," TIMES ",\"attributes\":{}", REJECT_BAD_VALUE},
        {IDS "," TIMES ",\"events\":[5]", REJECT_BAD_VALUE},
        {IDS "," TIMES ",\"links\":[{\"traceId\":\"zz\"}]", REJECT_CODE_COUNT},
        {IDS "," TIMES ",\"flags\":4294967296", REJECT_BAD_VALUE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        assert_int_equal(decode_span(cases[i].members, &batch), BATCH_OK);
        assert_int_equal(batch.sent, 1);
        assert_int_equal(batch.rejected, cases[i].code != REJECT_CODE_COUNT);
        if (batch.rejected > 0)
            assert_int_equal(batch.rejects[0].code, cases[i].code);
        batch_fini(&batch);
    }
}

static void bodies_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum batch_result result;
    } cases[] = {
        {"{}", BATCH_OK},
        {" {\"resourceSpans\":[]}\n", BATCH_OK},
        {"{\"resourceLogs\":[]}", BATCH_OK},
        {"{\"resourceSpans\":[{}]}", BATCH_OK},
        {"{\"resource_spans\":[{\"scope_spans\":[{\"scope\":null}]}]}", BATCH_OK},
        {"", BATCH_MALFORMED},
        {"[]", BATCH_MALFORMED},
        {"null", BATCH_MALFORMED},
        {"{\"resourceSpans\":{}}", BATCH_MALFORMED},
        {"{\"resourceSpans\":[5]}", BATCH_MALFORMED},
        {"{\"resourceSpans\":[{\"resource\":[]}]}", BATCH_MALFORMED},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"scope\":{\"name\":1}}]}]}", BATCH_MALFORMED},
        {"{} x", BATCH_MALFORMED},
        {"{}{}", BATCH_MALFORMED},
        {"{\"a\"}", BATCH_MALFORMED},
        {"{\"a\":}", BATCH_MALFORMED},
        {"{\"a\":1,}", BATCH_MALFORMED},
        {"{,}", BATCH_MALFORMED},
        {"{\"a\":01}", BATCH_MALFORMED},
        {"{\"a\":1.}", BATCH_MALFORMED},
        {"{\"a\":+1}", BATCH_MALFORMED},
        {"{\"a\":.5}", BATCH_MALFORMED},
        {"{\"a\":1e}", BATCH_MALFORMED},
        {"{\"a\":-}", BATCH_MALFORMED},
        {"{\"a\":tru}", BATCH_MALFORMED},
        {"{\"a\":NaN}", BATCH_MALFORMED},
        {"{\"a\":\"\\x\"}", BATCH_MALFORMED},
        {"{\"a\":\"\\u12g4\"}", BATCH_MALFORMED},
        {"{\"a\":[1 2]}", BATCH_MALFORMED},
        {"{'a':1}", BATCH_MALFORMED},
        {"{\"a\":[1e400,-0,0.0,1E+2,123456789012345678901234567890]}", BATCH_OK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(decode_checked(otlp_json_traces, slice_of(cases[i].body), &policy),
                         cases[i].result);
}

static void every_cut_is_malformed(void **state)
{
    (void)state;
    struct slice json = read_data("otlp/sdk-traces.json");
    for (size_t len = 0; len < json.len; len++)
        assert_int_equal(decode_checked(otlp_json_traces, (struct slice){json.data, len}, &policy),
                         BATCH_MALFORMED);
    assert_int_equal(decode_checked(otlp_json_traces, json, &policy), BATCH_OK);
    free((char *)json.data);
}

static void mutants_do_no_harm(void **state)
{
    (void)state;
    struct slice json = read_data("otlp/sdk-traces.json");
    size_t decoded = decode_mutants(otlp_json_traces, json, 10000, &policy);
    assert_in_range(decoded, 100, 9900); /* else they test one side only */
    free((char *)json.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_keep_their_type),   cmocka_unit_test(other_spellings_mean_the_same),
        cmocka_unit_test(spans_are_rejected_alone), cmocka_unit_test(bodies_are_judged),
        cmocka_unit_test(every_cut_is_malformed),   cmocka_unit_test(mutants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
