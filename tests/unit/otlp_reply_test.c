// SPDX-License-Identifier: MIT
/* The answers byte for byte, as exporters and SDKs parse them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/otlp_reply.h"

#define PB   "application/x-protobuf"
#define JSON "application/json"
/* A literal with its length, since protobuf has NULs. */
#define BYTES(text) text, sizeof text - 1

static const struct success {
    const char *path, *type;
    uint64_t rejected;
    const char *message;
    const char *want;
    size_t want_len;
    const char *want_type;
} successes[] = {
    {"/v1/traces", JSON, 0, NULL, BYTES("{\"partialSuccess\":{}}"), JSON},
    {"/v1/traces", "Application/JSON; charset=utf-8", 0, NULL, BYTES("{\"partialSuccess\":{}}"),
     JSON},
    {"/v1/logs", PB, 0, NULL, BYTES("\x0a\x00"), PB},
    {"/v1/logs", "application/X-Protobuf ; a=b", 0, NULL, BYTES("\x0a\x00"), PB},
    {"/v1/metrics", NULL, 0, NULL, BYTES("{\"partialSuccess\":{}}"), JSON},
    {"/v1/metrics", "text/plain", 0, NULL, BYTES("{\"partialSuccess\":{}}"), JSON},
    {"/v1/traces", JSON, 3, "no \"id\"",
     BYTES("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no \\\"id\\\"\"}}"),
     JSON},
    {"/v1/logs", JSON, 18446744073709551615u, NULL,
     BYTES("{\"partialSuccess\":{\"rejectedLogRecords\":\"18446744073709551615\"}}"), JSON},
    {"/v1/metrics", JSON, 1, NULL, BYTES("{\"partialSuccess\":{\"rejectedDataPoints\":\"1\"}}"),
     JSON},
    {"/v1/traces", JSON, 0, "careful", BYTES("{\"partialSuccess\":{\"errorMessage\":\"careful\"}}"),
     JSON},
    {"/v1/traces", PB, 300, "bad",
     BYTES("\x0a\x08\x08\xac\x02\x12\x03"
           "bad"),
     PB},
};

static const struct error {
    const char *method, *path, *type;
    int status;
    const char *code, *text;
    const char *want;
    size_t want_len;
    const char *want_type;
} errors[] = {
    {"POST", "/v1/traces", JSON, 503, "full", "later", BYTES("{\"code\":14,\"message\":\"later\"}"),
     JSON},
    {"POST", "/v1/traces", PB, 503, "full", "later", BYTES("\x08\x0e\x12\x05later"), PB},
    {"POST", "/v1/logs", PB, 400, "bad", "no", BYTES("\x08\x03\x12\x02no"), PB},
    {"POST", "/v1/logs", PB, 401, "key", "no", BYTES("\x08\x10\x12\x02no"), PB},
    {"POST", "/v1/metrics", PB, 413, "big", "no", BYTES("\x08\x08\x12\x02no"), PB},
    {"POST", "/v1/metrics", NULL, 400, "bad", "a\nb",
     BYTES("{\"code\":3,\"message\":\"a\\u000ab\"}"), JSON},
    {"POST", "/v1/ingest", PB, 400, "bad", "no",
     BYTES("{\"error\":{\"code\":\"bad\",\"message\":\"no\"}}"), JSON},
    {"POST", "/v1/traces/", PB, 404, "not_found", "no",
     BYTES("{\"error\":{\"code\":\"not_found\",\"message\":\"no\"}}"), JSON},
    {"GET", "/v1/traces", PB, 401, "key", "no",
     BYTES("{\"error\":{\"code\":\"key\",\"message\":\"no\"}}"), JSON},
    {"HEAD", "/v1/logs", NULL, 405, "m", "no",
     BYTES("{\"error\":{\"code\":\"m\",\"message\":\"no\"}}"), JSON},
    {"POST", "", NULL, 400, "bad", "no", BYTES("{\"error\":{\"code\":\"bad\",\"message\":\"no\"}}"),
     JSON},
};

static struct http_reply reply_new(int status)
{
    struct http_reply reply = {.status = status};
    buf_init(&reply.body, 65536);
    return reply;
}

static void check(struct http_reply *reply, const char *want, size_t want_len, const char *type)
{
    assert_int_equal(reply->body.len, want_len);
    assert_memory_equal(reply->body.data, want, want_len);
    assert_string_equal(reply->content_type, type);
    buf_fini(&reply->body);
}

static void test_success(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof successes / sizeof successes[0]; i++) {
        const struct success *row = &successes[i];
        struct http_reply reply = reply_new(0);
        otlp_reply_success(row->path, row->type, row->rejected, row->message, &reply);
        assert_int_equal(reply.status, 200);
        check(&reply, row->want, row->want_len, row->want_type);
    }
}

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const struct error *row = &errors[i];
        struct http_reply reply = reply_new(row->status);
        otlp_reply_error(NULL, row->method, row->path, row->type, row->code, row->text, &reply);
        check(&reply, row->want, row->want_len, row->want_type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
