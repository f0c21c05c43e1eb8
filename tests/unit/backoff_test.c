// SPDX-License-Identifier: MIT
/* Waits: their floors and ceilings, and what a Retry-After may and may not make us do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/clock.h"
#include "courier/backoff.h"

#define NEARLY_ONE 0.999999999
#define RUNS       200
#define NOW_S      ((uint64_t)1700000000) /* Tue, 14 Nov 2023 22:13:20 GMT */

static const struct backoff_range range = {.base_ms = 1000, .cap_ms = 30000};

static void a_cool_off_doubles_up_to_its_cap(void **state)
{
    (void)state;
    static const uint64_t full_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (unsigned strike = 1; strike <= sizeof full_ms / sizeof full_ms[0]; strike++) {
        assert_int_equal(backoff_cool_ms(range, strike, 0), full_ms[strike - 1] / 2);
        assert_int_equal(backoff_cool_ms(range, strike, NEARLY_ONE), full_ms[strike - 1]);
    }
    assert_int_equal(backoff_cool_ms(range, UINT32_MAX, NEARLY_ONE), 30000);
}

static void a_round_waits_up_to_ten_minutes(void **state)
{
    (void)state;
    assert_int_equal(backoff_round_ms(1, 0), 500);
    assert_int_equal(backoff_round_ms(1, NEARLY_ONE), 1000);
    assert_int_equal(backoff_round_ms(5, NEARLY_ONE), 16000);
    assert_int_equal(backoff_round_ms(10, NEARLY_ONE), 512000);
    assert_int_equal(backoff_round_ms(11, NEARLY_ONE), 600000);
    assert_int_equal(backoff_round_ms(UINT32_MAX, 0), 300000);
}

static void a_named_wait_is_never_cut_short(void **state)
{
    (void)state;
    static const uint64_t seconds[] = {1, 2, 7, 49, 50, 51, 3599, 3600};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        uint64_t least_ms = seconds[i] * 1000;
        uint64_t jitter_ms = least_ms / 10 < 5000 ? least_ms / 10 : 5000;
        for (int run = 0; run < RUNS; run++) {
            uint64_t wait_ms = backoff_retry_after_ms(seconds[i], 3600, clock_random_unit());
            assert_in_range(wait_ms, least_ms, least_ms + jitter_ms);
        }
    }
}

static void a_named_wait_is_capped(void **state)
{
    (void)state;
    assert_int_equal(backoff_retry_after_ms(86400000, 3600, 0), 3600000);
    assert_int_equal(backoff_retry_after_ms(RETRY_AFTER_SATURATED_S, 3600, NEARLY_ONE), 3605000);
}

static uint64_t parse(const char *value, const char *date)
{
    return backoff_parse_retry_after(slice_of(value), slice_of(date), NOW_S);
}

static void seconds_and_dates_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse("5", ""), 5);
    assert_int_equal(parse(" \t7 ", ""), 7);
    assert_int_equal(parse("0007", ""), 7);
    assert_int_equal(parse("86400000", ""), 86400000);
    assert_int_equal(parse("Tue, 14 Nov 2023 22:13:50 GMT", ""), 30);
    assert_int_equal(parse("Tuesday, 14-Nov-23 22:13:50 GMT", ""), 30);
    assert_int_equal(parse("Tue Nov 14 22:13:50 2023", ""), 30);
    assert_int_equal(parse("Wed Nov  1 00:00:00 2023", ""), 0);
}

/* The upstream's clock may be wrong by years: what counts is the distance from its own Date. */
static void a_date_counts_from_the_answers_date(void **state)
{
    (void)state;
    const char *date = "Thu, 01 Jan 2015 00:00:00 GMT";
    assert_int_equal(parse("Thu, 01 Jan 2015 00:01:00 GMT", date), 60);
    assert_int_equal(parse("Thu, 01 Jan 2015 00:00:00 GMT", date), 0);
    assert_int_equal(parse("Wed, 31 Dec 2014 23:59:59 GMT", date), 0);
    assert_int_equal(parse("Tue, 14 Nov 2023 22:13:50 GMT", "yesterday"), 30);
}

static void what_cannot_be_meant_counts_as_absent(void **state)
{
    (void)state;
    static const char *const nonsense[] = {
        "",         " ",       "0",        "000",
        "-5",       "+5",      "1.5",      "5, 10",
        "5 s",      "5s",      "0x10",     "abc",
        "1e3",      "five",    "Tue",      "Tue, 14 Nov 2023 22:13:50",
        "14 Nov",   ",",       "\xff\xfe", "Tue, 14 Nov 2023 22:13:50 GMT; later",
        "5\t\t; 6", "5\n6",    "- 5",      "Tue, 14 Nov 2015 22:13:50 GMT",
        "GMT",      "infinity"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        if (parse(nonsense[i], "") != 0)
            fail_msg("Retry-After \"%s\" was taken as %llu", nonsense[i],
                     (unsigned long long)parse(nonsense[i], ""));
    }
}

static void huge_values_saturate(void **state)
{
    (void)state;
    char long_digits[5001];
    memset(long_digits, '9', sizeof long_digits - 1);
    long_digits[sizeof long_digits - 1] = '\0';
    assert_int_equal(parse("99999999999999999999", ""), RETRY_AFTER_SATURATED_S);
    assert_int_equal(parse("18446744073709551616", ""), RETRY_AFTER_SATURATED_S);
    assert_int_equal(parse(long_digits, ""), RETRY_AFTER_SATURATED_S);
    assert_int_equal(parse("Fri, 31 Dec 9999 23:59:59 GMT", ""), RETRY_AFTER_SATURATED_S);
    assert_int_equal(parse("Thu, 31 Dec 2099 23:59:59 GMT", ""), RETRY_AFTER_SATURATED_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cool_off_doubles_up_to_its_cap),
        cmocka_unit_test(a_round_waits_up_to_ten_minutes),
        cmocka_unit_test(a_named_wait_is_never_cut_short),
        cmocka_unit_test(a_named_wait_is_capped),
        cmocka_unit_test(seconds_and_dates_are_read),
        cmocka_unit_test(a_date_counts_from_the_answers_date),
        cmocka_unit_test(what_cannot_be_meant_counts_as_absent),
        cmocka_unit_test(huge_values_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
