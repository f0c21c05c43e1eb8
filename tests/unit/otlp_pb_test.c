// SPDX-License-Identifier: MIT
/* Protobuf traces: all that a span carries arrives, and nothing a sender sends can do more than be
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/inflate.h"
#include "proto/otlp_json.h"
#include "proto/otlp_pb.h"
#include "tests/lib/mutate.h"

#define NOW_NS UINT64_C(1800000000000000000)

static const struct batch_policy policy = {.now_ns = NOW_NS};

/* Field numbers of the OTLP specification, written out again on purpose. */
enum {
    SPAN_TRACE_ID = 1,
    SPAN_SPAN_ID = 2,
    SPAN_PARENT = 4,
    SPAN_NAME = 5,
    SPAN_START = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    SPAN_EVENTS = 11,
    SPAN_STATUS = 15,
};

static void put_span_start(struct buf *span)
{
    buf_init(span, 1 << 20);
    put_bytes(span, SPAN_TRACE_ID, "0123456789abcdef", 16);
    put_bytes(span, SPAN_SPAN_ID, "01234567", 8);
    put_fixed64(span, SPAN_START, NOW_NS);
}

/* Turns a span into a request, decodes it and frees it. */
static enum batch_result decode_span(struct buf *span, struct batch *batch)
{
    struct err err = {""};
    wrap(span, 2);
    wrap(span, 2);
    wrap(span, 1);
    batch_init(batch);
    enum batch_result result =
        otlp_pb_traces(batch, (struct slice){span->data, span->len}, &policy, &err);
    buf_fini(span);
    if (result == BATCH_OK)
        batch_check(batch, &policy);
    return result;
}

static void assert_slice(struct slice actual, struct slice expected)
{
    assert_int_equal(actual.len, expected.len);
    if (actual.len > 0)
        assert_memory_equal(actual.data, expected.data, actual.len);
}

static void assert_same_span(const struct span *a, const struct span *b)
{
    assert_memory_equal(a->trace_id, b->trace_id, 16);
    assert_memory_equal(a->span_id, b->span_id, 8);
    assert_memory_equal(a->parent_id, b->parent_id, 8);
    assert_int_equal(a->has_parent, b->has_parent);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->start_ns, b->start_ns);
    assert_int_equal(a->end_ns, b->end_ns);
    assert_int_equal(a->in_tok, b->in_tok);
    assert_int_equal(a->out_tok, b->out_tok);
    assert_slice(a->name, b->name);
    assert_slice(a->error_type, b->error_type);
    assert_slice(a->op, b->op);
    assert_slice(a->provider, b->provider);
    assert_slice(a->model, b->model);
    assert_slice(a->tool, b->tool);
    assert_slice(a->agent, b->agent);
    assert_slice(a->session, b->session);
    assert_slice(a->mcp_method, b->mcp_method);
    assert_slice(a->mcp_session, b->mcp_session);
    assert_slice(a->service, b->service);
    assert_slice(a->env, b->env);
    assert_slice(a->attrs, b->attrs);
    assert_slice(a->content, b->content);
}

static void sdk_bodies_say_the_same_in_both_encodings(void **state)
{
    (void)state;
    struct slice pb = read_data("otlp/sdk-traces.pb");
    struct slice json = read_data("otlp/sdk-traces.json");
    struct batch from_pb, from_json;
    struct err err = {""};
    batch_init(&from_pb);
    batch_init(&from_json);
    assert_int_equal(otlp_pb_traces(&from_pb, pb, &policy, &err), BATCH_OK);
    assert_int_equal(otlp_json_traces(&from_json, json, &policy, &err), BATCH_OK);
    batch_check(&from_pb, &policy);
    assert_int_equal(from_pb.event_count, 3);
    assert_int_equal(from_json.event_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_same_span(&from_pb.events[i].span, &from_json.events[i].span);
    batch_fini(&from_json);
    batch_fini(&from_pb);
    free((char *)json.data);
    free((char *)pb.data);
}

static void an_sdk_span_arrives_whole(void **state)
{
    (void)state;
    struct slice pb = read_data("otlp/sdk-traces.pb");
    struct batch batch;
    struct err err = {""};
    batch_init(&batch);
    assert_int_equal(otlp_pb_traces(&batch, pb, &policy, &err), BATCH_OK);
    const struct span *chat = &batch.events[0].span;
    const struct span *tool = &batch.events[1].span;
    assert_slice(chat->name, slice_of("chat gpt-4o"));
    assert_int_equal(chat->kind, SPAN_KIND_CLIENT);
    assert_int_equal(chat->trace_id[0], 0x6e);
    assert_int_equal(chat->parent_id[7], 0x2f);
    assert_true(chat->end_ns - chat->start_ns == 3438);
    assert_slice(chat->model, slice_of("gpt-4o"));
    assert_int_equal(chat->in_tok, 1270);
    assert_int_equal(chat->out_tok, 88);
    assert_int_equal(chat->cache_tok, BATCH_TOKENS_NONE);
    assert_slice(chat->service, slice_of("order-agent"));
    assert_slice(chat->env, slice_of("prod"));
    assert_int_equal(tool->status, SPAN_STATUS_ERROR);
    assert_slice(tool->error_type, slice_of("*errors.errorString"));
    assert_slice(tool->mcp_session, slice_of("s-19"));
    assert_false(batch.events[2].span.has_parent);
    assert_slice(batch.events[2].span.session, slice_of("conv-77"));
    assert_slice(
        tool->attrs,
        slice_of("{\"attributes\":{\"gen_ai.operation.name\":\"execute_tool\",\"gen_ai.tool.name\":"
                 "\"lookup_order\",\"mcp.method.name\":\"tools/call\",\"mcp.session.id\":\"s-19\","
                 "\"cached\":false},\"resource\":{\"deployment.environment.name\":\"prod\","
                 "\"host.tags\":[\"eu\",\"spot\"],\"service.name\":\"order-agent\","
                 "\"service.version\":\"2.3.1\"},\"scope\":{\"name\":\"agents.orders\",\"version\":"
                 "\"0.9\"},\"status_message\":\"not found\",\"flags\":257,\"events\":[{\"ts_ns\":"
                 "1795994947408203525,\"name\":\"exception\",\"attributes\":{\"exception.type\":"
                 "\"*errors.errorString\",\"exception.message\":\"order 4711 not found: naïve key "
                 "“ключ” "
                 "🙂\"}}],\"links\":[{\"trace_id\":\"6edfb281bf4d1113de01a72ec9208324\","
                 "\"span_id\":\"3bc36404f0eca315\",\"flags\":257,\"attributes\":{\"why\":\"asked "
                 "by\"}}]}"));
    batch_fini(&batch);
    free((char *)pb.data);
}

static void a_gzipped_sdk_body_decodes(void **state)
{
    (void)state;
    struct slice packed = read_data("otlp/sdk-traces.pb.gz");
    struct slice plain;
    struct buf out;
    struct err err = {""};
    buf_init(&out, 1 << 20);
    assert_int_equal(inflate_body(slice_of("gzip"), packed, &out, &plain, &err), BATCH_OK);
    struct batch batch;
    batch_init(&batch);
    assert_int_equal(otlp_pb_traces(&batch, plain, &policy, &err), BATCH_OK);
    assert_int_equal(batch.event_count, 3);
    batch_check(&batch, &policy);
    batch_fini(&batch);
    buf_fini(&out);
    free((char *)packed.data);
}

static void put_attribute(struct buf *span, const char *key, size_t key_len,
                          const struct buf *any_value)
{
    struct buf pair;
    buf_init(&pair, 1 << 20);
    put_bytes(&pair, 1, key, key_len);
    if (any_value)
        put_bytes(&pair, 2, any_value->data ? any_value->data : "", any_value->len);
    put_bytes(span, SPAN_ATTRIBUTES, pair.data, pair.len);
    buf_fini(&pair);
}

/* An AnyValue of one field, as bytes. */
struct any_case {
    const char *bytes;
    size_t len;
    const char *json;
};

static void values_keep_their_type(void **state)
{
    (void)state;
    static const struct any_case cases[] = {
        {"\x0a\x03"
         "a\"b",
         5, "\"a\\\"b\""},
        {"\x0a\x03"
         "a\0b",
         5,
         "\"a\xef\xbf\xbd"
         "b\""},
        {"\x0a\x03"
         "\xed\xa0\x80",
         5, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\x0a\x01\x1f", 3, "\"\\u001f\""},
        {"\x10\x01", 2, "true"},
        {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "9223372036854775807"},
        {"\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, "-9223372036854775808"},
        {"\x21\x9a\x99\x99\x99\x99\x99\xb9\x3f", 9, "0.1"},
        {"\x21\0\0\0\0\0\0\xf0\x3f", 9, "1.0"},
        {"\x21\0\0\0\0\0\0\xf0\x7f", 9, "\"Infinity\""},
        {"\x21\0\0\0\0\0\0\xf8\x7f", 9, "\"NaN\""},
        {"\x3a\x03\x00\x01\xff", 5, "{\"bytes\":\"AAH/\"}"},
        {"\x2a\x08\x0a\x02\x18\x01\x0a\x02\x10\x00", 10, "[1,false]"},
        {"\x2a\x00", 2, "[]"},
        {"\x32\x0b\x0a\x09\x0a\x01k\x12\x04\x2a\x02\x0a\x00", 13, "{\"k\":[null]}"},
        {"\x32\x00", 2, "{}"},
        {"", 0, "null"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf span;
        struct buf value = {.data = (char *)(uintptr_t)cases[i].bytes, .len = cases[i].len};
        struct batch batch;
        char expected[256];
        put_span_start(&span);
        put_attribute(&span, "k", 1, &value);
        assert_int_equal(decode_span(&span, &batch), BATCH_OK);
        assert_int_equal(batch.event_count, 1);
        snprintf(expected, sizeof(expected), "{\"attributes\":{\"k\":%s}}", cases[i].json);
        assert_slice(batch.events[0].span.attrs, slice_of(expected));
        batch_fini(&batch);
    }
}

static void of_equal_keys_the_last_wins(void **state)
{
    (void)state;
    for (size_t count = 2; count < 60; count += 25) { /* by pairs, and sorted */
        struct buf span, value = {.data = "\x18\x01", .len = 2};
        struct buf last = {.data = "\x18\x07", .len = 2};
        struct batch batch;
        put_span_start(&span);
        for (size_t i = 1; i < count; i++)
            put_attribute(&span, "same", 4, &value);
        put_attribute(&span, "same", 4, &last);
        assert_int_equal(decode_span(&span, &batch), BATCH_OK);
        assert_slice(batch.events[0].span.attrs, slice_of("{\"attributes\":{\"same\":7}}"));
        batch_fini(&batch);
    }
}

/* Changes one part of a good span. */
struct reject_case {
    const char *trace_id;
    size_t trace_id_len;
    const char *span_id;
    size_t span_id_len;
    const char *parent_id;
    size_t parent_id_len;
    uint64_t start_ns, end_ns;
    enum reject_code code;
};

#define T "0123456789abcdef", 16
#define S "01234567", 8

static void spans_are_rejected_alone(void **state)
{
    (void)state;
    static const uint64_t day_ns = UINT64_C(86400000000000);
    static const char zero[16];
    const struct reject_case cases[] = {
        {"", 0, S, "", 0, NOW_NS, 0, REJECT_MISSING},
        {T, "", 0, "", 0, NOW_NS, 0, REJECT_MISSING},
        {"short", 5, S, "", 0, NOW_NS, 0, REJECT_BAD_ID},
        {zero, 16, S, "", 0, NOW_NS, 0, REJECT_BAD_ID},
        {T, zero, 8, "", 0, NOW_NS, 0, REJECT_BAD_ID},
        {T, "0123456789", 10, "", 0, NOW_NS, 0, REJECT_BAD_ID},
        {T, S, "123", 3, NOW_NS, 0, REJECT_BAD_ID},
        {T, S, "", 0, 0, NOW_NS, REJECT_MISSING},
        {T, S, "", 0, NOW_NS, NOW_NS - 1, REJECT_BAD_TIME},
        {T, S, "", 0, NOW_NS + day_ns + 1, 0, REJECT_OUT_OF_RANGE},
        {T, S, "", 0, NOW_NS, UINT64_MAX, REJECT_OUT_OF_RANGE},
        {T, S, zero, 8, NOW_NS + day_ns, 0, REJECT_CODE_COUNT}, /* these two are taken */
        {T, S, S, NOW_NS, NOW_NS, REJECT_CODE_COUNT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct reject_case *c = &cases[i];
        struct buf span;
        struct batch batch;
        buf_init(&span, 1 << 20);
        put_bytes(&span, SPAN_TRACE_ID, c->trace_id, c->trace_id_len);
        put_bytes(&span, SPAN_SPAN_ID, c->span_id, c->span_id_len);
        put_bytes(&span, SPAN_PARENT, c->parent_id, c->parent_id_len);
        put_fixed64(&span, SPAN_START, c->start_ns);
        put_fixed64(&span, SPAN_END, c->end_ns);
        assert_int_equal(decode_span(&span, &batch), BATCH_OK);
        assert_int_equal(batch.sent, 1);
        assert_int_equal(batch.rejected, c->code == REJECT_CODE_COUNT ? 0 : 1);
        if (batch.rejected > 0)
            assert_int_equal(batch.rejects[0].code, c->code);
        else
            assert_int_equal(batch.events[0].span.has_parent, c->parent_id[0] != '\0');
        batch_fini(&batch);
    }
}

static void a_rejected_span_leaves_the_others_and_their_indices(void **state)
{
    (void)state;
    enum { SPANS = 2 * (BATCH_REJECTS_KEPT + 50) };
    struct buf scope;
    struct batch batch;
    struct err err = {""};
    buf_init(&scope, 1 << 20);
    for (uint64_t i = 0; i < SPANS; i++) {
        struct buf span;
        put_span_start(&span);
        if (i % 2 == 0)
            put_bytes(&span, SPAN_SPAN_ID, "x", 1); /* of a field sent twice the last one counts */
        put_bytes(&scope, 2, span.data, span.len);
        buf_fini(&span);
    }
    wrap(&scope, 2);
    wrap(&scope, 1);
    batch_init(&batch);
    assert_int_equal(otlp_pb_traces(&batch, (struct slice){scope.data, scope.len}, &policy, &err),
                     BATCH_OK);
    batch_check(&batch, &policy);
    assert_int_equal(batch.sent, SPANS);
    assert_int_equal(batch.rejected, SPANS / 2);
    assert_int_equal(batch.reject_count, BATCH_REJECTS_KEPT);
    assert_int_equal(batch.rejects[1].index, 2);
    assert_int_equal(batch.events[0].index, 1);
    assert_int_equal(batch.events[SPANS / 2 - 1].index, SPANS - 1);
    batch_fini(&batch);
    buf_fini(&scope);
}

static void a_resource_may_stand_behind_its_spans(void **state)
{
    (void)state;
    struct buf span, resource;
    struct batch batch;
    struct err err = {""};
    struct buf value = {.data = "\x0a\x03svc", .len = 5};
    put_span_start(&span);
    wrap(&span, 2);
    wrap(&span, 2);
    buf_init(&resource, 1000);
    put_text(&resource, 1, "service.name");
    put_bytes(&resource, 2, value.data, value.len);
    wrap(&resource, 1);
    put_bytes(&span, 1, resource.data, resource.len);
    wrap(&span, 1);
    batch_init(&batch);
    assert_int_equal(otlp_pb_traces(&batch, (struct slice){span.data, span.len}, &policy, &err),
                     BATCH_OK);
    assert_slice(batch.events[0].span.service, slice_of("svc"));
    batch_fini(&batch);
    buf_fini(&resource);
    buf_fini(&span);
}

/* A resource goes into each of its spans, so a body of 2 MiB could ask for 100 GiB. */
static void a_large_resource_is_not_multiplied_without_limit(void **state)
{
    (void)state;
    enum { RESOURCE = 1 << 20, SPANS = 40000 };
    struct buf request, scope, value;
    struct batch batch;
    struct err err = {""};
    buf_init(&request, 16 << 20);
    buf_init(&scope, 16 << 20);
    buf_init(&value, 16 << 20);
    for (size_t i = 0; i < SPANS; i++) {
        struct buf span;
        put_span_start(&span);
        put_bytes(&scope, 2, span.data, span.len);
        buf_fini(&span);
    }
    char *text = malloc(RESOURCE);
    memset(text, 'x', RESOURCE);
    put_bytes(&value, 1, text, RESOURCE);
    wrap(&value, 2);
    wrap(&value, 1);
    put_bytes(&request, 1, value.data, value.len);
    put_bytes(&request, 2, scope.data, scope.len);
    wrap(&request, 1);
    batch_init(&batch);
    assert_int_equal(
        otlp_pb_traces(&batch, (struct slice){request.data, request.len}, &policy, &err),
        BATCH_TOO_LARGE);
    assert_true(batch.arena.total_bytes < (size_t)256 << 20);
    batch_fini(&batch);
    free(text);
    buf_fini(&value);
    buf_fini(&scope);
    buf_fini(&request);
}

static void every_cut_is_malformed(void **state)
{
    (void)state;
    struct slice pb = read_data("otlp/sdk-traces.pb");
    assert_int_equal(decode_checked(otlp_pb_traces, (struct slice){pb.data, 0}, &policy), BATCH_OK);
    for (size_t len = 1; len < pb.len; len++)
        assert_int_equal(decode_checked(otlp_pb_traces, (struct slice){pb.data, len}, &policy),
                         BATCH_MALFORMED);
    free((char *)pb.data);
}

static void mutants_do_no_harm(void **state)
{
    (void)state;
    struct slice pb = read_data("otlp/sdk-traces.pb");
    size_t decoded = decode_mutants(otlp_pb_traces, pb, 20000, &policy);
    assert_in_range(decoded, 100, 19900); /* else they test one side only */
    free((char *)pb.data);
}

static void json_and_logs_are_no_protobuf_traces(void **state)
{
    (void)state;
    struct slice json = read_data("otlp/sdk-traces.json");
    struct slice logs = read_data("otlp/sdk-logs.pb");
    struct batch batch;
    struct err err = {""};
    assert_int_equal(decode_checked(otlp_pb_traces, json, &policy), BATCH_MALFORMED);
    batch_init(&batch);
    if (otlp_pb_traces(&batch, logs, &policy, &err) == BATCH_OK)
        assert_int_equal(batch.event_count, 0); /* a log record is a span without ids */
    batch_fini(&batch);
    free((char *)logs.data);
    free((char *)json.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sdk_bodies_say_the_same_in_both_encodings),
        cmocka_unit_test(an_sdk_span_arrives_whole),
        cmocka_unit_test(a_gzipped_sdk_body_decodes),
        cmocka_unit_test(values_keep_their_type),
        cmocka_unit_test(of_equal_keys_the_last_wins),
        cmocka_unit_test(spans_are_rejected_alone),
        cmocka_unit_test(a_rejected_span_leaves_the_others_and_their_indices),
        cmocka_unit_test(a_resource_may_stand_behind_its_spans),
        cmocka_unit_test(a_large_resource_is_not_multiplied_without_limit),
        cmocka_unit_test(every_cut_is_malformed),
        cmocka_unit_test(mutants_do_no_harm),
        cmocka_unit_test(json_and_logs_are_no_protobuf_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
