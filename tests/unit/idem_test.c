// SPDX-License-Identifier: MIT
/* A resend meets its first copy only if gateway and daemon derive the same key from the same bytes,
 * today and after an upgrade: the digests here were made with sha256sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/idem.h"

static const struct {
    const char *target, *encoding, *body, *key;
} derived[] = {
    {"/v1/ingest", NULL, "{}",
     "relay-179da5d1e22595f200e89ac02e5371ae4d00372b06ea30b06a1b2b5b947ca799"},
    {"/v1/ingest", "identity", "{}",
     "relay-179da5d1e22595f200e89ac02e5371ae4d00372b06ea30b06a1b2b5b947ca799"},
    {"/v1/ingest", " Identity ", "{}",
     "relay-179da5d1e22595f200e89ac02e5371ae4d00372b06ea30b06a1b2b5b947ca799"},
    {"/v1/ingest", "gzip", "{}",
     "relay-7b3c8ffd40c1947777e49ddad29e64067eaeb18729c9c2dc0a804a6f73b0fe3d"},
    {"/v1/ingest", " GZip", "{}",
     "relay-7b3c8ffd40c1947777e49ddad29e64067eaeb18729c9c2dc0a804a6f73b0fe3d"},
    {"/v1/ingest?a=b", NULL, "{}",
     "relay-bc1893b07b3568235c64df0c9b00464052f2072d6dba80ecf83cacd39834e390"},
    {"/v1/ingest", NULL, "",
     "relay-caec9d7028e53d4220d554d17a9bd7c0487f228dba16cc28ac48f21231dbb6ce"},
};

static void test_derived_keys_are_the_documented_digest(void **state)
{
    (void)state;
    idem_t *idem = idem_new();
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++) {
        char once[IDEM_DERIVED_LEN + 1], again[IDEM_DERIVED_LEN + 1];
        idem_derive(slice_of(derived[i].target), slice_of(derived[i].encoding),
                    slice_of(derived[i].body), once);
        idem_derive_with(idem, slice_of(derived[i].target), slice_of(derived[i].encoding),
                         slice_of(derived[i].body), again);
        assert_string_equal(once, derived[i].key);
        assert_string_equal(again, derived[i].key);
    }
    idem_destroy(&idem);
    assert_null(idem);
}

static const char longest[] =
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "012345678901234567890123456789012345678901234567890123456789";

static const struct {
    const char *given, *key; /* null: refused */
} checked[] = {
    {"abc", "abc"},     {"\"abc\"", "abc"}, {"\"", "\""},       {"a\"b", "a\"b"},
    {longest, longest}, {"", NULL},         {"\"\"", NULL},     {"a b", NULL},
    {"a\x01", NULL},    {"a\x7f", NULL},    {"\xc3\xa9", NULL},
};

static void test_senders_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++) {
        struct slice key = {0};
        struct err err = {""};
        int rc = idem_check(slice_of(checked[i].given), &key, &err);
        assert_int_equal(rc, checked[i].key ? 0 : -1);
        if (checked[i].key)
            assert_true(slice_equals(key, checked[i].key));
        else
            assert_true(strlen(err.text) > 0);
    }
    char too_long[IDEM_KEY_MAX + 1];
    memset(too_long, 'k', sizeof too_long);
    struct slice key;
    assert_int_equal(idem_check((struct slice){too_long, sizeof too_long}, &key, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_derived_keys_are_the_documented_digest),
        cmocka_unit_test(test_senders_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
