// SPDX-License-Identifier: MIT
/* Promises: every message comes back from the wire as it was sent; no foreign bytes, cut, changed
 * or made up, are taken for a message that they are not, or read beyond their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mpread.h"
#include "proto/wire.h"

static struct slice frame_of(const struct buf *buf)
{
    return (struct slice){buf->data, buf->len};
}

/* The bytes in memory of exactly their length, so that a sanitizer sees one read too many. */
static enum wire_result decode(struct wire_message *out, enum wire_route route, const void *bytes,
                               size_t len)
{
    struct err err;
    char *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, bytes, len);
    enum wire_result result = wire_decode(out, route, (struct slice){copy, len}, &err);
    free(copy);
    return result;
}

static void test_retry_round_trip(void **state)
{
    struct wire_message sent = {.type = WIRE_RETRY}, got;
    struct buf frame;
    struct err err;
    (void)state;
    buf_init(&frame, WIRE_HEADER_MAX);
    sent.RETRY.token = (struct slice){"\0token\xff", 7};
    sent.RETRY.after_ms = UINT64_MAX;
    sent.RETRY.rounds = UINT32_MAX;
    sent.RETRY.suspect = true;
    sent.RETRY.first_fail_s = 1;
    assert_int_equal(wire_encode(&sent, &frame), 0);
    assert_int_equal(wire_decode(&got, WIRE_CB, frame_of(&frame), &err), WIRE_OK);
    assert_int_equal(got.type, WIRE_RETRY);
    assert_int_equal(got.RETRY.token.len, 7);
    assert_memory_equal(got.RETRY.token.data, "\0token\xff", 7);
    assert_true(got.RETRY.after_ms == UINT64_MAX);
    assert_true(got.RETRY.rounds == UINT32_MAX);
    assert_true(got.RETRY.suspect);
    assert_true(got.RETRY.first_fail_s == 1);
    buf_fini(&frame);
}

static void test_list_round_trip(void **state)
{
    struct slice items[WIRE_LIST_MAX], item;
    struct wire_message sent = {.type = WIRE_RENEW}, got;
    struct buf frame;
    struct err err;
    char text[WIRE_LIST_MAX][8];
    (void)state;
    for (unsigned i = 0; i < WIRE_LIST_MAX; i++) {
        int len = snprintf(text[i], sizeof text[i], "%u", i);
        items[i] = (struct slice){text[i], (size_t)len};
    }
    sent.RENEW.tokens = (struct wire_list){.count = WIRE_LIST_MAX, .items = items};
    buf_init(&frame, WIRE_HEADER_MAX);
    assert_int_equal(wire_encode(&sent, &frame), 0);
    assert_int_equal(wire_decode(&got, WIRE_CB, frame_of(&frame), &err), WIRE_OK);
    for (unsigned i = 0; i < WIRE_LIST_MAX; i++) {
        assert_true(wire_list_next(&got.RENEW.tokens, &item));
        assert_true(slice_equals(item, text[i]));
    }
    assert_false(wire_list_next(&got.RENEW.tokens, &item));
    buf_fini(&frame);
}

/* Each case: bytes that must not be taken, over the route they would come by. */
static void test_refuses_what_is_not_a_message(void **state)
{
    static const struct {
        enum wire_route route;
        enum wire_result result;
        size_t len;
        const char *bytes;
    } cases[] = {
        {WIRE_GB, WIRE_BAD, 0, ""},
        {WIRE_GB, WIRE_BAD, 1, "\x01"},
        {WIRE_GB, WIRE_VERSION_DIFFERS, 3, "\x02\x0e\x90"},
        {WIRE_GB, WIRE_VERSION_DIFFERS, 16, "GET / HTTP/1.1\r\n"},
        {WIRE_GB, WIRE_BAD, 3, "\x01\x00\x90"},                 /* type 0 */
        {WIRE_GB, WIRE_BAD, 3, "\x01\xff\x90"},                 /* no such type */
        {WIRE_GB, WIRE_BAD, 5, "\x01\x08\x91\xc4\x00"},         /* DONE from a gateway */
        {WIRE_GB, WIRE_BAD, 2, "\x01\x0e"},                     /* PING without its array */
        {WIRE_GB, WIRE_BAD, 3, "\x01\x03\x90"},                 /* SUBMIT without fields */
        {WIRE_GB, WIRE_BAD, 4, "\x01\x03\x92\x01"},             /* cut */
        {WIRE_GB, WIRE_BAD, 5, "\x01\x03\x92\xff\x01"},         /* a negative seq */
        {WIRE_GB, WIRE_BAD, 9, "\x01\x03\x92\x01\xcf\0\0\0\1"}, /* a cut number */
        {WIRE_GB, WIRE_BAD, 13, "\x01\x03\x92\x01\xcf\0\0\0\1\0\0\0\0"}, /* over 32 bits */
        {WIRE_CB, WIRE_BAD, 7, "\x01\x07\x91\xdd\xff\xff\xff"},          /* a cut count */
        {WIRE_CB, WIRE_BAD, 8, "\x01\x07\x91\xdd\xff\xff\xff\xff"},      /* a list of 4 Gi items */
        {WIRE_CB, WIRE_BAD, 8, "\x01\x08\x91\xc6\xff\xff\xff\xff"},      /* 4 GiB of token */
    };
    struct wire_message got;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (decode(&got, cases[i].route, cases[i].bytes, cases[i].len) != cases[i].result)
            fail_msg("case %zu", i);
}

static void test_takes_numbers_of_any_width_and_later_fields(void **state)
{
    /* SUBMIT with seq as a signed 16-bit number, count as an 8-bit one, and three fields more. */
    static const char bytes[] = "\x01\x03\x95\xd1\x01\x00\xcc\x05\x81\xa1k\x93\x01\x02\xc0\xcb"
                                "12345678\xc7\x02\x01zz";
    struct wire_message got;
    (void)state;
    assert_int_equal(decode(&got, WIRE_GB, bytes, sizeof bytes - 1), WIRE_OK);
    assert_true(got.SUBMIT.seq == 256);
    assert_true(got.SUBMIT.count == 5);
}

static void test_limits_text_and_bytes(void **state)
{
    struct wire_message sent = {.type = WIRE_ERROR}, got;
    struct buf frame;
    struct err err;
    char *text = calloc(1, WIRE_TEXT_MAX + 1);
    (void)state;
    buf_init(&frame, WIRE_HEADER_MAX);
    sent.ERROR.text = (struct slice){text, WIRE_TEXT_MAX};
    assert_int_equal(wire_encode(&sent, &frame), 0);
    assert_int_equal(wire_decode(&got, WIRE_BG, frame_of(&frame), &err), WIRE_OK);
    sent.ERROR.text.len++;
    assert_int_equal(wire_encode(&sent, &frame), 0);
    assert_int_equal(wire_decode(&got, WIRE_BG, frame_of(&frame), &err), WIRE_BAD);
    buf_fini(&frame);
    free(text);
}

/* Every prefix and every one-byte change of a frame: never a crash (a sanitizer build sees more),
 * and a prefix is never a message. */
static void test_survives_damage(void **state)
{
    struct wire_message sent = {.type = WIRE_DEAD}, got;
    struct buf frame;
    (void)state;
    buf_init(&frame, WIRE_HEADER_MAX);
    sent.DEAD.token = slice_of("0123456789abcdef");
    sent.DEAD.reason = slice_of("refused");
    sent.DEAD.status = 400;
    sent.DEAD.upstream = slice_of("http://a");
    sent.DEAD.excerpt = slice_of("no");
    assert_int_equal(wire_encode(&sent, &frame), 0);
    for (size_t len = 0; len < frame.len; len++)
        assert_int_not_equal(decode(&got, WIRE_CB, frame.data, len), WIRE_OK);
    for (size_t i = 0; i < frame.len; i++) {
        char was = frame.data[i];
        for (int value = 0; value < 256; value++) {
            frame.data[i] = (char)value;
            (void)!decode(&got, WIRE_CB, frame.data, frame.len);
        }
        frame.data[i] = was;
    }
    buf_fini(&frame);
}

static void test_skip_needs_no_stack_for_depth(void **state)
{
    enum { DEPTH = 1000000 };
    struct mpread reader;
    char *bytes = malloc(DEPTH + 1);
    (void)state;
    memset(bytes, 0x91, DEPTH);
    bytes[DEPTH] = 1;
    mpread_init(&reader, (struct slice){bytes, DEPTH + 1});
    assert_int_equal(mpread_skip(&reader), 0);
    assert_true(mpread_at_end(&reader));
    mpread_init(&reader, (struct slice){bytes, DEPTH});
    assert_int_equal(mpread_skip(&reader), -1);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_round_trip),
        cmocka_unit_test(test_list_round_trip),
        cmocka_unit_test(test_refuses_what_is_not_a_message),
        cmocka_unit_test(test_takes_numbers_of_any_width_and_later_fields),
        cmocka_unit_test(test_limits_text_and_bytes),
        cmocka_unit_test(test_survives_damage),
        cmocka_unit_test(test_skip_needs_no_stack_for_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
