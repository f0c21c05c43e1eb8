// SPDX-License-Identifier: MIT
/* Attribute names of several generations fill the same columns, and content goes where it can be
 * dropped, through OTLP and native alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/genai.h"
#include "proto/native.h"
#include "proto/otlp_json.h"
#include "tests/lib/mutate.h"

static const struct batch_policy policy = {.now_ns = UINT64_C(1800000000000000000)};

#define NATIVE_SPAN                                                                       \
    "\"type\":\"span\",\"name\":\"n\",\"trace_id\":\"0000000000000000000000000000000a\"," \
    "\"span_id\":\"000000000000000b\",\"start_ns\":1700000000000000000"

/* A native batch of one span with these resource and span members. */
static void decode(const char *resource, const char *members, struct batch *batch)
{
    char body[4096];
    struct err err = {""};
    snprintf(body, sizeof(body), "{\"resource\":{%s},\"events\":[{" NATIVE_SPAN "%s}]}", resource,
             members);
    batch_init(batch);
    assert_int_equal(native_json(batch, slice_of(body), &policy, &err), BATCH_OK);
    assert_int_equal(batch->event_count, 1);
    batch_check(batch, &policy);
}

static void assert_text(struct slice actual, const char *expected)
{
    char copy[2048];
    snprintf(copy, sizeof(copy), SLICE_FORMAT, SLICE_ARGS(actual));
    assert_string_equal(copy, expected);
}

struct text_case {
    const char *attrs;
    size_t offset;
    const char *expected;
};

#define AT(column) offsetof(struct span, column)

static void names_fill_their_column(void **state)
{
    (void)state;
    static const struct text_case cases[] = {
        {"\"gen_ai.operation.name\":\"chat\"", AT(op), "chat"},
        {"\"gen_ai.system\":\"old\"", AT(provider), "old"},
        {"\"gen_ai.system\":\"old\",\"gen_ai.provider.name\":\"new\"", AT(provider), "new"},
        {"\"gen_ai.provider.name\":\"new\",\"gen_ai.system\":\"old\"", AT(provider), "new"},
        {"\"gen_ai.request.model\":\"asked\"", AT(model), "asked"},
        {"\"gen_ai.request.model\":\"asked\",\"gen_ai.response.model\":\"got\"", AT(model), "got"},
        {"\"gen_ai.response.model\":{},\"gen_ai.request.model\":\"asked\"", AT(model), "asked"},
        {"\"gen_ai.response.model\":\"\",\"llm.model_name\":\"m\"", AT(model), "m"},
        {"\"gen_ai.tool.name\":\"t\"", AT(tool), "t"},
        {"\"gen_ai.workflow.name\":\"w\"", AT(agent), "w"},
        {"\"gen_ai.agent.id\":17", AT(agent), "17"},
        {"\"session.id\":\"s\",\"gen_ai.conversation.id\":\"c\"", AT(session), "c"},
        {"\"langfuse.session.id\":\"l\"", AT(session), "l"},
        {"\"enduser.id\":\"u\"", AT(user_id), "u"},
        {"\"mcp.method.name\":\"tools/call\"", AT(mcp_method), "tools/call"},
        {"\"mcp.session.id\":\"m\"", AT(mcp_session), "m"},
        {"\"mcp.session.id\":\"m\"", AT(session), ""},
        {"\"error.type\":\"tool_error\"", AT(error_type), "tool_error"},
        {"\"service.name\":\"mine\"", AT(service), "mine"}, /* not the resource's */
        {"\"a\":1", AT(service), "svc"},
        {"\"deployment.environment\":\"old\"", AT(env), "old"},
        {"\"gen_ai.operation.names\":\"x\",\"gen_ai.operation\":\"x\"", AT(op), ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        char members[1024];
        snprintf(members, sizeof(members), ",\"attrs\":{%s}", cases[i].attrs);
        decode("\"service.name\":\"svc\"", members, &batch);
        const char *span = (const char *)&batch.events[0].span;
        assert_text(*(const struct slice *)(const void *)(span + cases[i].offset),
                    cases[i].expected);
        batch_fini(&batch);
    }
}

static void tokens_are_counts_or_nothing(void **state)
{
    (void)state;
    struct batch batch;
    decode("",
           ",\"attrs\":{\"gen_ai.usage.prompt_tokens\":5,\"llm.token_count.prompt\":6,"
           "\"gen_ai.usage.output_tokens\":7.0,\"gen_ai.usage.cache_read.input_tokens\":-1,"
           "\"gen_ai.usage.reasoning.output_tokens\":1.5}",
           &batch);
    const struct span *span = &batch.events[0].span;
    assert_int_equal(span->in_tok, 5);
    assert_int_equal(span->out_tok, 7);
    assert_int_equal(span->cache_tok, BATCH_TOKENS_NONE);
    assert_int_equal(span->reason_tok, BATCH_TOKENS_NONE);
    batch_fini(&batch);
}

static void content_is_taken_out_of_attrs(void **state)
{
    (void)state;
    struct batch batch;
    decode("",
           ",\"attrs\":{\"a\":1,\"gen_ai.input.messages\":[{\"role\":\"user\"}],"
           "\"gen_ai.prompt.0.content\":\"hi\",\"gen_ai.prompt.name\":\"kept\"},"
           "\"events\":[{\"name\":\"plain\",\"ts_ns\":1},"
           "{\"name\":\"gen_ai.client.inference.operation.details\",\"ts_ns\":2,"
           "\"attrs\":{\"gen_ai.output.messages\":\"[]\",\"b\":2}}]",
           &batch);
    const struct span *span = &batch.events[0].span;
    assert_text(span->content, "{\"gen_ai.input.messages\":[{\"role\":\"user\"}],"
                               "\"gen_ai.prompt.0.content\":\"hi\","
                               "\"events\":[{\"index\":1,\"gen_ai.output.messages\":\"[]\"}]}");
    assert_text(span->attrs, "{\"attributes\":{\"a\":1,\"gen_ai.prompt.name\":\"kept\"},"
                             "\"events\":[{\"ts_ns\":1,\"name\":\"plain\"},{\"ts_ns\":2,\"name\":"
                             "\"gen_ai.client.inference.operation.details\","
                             "\"attributes\":{\"b\":2}}]}");
    batch_fini(&batch);
}

static void a_span_without_content_has_none(void **state)
{
    (void)state;
    struct batch batch;
    decode("", ",\"attrs\":{\"a\":1}", &batch);
    assert_int_equal(batch.events[0].span.content.len, 0);
    batch_fini(&batch);
}

static void an_error_always_has_a_type(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        const char *type;
        enum span_status status;
    } cases[] = {
        {",\"status\":\"error\"", "_OTHER", SPAN_STATUS_ERROR},
        {",\"error\":\"timeout\"", "timeout", SPAN_STATUS_ERROR},
        {",\"status\":\"error\",\"attrs\":{\"error.type\":\"500\"}", "500", SPAN_STATUS_ERROR},
        {",\"status\":\"error\",\"events\":[{\"name\":\"exception\",\"attrs\":{\"exception.type\":"
         "\"E\"}}]",
         "E", SPAN_STATUS_ERROR},
        {",\"status\":\"ok\"", "", SPAN_STATUS_OK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch batch;
        decode("", cases[i].members, &batch);
        assert_text(batch.events[0].span.error_type, cases[i].type);
        assert_int_equal(batch.events[0].span.status, cases[i].status);
        batch_fini(&batch);
    }
}

static void an_evaluation_gives_a_score(void **state)
{
    (void)state;
    static const struct batch_policy all_types = {.now_ns = UINT64_C(1800000000000000000),
                                                  .types = EVENT_BITS_ALL};
    struct batch batch;
    struct err err = {""};
    static const char body[] =
        "{\"events\":[{" NATIVE_SPAN ",\"events\":["
        "{\"name\":\"gen_ai.evaluation.result\",\"ts_ns\":1700000000000000001,\"attrs\":{"
        "\"gen_ai.evaluation.name\":\"relevance\",\"gen_ai.evaluation.score.value\":0.75,"
        "\"gen_ai.evaluation.score.label\":\"pass\",\"gen_ai.evaluation.explanation\":\"why\"}},"
        "{\"name\":\"gen_ai.evaluation.result\",\"attrs\":{\"gen_ai.evaluation.name\":\"tone\","
        "\"gen_ai.evaluation.score.label\":\"kind\"}},"
        "{\"name\":\"gen_ai.evaluation.result\",\"attrs\":{\"gen_ai.evaluation.name\":\"empty\"}},"
        "{\"name\":\"other\",\"attrs\":{\"gen_ai.evaluation.name\":\"no\","
        "\"gen_ai.evaluation.score.value\":1}}]}]}";
    batch_init(&batch);
    assert_int_equal(native_json(&batch, slice_of(body), &all_types, &err), BATCH_OK);
    batch_check(&batch, &all_types);
    assert_int_equal(batch.sent, 1);
    assert_int_equal(batch.derived_count, 2);
    const struct score *first = &batch.derived[0].score;
    assert_text(first->id, "otel-0000000000000000000000000000000a-000000000000000b-0");
    assert_text(first->name, "relevance");
    assert_text(first->source, "otel");
    assert_text(first->comment, "why");
    assert_text(first->text, "pass");
    assert_true(first->type == SCORE_NUMBER && first->number == 0.75);
    assert_int_equal(first->target, SCORE_OF_SPAN);
    assert_true(first->ts_ns == UINT64_C(1700000000000000001));
    assert_text(batch.derived[1].score.text, "kind");
    assert_int_equal(batch.derived[1].score.type, SCORE_LABEL);
    batch_fini(&batch);
}

static void long_names_are_cut_in_columns_only(void **state)
{
    (void)state;
    struct batch batch;
    char members[2048], session[1024];
    memset(session, 'x', sizeof(session));
    memcpy(session + GENAI_COLUMN_MAX_BYTES - 1, "ü", 2); /* across the edge */
    session[600] = '\0';
    snprintf(members, sizeof(members), ",\"attrs\":{\"session.id\":\"%s\"}", session);
    decode("", members, &batch);
    const struct span *span = &batch.events[0].span;
    assert_int_equal(span->session.len, GENAI_COLUMN_MAX_BYTES - 1);
    assert_true(span->attrs.len > 600);
    batch_fini(&batch);
}

static void otlp_goes_through_the_same_table(void **state)
{
    (void)state;
    struct batch batch;
    struct err err = {""};
    static const char body[] =
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{"
        "\"traceId\":\"0000000000000000000000000000000a\",\"spanId\":\"000000000000000b\","
        "\"startTimeUnixNano\":\"1700000000000000000\",\"attributes\":["
        "{\"key\":\"gen_ai.system\",\"value\":{\"stringValue\":\"old\"}},"
        "{\"key\":\"input.value\",\"value\":{\"stringValue\":\"hi\"}},"
        "{\"key\":\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"12\"}}]}]}]}]}";
    batch_init(&batch);
    assert_int_equal(otlp_json_traces(&batch, slice_of(body), &policy, &err), BATCH_OK);
    assert_text(batch.events[0].span.provider, "old");
    assert_text(batch.events[0].span.content, "{\"input.value\":\"hi\"}");
    assert_int_equal(batch.events[0].span.in_tok, 12);
    batch_fini(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_fill_their_column),
        cmocka_unit_test(tokens_are_counts_or_nothing),
        cmocka_unit_test(content_is_taken_out_of_attrs),
        cmocka_unit_test(a_span_without_content_has_none),
        cmocka_unit_test(an_error_always_has_a_type),
        cmocka_unit_test(an_evaluation_gives_a_score),
        cmocka_unit_test(long_names_are_cut_in_columns_only),
        cmocka_unit_test(otlp_goes_through_the_same_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
