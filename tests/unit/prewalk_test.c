// SPDX-License-Identifier: MIT
/* No body, however it is nested and whatever lengths it claims, gets a decoder to crash or to
 * reserve memory for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "otlp.pb-c.h"
#include "proto/native.h"
#include "proto/otlp_json.h"
#include "proto/otlp_pb.h"
#include "proto/prewalk.h"
#include "tests/lib/pb_build.h"

#define BODY_MAX ((size_t)64 * 1024 * 1024)

static const size_t too_deep[] = {33, 60, 2000, 5000, 100000};
static const struct batch_policy policy = {.now_ns = UINT64_C(1800000000000000000)};

static struct slice slice_of_buf(const struct buf *buf)
{
    return (struct slice){buf->data, buf->len};
}

static enum batch_result decode(enum batch_result (*decoder)(struct batch *, struct slice,
                                                             const struct batch_policy *,
                                                             struct err *),
                                const struct buf *body)
{
    struct batch batch;
    struct err err = {""};
    batch_init(&batch);
    enum batch_result result = decoder(&batch, slice_of_buf(body), &policy, &err);
    assert_true(result == BATCH_OK || err.text[0] != '\0');
    batch_fini(&batch);
    return result;
}

static void nest_json(struct buf *body, size_t depth, const char *open, const char *close)
{
    buf_init(body, BODY_MAX);
    for (size_t i = 0; i < depth; i++)
        must(buf_add_str(body, open));
    must(buf_add_str(body, "1"));
    for (size_t i = 0; i < depth; i++)
        must(buf_add_str(body, close));
}

static void json_is_taken_up_to_the_depth(void **state)
{
    (void)state;
    struct buf body;
    struct err err;
    nest_json(&body, PREWALK_DEPTH_MAX, "[", "]");
    assert_int_equal(prewalk_json(slice_of_buf(&body), &err), BATCH_OK);
    buf_fini(&body);
}

static void deep_json_is_an_error(void **state)
{
    (void)state;
    static const char *const shapes[][2] = {{"[", "]"}, {"{\"a\":", "}"}, {"[", ""}};
    for (size_t i = 0; i < sizeof(too_deep) / sizeof(too_deep[0]); i++) {
        for (size_t k = 0; k < 3; k++) {
            struct buf body;
            nest_json(&body, too_deep[i], shapes[k][0], shapes[k][1]);
            assert_int_equal(decode(otlp_json_traces, &body), BATCH_TOO_DEEP);
            assert_int_equal(decode(native_json, &body), BATCH_TOO_DEEP);
            buf_fini(&body);
        }
    }
}

/* An attribute whose value is an array in an array ..., with as many messages inside each other as
 * depth says; sizes are computed from the inside out, so that it is written in one go. */
static void nest_protobuf(struct buf *body, size_t depth)
{
    enum { ANY_ARRAY = 5, ARRAY_VALUES = 1, KEY_VALUE = 2, SPAN_ATTRIBUTES = 9 };
    static const unsigned path[] = {1, 2, 2, SPAN_ATTRIBUTES, KEY_VALUE};
    size_t *sizes = calloc(depth, sizeof(*sizes)); /* content of the message at each depth */
    buf_init(body, BODY_MAX);
    for (size_t i = depth - 1; i > 0; i--) {
        size_t len = 1;
        for (size_t rest = sizes[i]; rest >= 0x80; rest >>= 7)
            len++;
        sizes[i - 1] = 1 + len + sizes[i];
    }
    for (size_t i = 1; i < depth; i++) {
        unsigned field = i <= 5 ? path[i - 1] : i % 2 == 0 ? ANY_ARRAY : ARRAY_VALUES;
        put_varint(body, field << 3 | 2);
        put_varint(body, sizes[i]);
    }
    free(sizes);
}

static void protobuf_is_taken_up_to_the_depth(void **state)
{
    (void)state;
    struct buf body;
    struct err err;
    nest_protobuf(&body, PREWALK_DEPTH_MAX);
    assert_int_equal(
        prewalk_protobuf(&mcpd__otlp__traces_request__descriptor, slice_of_buf(&body), &err),
        BATCH_OK);
    assert_int_equal(decode(otlp_pb_traces, &body), BATCH_OK);
    buf_fini(&body);
}

static void deep_protobuf_is_an_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(too_deep) / sizeof(too_deep[0]); i++) {
        struct buf body;
        nest_protobuf(&body, too_deep[i]);
        assert_int_equal(decode(otlp_pb_traces, &body), BATCH_TOO_DEEP);
        buf_fini(&body);
    }
}

/* The deepest value that passes, in all encodings. Returns null when all were decoded. */
static void *decode_deepest(void *arg)
{
    (void)arg;
    const char *failed = NULL;
    struct buf body;
    nest_protobuf(&body, PREWALK_DEPTH_MAX);
    if (decode(otlp_pb_traces, &body) != BATCH_OK)
        failed = "protobuf";
    buf_fini(&body);
    nest_json(&body, PREWALK_DEPTH_MAX - 1, "[", "]");
    must(buf_add_str(&body, "}"));
    struct buf object;
    buf_init(&object, BODY_MAX);
    must(buf_add_str(&object, "{\"events\":[],\"x\":"));
    put(&object, body.data, body.len);
    if (decode(native_json, &object) != BATCH_OK)
        failed = "JSON";
    buf_fini(&object);
    buf_fini(&body);
    return (void *)(uintptr_t)failed;
}

static void the_deepest_value_fits_the_stack(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_attr_t attr;
    void *failed;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 1024 * 1024), 0);
    assert_int_equal(pthread_create(&thread, &attr, decode_deepest, NULL), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    pthread_attr_destroy(&attr);
    assert_null(failed);
}

static void deep_msgpack_is_an_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(too_deep) / sizeof(too_deep[0]); i++) {
        struct buf body;
        struct err err;
        buf_init(&body, BODY_MAX);
        for (size_t k = 0; k < too_deep[i]; k++)
            put(&body, "\x91", 1);
        put(&body, "\x01", 1);
        assert_int_equal(prewalk_msgpack(slice_of_buf(&body), &err), BATCH_TOO_DEEP);
        buf_fini(&body);
    }
}

struct msgpack_case {
    const char *bytes;
    size_t len;
    enum batch_result result;
};

static void msgpack_lengths_are_not_believed(void **state)
{
    (void)state;
    static const struct msgpack_case cases[] = {
        {"\xc0", 1, BATCH_OK},
        {"\x93\x01\xa1x\xc3", 5, BATCH_OK},
        {"\x81\xa1k\xcb\x3f\xf0\0\0\0\0\0\0", 12, BATCH_OK},
        {"\xd4\x05z", 3, BATCH_OK},      /* ext of one byte */
        {"\xc7\x02\x05zz", 5, BATCH_OK}, /* ext of two */
        {"", 0, BATCH_MALFORMED},
        {"\xc1", 1, BATCH_MALFORMED},                 /* never used */
        {"\xc0\xc0", 2, BATCH_MALFORMED},             /* something behind it */
        {"\x92\x01", 2, BATCH_MALFORMED},             /* one of two elements */
        {"\x81\x01", 2, BATCH_MALFORMED},             /* a key without its value */
        {"\xdd\xff\xff\xff\xff", 5, BATCH_MALFORMED}, /* array of 4 G */
        {"\xdd\x00\x00\x10\x00\x01", 6, BATCH_MALFORMED},
        {"\xdf\xff\xff\xff\xff", 5, BATCH_MALFORMED}, /* map of 4 G */
        {"\xdf\x00\x00\x00\x01\x01", 6, BATCH_MALFORMED},
        {"\xdb\xff\xff\xff\xff", 5, BATCH_MALFORMED}, /* text of 4 GiB */
        {"\xc6\x00\x00\x00\x02z", 6, BATCH_MALFORMED},
        {"\xc9\xff\xff\xff\xff\x01", 6, BATCH_MALFORMED}, /* ext of 4 GiB */
        {"\xcb\x00", 2, BATCH_MALFORMED},
        {"\xd8\x01z", 3, BATCH_MALFORMED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err;
        struct slice body = exact_copy((struct slice){cases[i].bytes, cases[i].len});
        assert_int_equal(prewalk_msgpack(body, &err), cases[i].result);
        free((char *)body.data);
    }
}

static void protobuf_lengths_are_not_believed(void **state)
{
    (void)state;
    static const struct msgpack_case cases[] = {
        {"\x0a\x05\x00", 3, BATCH_MALFORMED}, /* 5 bytes claimed, 1 there */
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, BATCH_MALFORMED}, /* 2^64 - 1 */
        {"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, BATCH_MALFORMED},
        {"\x0a\x02\x0a\x01", 4, BATCH_MALFORMED}, /* inner length beyond the outer message */
        {"\x0b\x0c", 2, BATCH_MALFORMED},         /* a group */
        {"\x02\x00", 2, BATCH_MALFORMED},         /* field number 0 */
        {"\x0e\x00", 2, BATCH_MALFORMED},         /* wire type 6 */
        {"\x08\x01", 2, BATCH_MALFORMED},         /* a number where a message belongs */
        {"\x7a\x01z", 3, BATCH_OK},               /* an unknown field */
        {"\x79\0\0\0\0\0\0\0\0", 9, BATCH_OK},
        {"\x7d\0\0\0", 4, BATCH_MALFORMED},
        {"", 0, BATCH_OK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf body = {.data = (char *)(uintptr_t)cases[i].bytes, .len = cases[i].len};
        assert_int_equal(decode(otlp_pb_traces, &body), cases[i].result);
    }
}

static void values_are_counted(void **state)
{
    (void)state;
    struct err err;
    struct buf body;
    buf_init(&body, BODY_MAX);
    put(&body, "[0", 2);
    for (size_t i = 0; i < PREWALK_VALUES_MAX + 1; i++)
        put(&body, ",0", 2);
    put(&body, "]", 1);
    assert_int_equal(decode(otlp_json_traces, &body), BATCH_TOO_MANY_VALUES);
    assert_int_equal(decode(native_json, &body), BATCH_TOO_MANY_VALUES);
    buf_reset(&body);
    for (size_t i = 0; i < PREWALK_VALUES_MAX + 1; i++)
        put(&body, "\x0a\x00", 2);
    assert_int_equal(decode(otlp_pb_traces, &body), BATCH_TOO_MANY_VALUES);
    buf_reset(&body);
    put(&body, "\xdd\x00\x1e\x84\x81", 5);
    for (size_t i = 0; i < PREWALK_VALUES_MAX + 1; i++)
        put(&body, "\x00", 1);
    assert_int_equal(prewalk_msgpack(slice_of_buf(&body), &err), BATCH_TOO_MANY_VALUES);
    buf_fini(&body);
}

static void json_brackets_must_fit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum batch_result result;
    } cases[] = {
        {"{\"a\":[1,\"]}\"]}", BATCH_OK}, {"\"\\\"[\"", BATCH_OK},   {"[}", BATCH_MALFORMED},
        {"]", BATCH_MALFORMED},           {"[", BATCH_MALFORMED},    {"\"abc", BATCH_MALFORMED},
        {"\"abc\\\"", BATCH_MALFORMED},   {"\"\\", BATCH_MALFORMED}, {"[]]", BATCH_MALFORMED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err;
        struct slice body = exact_copy(slice_of(cases[i].text));
        assert_int_equal(prewalk_json(body, &err), cases[i].result);
        free((char *)body.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_taken_up_to_the_depth),
        cmocka_unit_test(deep_json_is_an_error),
        cmocka_unit_test(protobuf_is_taken_up_to_the_depth),
        cmocka_unit_test(deep_protobuf_is_an_error),
        cmocka_unit_test(the_deepest_value_fits_the_stack),
        cmocka_unit_test(deep_msgpack_is_an_error),
        cmocka_unit_test(msgpack_lengths_are_not_believed),
        cmocka_unit_test(protobuf_lengths_are_not_believed),
        cmocka_unit_test(values_are_counted),
        cmocka_unit_test(json_brackets_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
