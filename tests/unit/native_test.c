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
static const struct batch_policy all_types = {
    .now_ns = NOW_NS, .oldest_ns = UINT64_C(1600000000000000000), .types = EVENT_BITS_ALL};

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

/* Decodes one event of any type; the batch is the caller's. */
static void decode_event(const char *event, struct batch *batch)
{
    char body[4096];
    struct err err = {""};
    snprintf(body, sizeof(body), "{\"resource\":{\"service.name\":\"svc\"},\"events\":[%s]}",
             event);
    batch_init(batch);
    assert_int_equal(native_json(batch, slice_of(body), &all_types, &err), BATCH_OK);
    assert_int_equal(batch->sent, 1);
    batch_check(batch, &all_types);
}

#define TS    "\"ts_ns\":1700000000000000000"
#define TRACE "\"trace_id\":\"0000000000000000000000000000000a\""

static void a_log_arrives_whole(void **state)
{
    (void)state;
    struct batch batch;
    decode_event(
        "{\"type\":\"log\"," TS ",\"severity\":\"Warn\",\"body\":\"slow\"," TRACE
        ",\"span_id\":null,\"attrs\":{\"session.id\":\"s\",\"input.value\":\"hi\",\"n\":1}}",
        &batch);
    assert_int_equal(batch.events[0].type, EVENT_LOG);
    const struct log_record *log = &batch.events[0].log;
    assert_true(log->ts_ns == UINT64_C(1700000000000000000));
    assert_int_equal(log->severity, 13);
    assert_text(log->body, "slow");
    assert_false(log->body_is_json);
    assert_true(log->has_trace && log->trace_id[15] == 10);
    assert_false(log->has_span);
    assert_text(log->session, "s");
    assert_text(log->service, "svc");
    assert_text(log->content, "{\"input.value\":\"hi\"}");
    assert_text(log->attrs, "{\"attributes\":{\"session.id\":\"s\",\"n\":1},"
                            "\"resource\":{\"service.name\":\"svc\"}}");
    batch_fini(&batch);
}

static void a_metric_arrives_whole(void **state)
{
    (void)state;
    struct batch batch;
    decode_event("{\"type\":\"metric\"," TS ",\"name\":\"queue.depth\",\"kind\":\"gauge\","
                 "\"value\":4,\"unit\":\"1\",\"attrs\":{\"gen_ai.request.model\":\"m\"}}",
                 &batch);
    assert_int_equal(batch.events[0].type, EVENT_METRIC);
    const struct metric_point *point = &batch.events[0].metric;
    assert_text(point->name, "queue.depth");
    assert_text(point->unit, "1");
    assert_text(point->model, "m");
    assert_int_equal(point->kind, POINT_GAUGE);
    assert_true(point->has_value && point->is_int && point->integer == 4 && point->value == 4.0);
    assert_text(point->data, "{}");
    batch_fini(&batch);
}

static void a_score_arrives_whole(void **state)
{
    (void)state;
    struct batch batch;
    decode_event("{\"type\":\"score\",\"id\":\"s1\",\"name\":\"helpful\",\"value\":0.8,"
                 "\"data_type\":\"number\"," TRACE ",\"span_id\":null,\"session_id\":null,"
                 "\"comment\":\"c\",\"source\":\"human\",\"scorer\":\"x\",\"version\":\"2\"}",
                 &batch);
    assert_int_equal(batch.events[0].type, EVENT_SCORE);
    const struct score *score = &batch.events[0].score;
    assert_text(score->id, "s1");
    assert_text(score->name, "helpful");
    assert_int_equal(score->type, SCORE_NUMBER);
    assert_int_equal(score->target, SCORE_OF_TRACE);
    assert_true(score->number == 0.8);
    assert_text(score->comment, "c");
    assert_text(score->source, "human");
    assert_text(score->scorer, "x");
    assert_text(score->version, "2");
    assert_true(score->ts_ns == NOW_NS);
    batch_fini(&batch);
}

static void a_run_arrives_whole(void **state)
{
    (void)state;
    struct batch batch;
    decode_event("{\"type\":\"run\",\"id\":\"r1\",\"state\":\"done\"," TRACE ",\"start_ns\":"
                 "1700000000000000000,\"end_ns\":1700000000000000001,\"attrs\":{\"gen_ai.agent."
                 "name\":\"a\"}}",
                 &batch);
    assert_int_equal(batch.events[0].type, EVENT_RUN);
    const struct run *run = &batch.events[0].run;
    assert_text(run->id, "r1");
    assert_text(run->state, "done");
    assert_text(run->agent, "a");
    assert_text(run->service, "svc");
    assert_true(run->has_trace && run->end_ns - run->start_ns == 1);
    batch_fini(&batch);
}

#define SCORE "\"type\":\"score\",\"name\":\"n\""

static void other_types_are_checked(void **state)
{
    (void)state;
    char label[1024], text[1024], id[1024];
    snprintf(label, sizeof(label),
             "{" SCORE "," TRACE ",\"data_type\":\"label\",\"value\":\"%0201d\"}", 1);
    snprintf(text, sizeof(text), "{" SCORE "," TRACE ",\"value\":\"%0501d\"}", 1);
    snprintf(id, sizeof(id), "{" SCORE "," TRACE ",\"value\":1,\"id\":\"%0201d\"}", 1);
    const struct {
        const char *event;
        const char *code; /* null: it is taken */
    } cases[] = {
        {"{" SCORE "," TRACE ",\"value\":true}", NULL},
        {"{" SCORE "," TRACE ",\"value\":\"good\"}", NULL},
        {"{" SCORE ",\"session_id\":\"s\",\"value\":1}", NULL},
        {"{" SCORE ",\"run_id\":\"r\",\"value\":1,\"data_type\":\"boolean\"}", NULL},
        {"{" SCORE "," TRACE ",\"span_id\":\"000000000000000b\",\"value\":1}", NULL},
        {"{" SCORE ",\"value\":1}", "missing"},
        {"{" SCORE ",\"span_id\":\"000000000000000b\",\"value\":1}", "missing"},
        {"{" SCORE "," TRACE ",\"session_id\":\"s\",\"value\":1}", "bad_value"},
        {"{" SCORE "," TRACE "}", "missing"},
        {"{\"type\":\"score\"," TRACE ",\"value\":1}", "missing"},
        {"{" SCORE "," TRACE ",\"value\":2,\"data_type\":\"boolean\"}", "bad_value"},
        {"{" SCORE "," TRACE ",\"value\":true,\"data_type\":\"number\"}", "bad_value"},
        {"{" SCORE "," TRACE ",\"value\":1,\"data_type\":\"label\"}", "bad_value"},
        {"{" SCORE "," TRACE ",\"value\":\"\",\"data_type\":\"label\"}", "bad_value"},
        {"{" SCORE "," TRACE ",\"value\":1,\"data_type\":\"colour\"}", "bad_value"},
        {"{" SCORE "," TRACE ",\"value\":1e400}", NULL}, /* as the text that it becomes */
        {"{" SCORE "," TRACE ",\"value\":1e400,\"data_type\":\"number\"}", "bad_value"},
        {"{" SCORE "," TRACE ",\"value\":[]}", "bad_value"},
        {"{" SCORE ",\"trace_id\":\"x\",\"value\":1}", "bad_id"},
        {"{" SCORE "," TRACE ",\"value\":1,\"ts_ns\":1500000000000000000}", "out_of_range"},
        {label, "too_big"},
        {text, "too_big"},
        {id, "bad_id"},
        {"{\"type\":\"log\"," TS ",\"body\":{\"a\":[1]},\"severity\":9}", NULL},
        {"{\"type\":\"log\",\"body\":\"b\"}", "missing"},
        {"{\"type\":\"log\"," TS ",\"trace_id\":\"x\"}", "bad_id"},
        {"{\"type\":\"log\"," TS ",\"severity\":\"loud\"}", "bad_value"},
        {"{\"type\":\"metric\"," TS ",\"name\":\"n\",\"value\":1.5}", NULL},
        {"{\"type\":\"metric\"," TS ",\"name\":\"n\"}", "missing"},
        {"{\"type\":\"metric\"," TS ",\"value\":1}", "missing"},
        {"{\"type\":\"metric\",\"name\":\"n\",\"value\":1}", "missing"},
        {"{\"type\":\"metric\"," TS ",\"name\":\"n\",\"value\":1e400}", "bad_value"},
        {"{\"type\":\"metric\"," TS ",\"name\":\"n\",\"value\":1,\"kind\":\"histogram\"}",
         "bad_value"},
        {"{\"type\":\"run\",\"id\":\"r\",\"state\":\"started\"}", NULL},
        {"{\"type\":\"run\",\"state\":\"done\"}", "missing"},
        {"{\"type\":\"run\",\"id\":\"r\"}", "missing"},
        {"{\"type\":\"run\",\"id\":\"r\",\"state\":\"done\",\"start_ns\":1700000000000000001,"
         "\"end_ns\":1700000000000000000}",
         "bad_time"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        decode_event(cases[i].event, &batch);
        assert_int_equal(batch.rejected, cases[i].code ? 1 : 0);
        if (cases[i].code)
            assert_string_equal(reject_code_name(batch.rejects[0].code), cases[i].code);
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

/* The same batch as msgpack, with its ids as bin. */
static void msgpack_says_the_same(void **state)
{
    (void)state;
    struct slice body = read_data("native/batch.msgpack");
    struct slice text = read_data("native/batch.json");
    struct batch packed, json;
    struct err err = {""};
    batch_init(&packed);
    batch_init(&json);
    assert_int_equal(native_msgpack(&packed, body, &all_types, &err), BATCH_OK);
    assert_int_equal(native_json(&json, text, &all_types, &err), BATCH_OK);
    batch_check(&packed, &all_types);
    assert_int_equal(packed.event_count, EVENT_TYPE_COUNT);
    assert_int_equal(json.event_count, EVENT_TYPE_COUNT);
    assert_text(packed.idempotency_key, "run-812-7");
    const struct span *a = &packed.events[0].span;
    const struct span *b = &json.events[0].span;
    assert_memory_equal(a->trace_id, b->trace_id, 16);
    assert_memory_equal(a->span_id, b->span_id, 8);
    assert_int_equal(a->attrs.len, b->attrs.len);
    assert_memory_equal(a->attrs.data, b->attrs.data, a->attrs.len);
    assert_int_equal(a->content.len, b->content.len);
    assert_true(packed.events[3].metric.value == json.events[3].metric.value);
    batch_fini(&json);
    batch_fini(&packed);
    for (size_t len = 0; len < body.len; len++)
        assert_int_equal(decode_checked(native_msgpack, (struct slice){body.data, len}, &all_types),
                         BATCH_MALFORMED);
    assert_in_range(decode_mutants(native_msgpack, body, 20000, &all_types), 100, 19900);
    assert_in_range(decode_mutants(native_json, text, 10000, &all_types), 100, 9900);
    free((char *)text.data);
    free((char *)body.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_arrives_whole),
        cmocka_unit_test(events_are_rejected_alone),
        cmocka_unit_test(a_log_arrives_whole),
        cmocka_unit_test(a_metric_arrives_whole),
        cmocka_unit_test(a_score_arrives_whole),
        cmocka_unit_test(a_run_arrives_whole),
        cmocka_unit_test(other_types_are_checked),
        cmocka_unit_test(msgpack_says_the_same),
        cmocka_unit_test(bodies_are_judged),
        cmocka_unit_test(the_number_of_events_is_limited),
        cmocka_unit_test(events_are_limited),
        cmocka_unit_test(texts_are_cleaned_everywhere),
        cmocka_unit_test(every_cut_is_malformed),
        cmocka_unit_test(mutants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
