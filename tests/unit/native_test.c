// SPDX-License-Identifier: MIT
/* Native batches: each event is taken or rejected for itself with the right code, the batch's own
 * limits hold, and texts are cleaned rather than refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/native.h"
#include "tests/lib/mutate.h"

#define NOW_NS UINT64_C(1800000000000000000)

static const struct batch_policy policy = {.now_ns = NOW_NS,
                                           .oldest_ns = UINT64_C(1600000000000000000)};

#define IDS   "\"trace_id\":\"0000000000000000000000000000000a\",\"span_id\":\"000000000000000b\""
#define TIMES "\"start_ns\":1700000000000000000,\"end_ns\":1700000000000000001"
#define SPAN  "\"type\":\"span\",\"name\":\"n\"," IDS "," TIMES

static const char full_batch[] =
    "{\"schema\":1,\"idempotency_key\":\"run-812-7\","
    "\"resource\":{\"service.name\":\"shop-agent\",\"deployment.environment.name\":\"prod\"},"
    "\"events\":[{\"type\":\"span\"," IDS
    ",\"parent_id\":null,\"name\":\"chat m\",\"kind\":\"client\"," TIMES
    ",\"status\":\"error\",\"error\":\"timeout\","
    "\"attrs\":{\"gen_ai.operation.name\":\"chat\",\"big\":12345678901234567890,\"far\":1e400,"
    "\"list\":[1,2.5,null,{\"a\":true}],\"twice\":1,\"twice\":2},"
    "\"events\":[{\"name\":\"first token\",\"ts_ns\":1700000000000000000,\"attrs\":{\"ms\":412}}],"
    "\"links\":[{\"trace_id\":\"0000000000000000000000000000000c\",\"span_id\":"
    "\"000000000000000d\"}]},"
    "{\"type\":\"score\",\"id\":\"s1\",\"name\":\"helpful\",\"value\":0.8}]}";

static enum batch_result decode(struct slice body, struct batch *batch)
{
    struct err err = {""};
    batch_init(batch);
    enum batch_result result = native_json(batch, body, &policy, &err);
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

static void a_span_arrives_whole(void **state)
{
    (void)state;
    struct batch batch;
    assert_int_equal(decode(slice_of(full_batch), &batch), BATCH_OK);
    assert_int_equal(batch.event_count, 1);
    assert_text(batch.idempotency_key, "run-812-7");
    const struct span *span = &batch.events[0].span;
    assert_int_equal(span->trace_id[15], 10);
    assert_int_equal(span->span_id[7], 11);
    assert_false(span->has_parent);
    assert_text(span->name, "chat m");
    assert_int_equal(span->kind, SPAN_KIND_CLIENT);
    assert_int_equal(span->status, SPAN_STATUS_ERROR);
    assert_text(span->error_type, "timeout");
    assert_text(span->op, "chat");
    assert_text(span->service, "shop-agent");
    assert_text(span->env, "prod");
    assert_text(
        span->attrs,
        "{\"attributes\":{\"gen_ai.operation.name\":\"chat\",\"big\":\"12345678901234567890\","
        "\"far\":\"1e400\",\"list\":[1,2.5,null,{\"a\":true}],\"twice\":2},"
        "\"resource\":{\"service.name\":\"shop-agent\",\"deployment.environment.name\":\"prod\"},"
        "\"events\":[{\"ts_ns\":1700000000000000000,\"name\":\"first "
        "token\",\"attributes\":{\"ms\":412}}],"
        "\"links\":[{\"trace_id\":\"0000000000000000000000000000000c\",\"span_id\":"
        "\"000000000000000d\"}]}");
    assert_int_equal(batch.rejected, 1);
    assert_int_equal(batch.rejects[0].index, 1);
    assert_int_equal(batch.rejects[0].code, REJECT_BAD_TYPE);
    assert_text(batch.rejects[0].id, "s1");
    batch_fini(&batch);
}

static void events_are_rejected_alone(void **state)
{
    (void)state;
    static const struct {
        const char *event;
        const char *code; /* null: it is taken */
    } cases[] = {
        {"{" SPAN "}", NULL},
        {"{" SPAN ",\"kind\":\"CLIENT\",\"status\":1,\"unknown\":[{}]}", NULL},
        {"{" SPAN ",\"end_ns\":5,\"end_ns\":null}", NULL},
        {"{" SPAN ",\"start_ns\":\"1700000000000000000\"}", NULL},
        {"5", "bad_type"},
        {"{}", "bad_type"},
        {"{\"type\":5}", "bad_type"},
        {"{\"type\":\"spam\"}", "bad_type"},
        {"{\"type\":\"log\"}", "bad_type"},
        {"{\"type\":\"span\",\"name\":\"n\"," TIMES "}", "missing"},
        {"{\"type\":\"span\"," IDS "," TIMES "}", "missing"},
        {"{\"type\":\"span\",\"name\":\"n\"," IDS "}", "missing"},
        {"{" SPAN ",\"trace_id\":\"xyz\"}", "bad_id"},
        {"{" SPAN ",\"trace_id\":5}", "bad_id"},
        {"{" SPAN ",\"span_id\":\"0000000000000000\"}", "bad_id"},
        {"{" SPAN ",\"parent_id\":\"1\"}", "bad_id"},
        {"{" SPAN ",\"start_ns\":\"x\"}", "bad_time"},
        {"{" SPAN ",\"start_ns\":-1}", "bad_time"},
        {"{" SPAN ",\"start_ns\":1700000000000000002}", "bad_time"},
        {"{" SPAN ",\"start_ns\":1800086400000000001,\"end_ns\":null}", "out_of_range"},
        {"{" SPAN ",\"start_ns\":1500000000000000000}", "out_of_range"},
        {"{" SPAN ",\"kind\":\"customer\"}", "bad_value"},
        {"{" SPAN ",\"attrs\":[]}", "bad_value"},
        {"{" SPAN ",\"name\":{}}", "bad_value"},
        {"{" SPAN ",\"events\":{}}", "bad_value"},
        {"{" SPAN ",\"links\":[1]}", "bad_value"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        char body[2048];
        /* A good one on both sides, which must not be touched. */
        snprintf(body, sizeof(body), "{\"events\":[{" SPAN "},%s,{" SPAN "}]}", cases[i].event);
        assert_int_equal(decode(slice_of(body), &batch), BATCH_OK);
        assert_int_equal(batch.sent, 3);
        assert_int_equal(batch.rejected, cases[i].code ? 1 : 0);
        if (cases[i].code) {
            assert_string_equal(reject_code_name(batch.rejects[0].code), cases[i].code);
            assert_int_equal(batch.rejects[0].index, 1);
            assert_true(batch.rejects[0].message.len > 0);
        }
        batch_fini(&batch);
    }
}

static void bodies_are_judged(void **state)
{
    (void)state;
    char long_key[256];
    snprintf(long_key, sizeof(long_key), "{\"events\":[],\"idempotency_key\":\"%0201d\"}", 1);
    const struct {
        const char *body;
        enum batch_result result;
    } cases[] = {
        {"{\"events\":[]}", BATCH_OK},
        {"{\"schema\":1,\"events\":[],\"later\":true}", BATCH_OK},
        {"{\"events\":[],\"idempotency_key\":null}", BATCH_OK},
        {"{\"events\":[],\"idempotency_key\":\"a\"}", BATCH_OK},
        {"{}", BATCH_MALFORMED},
        {"", BATCH_MALFORMED},
        {"[]", BATCH_MALFORMED},
        {"{\"events\":{}}", BATCH_MALFORMED},
        {"{\"events\":null}", BATCH_MALFORMED},
        {"{\"schema\":2,\"events\":[]}", BATCH_MALFORMED},
        {"{\"schema\":\"x\",\"events\":[]}", BATCH_MALFORMED},
        {"{\"resource\":[],\"events\":[]}", BATCH_MALFORMED},
        {"{\"events\":[],\"idempotency_key\":\"\"}", BATCH_BAD_KEY},
        {"{\"events\":[],\"idempotency_key\":\"a b\"}", BATCH_BAD_KEY},
        {"{\"events\":[],\"idempotency_key\":5}", BATCH_BAD_KEY},
        {long_key, BATCH_BAD_KEY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(decode_checked(native_json, slice_of(cases[i].body), &policy),
                         cases[i].result);
}

static void the_number_of_events_is_limited(void **state)
{
    (void)state;
    struct buf body;
    buf_init(&body, 1 << 20);
    must(buf_add_str(&body, "{\"events\":[0"));
    for (size_t i = 1; i < BATCH_NATIVE_EVENTS_MAX; i++)
        must(buf_add_str(&body, ",0"));
    size_t len = body.len;
    struct batch batch;
    must(buf_add_str(&body, "]}"));
    assert_int_equal(decode((struct slice){body.data, body.len}, &batch), BATCH_OK);
    assert_int_equal(batch.rejected, BATCH_NATIVE_EVENTS_MAX);
    batch_fini(&batch);
    body.len = len;
    must(buf_add_str(&body, ",0]}"));
    assert_int_equal(decode((struct slice){body.data, body.len}, &batch), BATCH_TOO_MANY_EVENTS);
    batch_fini(&batch);
    buf_fini(&body);
}

/* Decodes one span whose attrs are these bytes. */
static void decode_attrs(const struct buf *attrs, struct batch *batch)
{
    struct buf body;
    buf_init(&body, 4 << 20);
    must(buf_add_str(&body, "{\"events\":[{" SPAN ",\"attrs\":"));
    put(&body, attrs->data, attrs->len);
    must(buf_add_str(&body, "}]}"));
    assert_int_equal(decode((struct slice){body.data, body.len}, batch), BATCH_OK);
    buf_fini(&body);
}

static void events_are_limited(void **state)
{
    (void)state;
    enum { COUNT, KEY, DEPTH, BYTES, WHATS };
    for (int what = 0; what < WHATS; what++) {
        for (int over = 0; over < 2; over++) {
            struct buf attrs;
            struct batch batch;
            buf_init(&attrs, 4 << 20);
            must(buf_add_str(&attrs, "{\"a\":0"));
            for (int i = 1; what == COUNT && i < 256 + over; i++)
                must(buf_printf(&attrs, ",\"%d\":0", i));
            if (what == KEY)
                must(buf_printf(&attrs, ",\"%0*d\":0", 256 + over, 7));
            for (int i = 0; what == DEPTH && i < 14 + over; i++) /* in the event and in attrs */
                must(buf_add_str(&attrs, i == 0 ? ",\"d\":[" : "["));
            for (int i = 0; what == DEPTH && i < 14 + over; i++)
                must(buf_add_str(&attrs, "]"));
            if (what == BYTES)
                must(buf_printf(&attrs, ",\"t\":\"%0*d\"", over ? 1048576 : 1048000, 7));
            must(buf_add_str(&attrs, "}"));
            decode_attrs(&attrs, &batch);
            assert_int_equal(batch.rejected, over);
            if (over)
                assert_int_equal(batch.rejects[0].code, REJECT_TOO_BIG);
            batch_fini(&batch);
            buf_fini(&attrs);
        }
    }
}

static void texts_are_cleaned_everywhere(void **state)
{
    (void)state;
    struct batch batch;
    static const char body[] =
        "{\"resource\":{\"service.name\":\"s\\u0000\"},\"events\":[{" SPAN
        ",\"name\":\"n\xff\\ud800\",\"error\":\"e\\u0000\",\"attrs\":{\"k\xc0\":\"v\\u0000\"}},"
        "{\"type\":\"x\",\"id\":\"i\xfe\"}]}";
    assert_int_equal(decode((struct slice){body, sizeof(body) - 1}, &batch), BATCH_OK);
    const struct span *span = &batch.events[0].span;
    assert_text(span->name, "n\xef\xbf\xbd\xef\xbf\xbd");
    assert_text(span->error_type, "e\xef\xbf\xbd");
    assert_text(span->service, "s\xef\xbf\xbd");
    assert_text(span->attrs, "{\"attributes\":{\"k\xef\xbf\xbd\":\"v\xef\xbf\xbd\"},"
                             "\"resource\":{\"service.name\":\"s\xef\xbf\xbd\"}}");
    assert_text(batch.rejects[0].id, "i\xef\xbf\xbd");
    batch_fini(&batch);
}

static void every_cut_is_malformed(void **state)
{
    (void)state;
    for (size_t len = 0; len + 1 < sizeof(full_batch); len++)
        assert_int_equal(decode_checked(native_json, (struct slice){full_batch, len}, &policy),
                         BATCH_MALFORMED);
}

static void mutants_do_no_harm(void **state)
{
    (void)state;
    size_t decoded = decode_mutants(native_json, slice_of(full_batch), 20000, &policy);
    assert_in_range(decoded, 100, 19900); /* else they test one side only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_arrives_whole),   cmocka_unit_test(events_are_rejected_alone),
        cmocka_unit_test(bodies_are_judged),      cmocka_unit_test(the_number_of_events_is_limited),
        cmocka_unit_test(events_are_limited),     cmocka_unit_test(texts_are_cleaned_everywhere),
        cmocka_unit_test(every_cut_is_malformed), cmocka_unit_test(mutants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
