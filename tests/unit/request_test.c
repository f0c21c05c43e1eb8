// SPDX-License-Identifier: MIT
/* Promises: what a sender's request carried is what the courier gets, byte for byte; a meta from a
 * stranger or a damaged disk is refused or read within its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/request.h"

static const struct request example = {
    .target = {"/v1/ingest?a=%20b", 17},
    .content_type = {"application/json", 16},
    .idempotency_key = {"relay-0123", 10},
    .authorization = {"Bearer \xc3\xa9\x01", 10},
    .arrival_ns = 1735689600123456789u,
};

static int decode(struct request *out, const void *bytes, size_t len)
{
    struct err err;
    return request_decode(out, (struct slice){bytes, len}, &err);
}

static void test_round_trip(void **state)
{
    struct request got;
    struct buf meta;
    (void)state;
    buf_init(&meta, REQUEST_META_MAX);
    assert_int_equal(request_encode(&example, &meta), 0);
    assert_int_equal(decode(&got, meta.data, meta.len), 0);
#define REQUEST_FIELD(key, field)                       \
    assert_int_equal(got.field.len, example.field.len); \
    assert_memory_equal(got.field.data, example.field.data, example.field.len);
#include "proto/request.def"
#undef REQUEST_FIELD
    assert_true(got.arrival_ns == example.arrival_ns);
    buf_fini(&meta);
}

static void test_over_its_limit_is_an_error(void **state)
{
    struct request request = example;
    struct buf meta;
    char *text = calloc(1, REQUEST_META_MAX);
    (void)state;
    request.user_agent = (struct slice){text, REQUEST_META_MAX};
    buf_init(&meta, REQUEST_META_MAX);
    assert_int_equal(request_encode(&request, &meta), -1);
    buf_fini(&meta);
    free(text);
}

static void test_unknown_keys_are_stepped_over(void **state)
{
    static const char bytes[] = "\x83\xa5later\x92\xc0\x81\xa1x\x01\xa6target\xa2/x\xa2"
                                "at\x07";
    struct request got;
    (void)state;
    assert_int_equal(decode(&got, bytes, sizeof bytes - 1), 0);
    assert_true(slice_equals(got.target, "/x"));
    assert_true(got.arrival_ns == 7);
}

static void test_refuses_what_is_no_meta(void **state)
{
    static const struct {
        size_t len;
        const char *bytes;
    } cases[] = {
        {0, ""},
        {1, "\x90"},                 /* an array */
        {5, "\xdf\xff\xff\xff\xff"}, /* 4 Gi pairs */
        {3, "\x81\x01\x02"},         /* a key that is no text */
        {4, "\x81\xa2"
            "at"}, /* no value */
        {5, "\x81\xa2"
            "at\xc0"}, /* a value of another kind */
        {6, "\x81\xa2"
            "at\x01\x01"},                          /* something behind the end */
        {9, "\x81\xa6target\xd9"},                  /* cut */
        {13, "\x81\xa6target\xdb\xff\xff\xff\xff"}, /* 4 GiB of target */
    };
    struct request got;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (decode(&got, cases[i].bytes, cases[i].len) != -1)
            fail_msg("case %zu", i);
}

static void test_survives_damage(void **state)
{
    struct request got;
    struct buf meta;
    (void)state;
    buf_init(&meta, REQUEST_META_MAX);
    assert_int_equal(request_encode(&example, &meta), 0);
    for (size_t len = 0; len < meta.len; len++) {
        char *cut = malloc(len > 0 ? len : 1);
        memcpy(cut, meta.data, len);
        assert_int_equal(decode(&got, cut, len), -1);
        free(cut);
    }
    for (size_t i = 0; i < meta.len; i++) {
        char was = meta.data[i];
        for (int value = 0; value < 256; value++) {
            meta.data[i] = (char)value;
            (void)!decode(&got, meta.data, meta.len);
        }
        meta.data[i] = was;
    }
    buf_fini(&meta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_over_its_limit_is_an_error),
        cmocka_unit_test(test_unknown_keys_are_stepped_over),
        cmocka_unit_test(test_refuses_what_is_no_meta),
        cmocka_unit_test(test_survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
