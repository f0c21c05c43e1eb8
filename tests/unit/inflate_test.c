// SPDX-License-Identifier: MIT
/* Compressed bodies come out whole and alone, or are refused; none takes more memory than its
 * limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <zlib.h>
#include <zstd.h>

#include "proto/inflate.h"
#include "tests/lib/pb_build.h"

#define LIMIT ((size_t)1024 * 1024)

enum form { GZIP = 31, DEFLATE = 15, ZSTD = 0 };

static const struct {
    enum form form;
    const char *name;
} forms[] = {{GZIP, "gzip"}, {DEFLATE, "deflate"}, {ZSTD, "zstd"}};

static void pack(enum form form, struct slice plain, struct buf *out)
{
    size_t room = plain.len + plain.len / 100 + 1024;
    char *to = buf_reserve(out, room);
    assert_non_null(to);
    if (form == ZSTD) {
        out->len += ZSTD_compress(to, room, plain.data, plain.len, 3);
        return;
    }
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, form, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)plain.data;
    stream.avail_in = (uInt)plain.len;
    stream.next_out = (Bytef *)to;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out->len += stream.total_out;
    deflateEnd(&stream);
}

/* Unpacks a copy of exactly its size. */
static enum batch_result unpack(const char *encoding, struct slice packed, struct buf *out,
                                struct slice *plain)
{
    struct err err = {""};
    struct slice copy = exact_copy(packed);
    enum batch_result result = inflate_body(slice_of(encoding), copy, out, plain, &err);
    assert_true(result == BATCH_OK || err.text[0] != '\0');
    free((char *)copy.data);
    return result;
}

static struct slice sample(size_t len)
{
    char *data = malloc(len);
    uint32_t random = 12345;
    for (size_t i = 0; i < len; i++) {
        random = random * 1664525 + 1013904223;
        data[i] = (char)(random >> 28);
    }
    return (struct slice){data, len};
}

static void what_was_packed_comes_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 65536, 300000};
    for (size_t f = 0; f < 3; f++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct buf packed, out;
            struct slice plain, text = sample(sizes[i]);
            buf_init(&packed, 4 * LIMIT);
            buf_init(&out, LIMIT);
            pack(forms[f].form, text, &packed);
            assert_int_equal(
                unpack(forms[f].name, (struct slice){packed.data, packed.len}, &out, &plain),
                BATCH_OK);
            assert_int_equal(plain.len, text.len);
            assert_memory_equal(plain.data, text.data, text.len);
            buf_fini(&out);
            buf_fini(&packed);
            free((char *)text.data);
        }
    }
}

static void an_sdk_body_comes_out(void **state)
{
    (void)state;
    struct slice packed = read_data("otlp/sdk-traces.pb.gz");
    struct slice plain;
    struct buf out;
    buf_init(&out, LIMIT);
    assert_int_equal(unpack(" GZip ", packed, &out, &plain), BATCH_OK);
    assert_true(plain.len > packed.len);
    buf_fini(&out);
    free((char *)packed.data);
}

static void members_are_joined(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct buf packed, out;
        struct slice plain;
        buf_init(&packed, LIMIT);
        buf_init(&out, LIMIT);
        pack(forms[f].form, slice_of("first, "), &packed);
        pack(forms[f].form, slice_of("second"), &packed);
        assert_int_equal(
            unpack(forms[f].name, (struct slice){packed.data, packed.len}, &out, &plain), BATCH_OK);
        assert_true(slice_equals(plain, "first, second"));
        buf_fini(&out);
        buf_fini(&packed);
    }
}

static void every_cut_is_an_error(void **state)
{
    (void)state;
    struct slice text = sample(3000);
    for (size_t f = 0; f < 3; f++) {
        struct buf packed, out;
        struct slice plain;
        buf_init(&packed, LIMIT);
        buf_init(&out, LIMIT);
        pack(forms[f].form, text, &packed);
        for (size_t len = 0; len < packed.len; len++) {
            buf_reset(&out);
            assert_int_equal(unpack(forms[f].name, (struct slice){packed.data, len}, &out, &plain),
                             BATCH_BAD_ENCODING);
        }
        buf_fini(&out);
        buf_fini(&packed);
    }
    free((char *)text.data);
}

static void bytes_behind_are_an_error(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct buf packed, out;
        struct slice plain;
        buf_init(&packed, LIMIT);
        buf_init(&out, LIMIT);
        pack(forms[f].form, slice_of("some text"), &packed);
        put(&packed, "x", 1);
        assert_int_equal(
            unpack(forms[f].name, (struct slice){packed.data, packed.len}, &out, &plain),
            BATCH_BAD_ENCODING);
        buf_fini(&out);
        buf_fini(&packed);
    }
}

static void the_limit_is_met_exactly(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        for (size_t over = 0; over < 2; over++) {
            struct buf packed, out;
            struct slice plain, text = sample(100000 + over);
            buf_init(&packed, LIMIT);
            buf_init(&out, 100000);
            pack(forms[f].form, text, &packed);
            assert_int_equal(
                unpack(forms[f].name, (struct slice){packed.data, packed.len}, &out, &plain),
                over ? BATCH_TOO_LARGE : BATCH_OK);
            assert_true(out.capacity <= 100000 + 1);
            buf_fini(&out);
            buf_fini(&packed);
            free((char *)text.data);
        }
    }
}

static void a_bomb_takes_no_more_than_the_limit(void **state)
{
    (void)state;
    struct slice zeros = {calloc(1, 64 * LIMIT), 64 * LIMIT};
    for (size_t f = 0; f < 3; f++) {
        struct buf packed, out;
        struct slice plain;
        buf_init(&packed, 128 * LIMIT);
        buf_init(&out, LIMIT);
        pack(forms[f].form, zeros, &packed);
        assert_true(packed.len < LIMIT / 8);
        assert_int_equal(
            unpack(forms[f].name, (struct slice){packed.data, packed.len}, &out, &plain),
            BATCH_TOO_LARGE);
        assert_true(out.capacity <= LIMIT + 1);
        buf_fini(&out);
        buf_fini(&packed);
    }
    free((char *)zeros.data);
}

static void unknown_encodings_are_told_apart(void **state)
{
    (void)state;
    static const char *const unknown[] = {"br", "gzip, gzip", "snappy", "gzipp", "*"};
    struct buf out;
    struct slice plain;
    buf_init(&out, LIMIT);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_int_equal(unpack(unknown[i], slice_of("x"), &out, &plain), BATCH_UNKNOWN_ENCODING);
    assert_int_equal(unpack("gzip", slice_of("no gzip"), &out, &plain), BATCH_BAD_ENCODING);
    struct slice body = slice_of("as it is");
    struct err err;
    assert_int_equal(inflate_body(slice_of("Identity"), body, &out, &plain, &err), BATCH_OK);
    assert_ptr_equal(plain.data, body.data);
    assert_int_equal(out.len, 0);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_back),
        cmocka_unit_test(an_sdk_body_comes_out),
        cmocka_unit_test(members_are_joined),
        cmocka_unit_test(every_cut_is_an_error),
        cmocka_unit_test(bytes_behind_are_an_error),
        cmocka_unit_test(the_limit_is_met_exactly),
        cmocka_unit_test(a_bomb_takes_no_more_than_the_limit),
        cmocka_unit_test(unknown_encodings_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
