// SPDX-License-Identifier: MIT
/* What an upstream says it left out of a request that it took must be seen, whatever else it says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "courier/partial.h"

static void json_answers_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        uint64_t rejected;
    } rows[] = {
        {"{}", 0},
        {"", 0},
        {"{\"partialSuccess\":{}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"too old\"}}", 3},
        {"{\"partialSuccess\": {\"rejectedLogRecords\" : 12 }}", 12},
        {"{ \"partialSuccess\" :\n{ \"rejectedDataPoints\"\t:\n\"7\" } }", 7},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"0\"}}", 0},
        {"{\"accepted\":5,\"duplicate\":1,\"rejected\":2}", 2},
        {"{\"rejectedSpans\":\"99999999999999999999999\"}", 0},
        {"{\"rejectedSpans\":-4}", 0},
        {"{\"rejectedSpans\":null}", 0},
        {"{\"rejectedSpans\"", 0},
        {"{\"rejectedSpans", 0},
        {"\"rejected", 0},
        {"rejected 5", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t rejected = partial_rejected(slice_of(rows[i].answer), false);
        if (rejected != rows[i].rejected)
            fail_msg("%s: %llu", rows[i].answer, (unsigned long long)rejected);
    }
}

static uint64_t of_bytes(const char *bytes, size_t len)
{
    /* From the heap, so that a sanitizer sees a byte too far. */
    char *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    uint64_t rejected = partial_rejected((struct slice){copy, len}, true);
    free(copy);
    return rejected;
}

static void protobuf_answers_are_counted(void **state)
{
    (void)state;
    assert_int_equal(of_bytes("", 0), 0);
    assert_int_equal(of_bytes("\x0a\x00", 2), 0);
    assert_int_equal(of_bytes("\x0a\x02\x08\x05", 4), 5);
    assert_int_equal(of_bytes("\x0a\x03\x08\xac\x02", 5), 300);
    assert_int_equal(of_bytes("\x0a\x05\x12\x03odd", 7), 0); /* a warning only */
    assert_int_equal(of_bytes("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 13), 0);
}

static void cut_protobuf_answers_are_not_read_over_their_end(void **state)
{
    (void)state;
    static const char whole[] = "\x0a\x83\x01\x08\xac\x82\x01\x12\x03odd";
    for (size_t len = 0; len < sizeof whole; len++) {
        (void)of_bytes(whole, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_answers_are_counted),
        cmocka_unit_test(protobuf_answers_are_counted),
        cmocka_unit_test(cut_protobuf_answers_are_not_read_over_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
