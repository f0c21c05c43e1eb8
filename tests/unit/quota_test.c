// SPDX-License-Identifier: MIT
/* The promises: within 60 seconds never more than the ceiling is let through, wherever a minute
 * turns; a refusal says how long to wait, to the second; what is given back may be used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/quotas.h"

#define START_S 1000000

static bool take(struct quota_window *window, uint64_t ceiling, uint64_t amount, uint64_t now_s)
{
    struct quota_lack lack;
    if (!quota_fits(window, ceiling, amount, now_s, &lack))
        return false;
    quota_add(window, amount, now_s);
    return true;
}

static void full_until_a_minute_is_over(void **state)
{
    struct quota_window window = {0};
    struct quota_lack lack;
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(take(&window, 100, 1, START_S + 59)); /* the end of a calendar minute */
    for (int second = 59; second < 119; second++) {
        assert_false(quota_fits(&window, 100, 1, START_S + second, &lack));
        assert_int_equal(lack.left, 0);
        assert_int_equal(lack.wait_s, 119 - second);
    }
    assert_true(take(&window, 100, 100, START_S + 119));
}

static void a_large_amount_waits_for_as_much_as_it_needs(void **state)
{
    static const struct {
        uint64_t amount, wait_s;
        /* After 50 s 110 are free, after 60 s all. */
    } cases[] = {{71, 50}, {110, 50}, {111, 60}, {130, 60}, {131, 0}};
    struct quota_window window = {0};
    struct quota_lack lack;
    (void)state;
    assert_true(take(&window, 130, 40, START_S));
    assert_true(take(&window, 130, 20, START_S + 10));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(quota_fits(&window, 130, cases[i].amount, START_S + 10, &lack));
        assert_int_equal(lack.left, 70);
        assert_int_equal(lack.wait_s, cases[i].wait_s);
    }
}

static void a_ceiling_that_sank_lets_nothing_through(void **state)
{
    struct quota_window window = {0};
    struct quota_lack lack;
    (void)state;
    assert_true(take(&window, 100, 80, START_S));
    assert_false(quota_fits(&window, 50, 0, START_S, &lack));
    assert_false(quota_fits(&window, 50, 1, START_S, &lack));
    assert_int_equal(lack.left, 0);
    assert_int_equal(lack.wait_s, 60);
    assert_true(quota_fits(&window, 200, 120, START_S, &lack));
}

static void what_is_given_back_is_free_again(void **state)
{
    struct quota_window window = {0};
    (void)state;
    assert_true(take(&window, 100, 100, START_S));
    quota_give_back(&window, 60, START_S, START_S + 59);
    assert_true(take(&window, 100, 60, START_S + 59));
    assert_false(take(&window, 100, 1, START_S + 59));
    /* What no longer counts cannot be given back twice over. */
    quota_give_back(&window, 40, START_S, START_S + 60);
    assert_true(take(&window, 100, 40, START_S + 60));
    assert_false(take(&window, 100, 1, START_S + 60));
}

static void a_clock_that_goes_back_frees_nothing(void **state)
{
    struct quota_window window = {0};
    (void)state;
    assert_true(take(&window, 100, 100, START_S));
    assert_false(take(&window, 100, 1, START_S - 500));
    assert_false(take(&window, 100, 1, START_S + 59));
    assert_true(take(&window, 100, 100, START_S + 60));
}

/* Against a plain record of what was let through and when: over many random runs, no 60 seconds
 * hold more than the ceiling, and a refusal is right, and its wait exact. */
static void never_more_than_the_ceiling(void **state)
{
    enum { SECONDS = 400, RUNS = 60 };
    (void)state;
    srand(7);
    for (int run = 0; run < RUNS; run++) {
        uint64_t used[SECONDS] = {0};
        struct quota_window window = {0};
        uint64_t ceiling = 1 + (uint64_t)rand() % 300;
        for (int second = 0; second < SECONDS; second += rand() % 3) {
            uint64_t amount = (uint64_t)rand() % (ceiling + ceiling / 8 + 1);
            struct quota_lack lack;
            uint64_t sum = 0;
            int first = second >= QUOTA_SECONDS ? second - QUOTA_SECONDS + 1 : 0;
            for (int i = first; i <= second; i++)
                sum += used[i];
            assert_true(sum <= ceiling);
            bool is_let = quota_fits(&window, ceiling, amount, START_S + (uint64_t)second, &lack);
            assert_int_equal(is_let, sum + amount <= ceiling);
            assert_int_equal(lack.left, ceiling - sum);
            uint64_t wait_s = 0;
            for (uint64_t rest = sum; !is_let && amount <= ceiling && rest + amount > ceiling;
                 wait_s++)
                rest -= second - QUOTA_SECONDS + 1 + (int)wait_s >= 0
                            ? used[second - QUOTA_SECONDS + 1 + (int)wait_s]
                            : 0;
            assert_int_equal(lack.wait_s, wait_s);
            if (!is_let)
                continue;
            quota_add(&window, amount, START_S + (uint64_t)second);
            used[second] += amount;
            uint64_t back = rand() % 2 ? amount / 2 : 0;
            quota_give_back(&window, back, START_S + (uint64_t)second, START_S + (uint64_t)second);
            used[second] -= back;
        }
    }
}

static const struct settings_quota quota = {.requests = 3, .events = 10, .bytes = 100};
static const struct settings_project shop = {.name = "shop", .quota = &quota};

static void request_and_bytes_both_or_none(void **state)
{
    struct quota_refusal refusal;
    quotas_t *quotas = quotas_new();
    (void)state;
    assert_true(quotas_take_request(quotas, &shop, 60, START_S, &refusal));
    assert_false(quotas_take_request(quotas, &shop, 60, START_S, &refusal));
    assert_int_equal(refusal.dimension, QUOTA_BYTES);
    assert_int_equal(refusal.ceiling, 100);
    assert_int_equal(refusal.lack.left, 40);
    /* The refused ones were no requests. */
    assert_true(quotas_take_request(quotas, &shop, 20, START_S, &refusal));
    assert_true(quotas_take_request(quotas, &shop, 20, START_S, &refusal));
    assert_false(quotas_take_request(quotas, &shop, 0, START_S, &refusal));
    assert_int_equal(refusal.dimension, QUOTA_REQUESTS);
    assert_false(quotas_take_request(quotas, &shop, 101, START_S + 60, &refusal));
    assert_int_equal(refusal.lack.wait_s, 0);
    quotas_destroy(&quotas);
    quotas_destroy(&quotas);
}

static void projects_do_not_share(void **state)
{
    static const struct settings_project lab = {.name = "lab", .quota = &quota};
    static const struct settings_project free_one = {.name = "free"};
    struct quota_refusal refusal;
    struct quota_charge charge;
    quotas_t *quotas = quotas_new();
    (void)state;
    assert_true(quotas_take_events(quotas, &shop, 10, START_S, &charge, &refusal));
    assert_int_equal(charge.events, 10);
    assert_false(quotas_take_events(quotas, &shop, 1, START_S, &charge, &refusal));
    assert_int_equal(charge.events, 0);
    assert_true(quotas_take_events(quotas, &lab, 10, START_S, &charge, &refusal));
    assert_true(quotas_take_events(quotas, &free_one, 1000000, START_S, &charge, &refusal));
    assert_true(quotas_take_events(quotas, NULL, 1000000, START_S, &charge, &refusal));
    quotas_give_back(quotas, NULL, &charge, 0, START_S);
    quotas_destroy(&quotas);
}

/* New settings are another struct of the same project. */
static void use_outlives_the_settings(void **state)
{
    static const struct settings_quota wider = {.events = 15};
    static const struct settings_project shop_later = {.name = "shop", .quota = &wider};
    struct quota_refusal refusal;
    struct quota_charge first, second;
    quotas_t *quotas = quotas_new();
    (void)state;
    assert_true(quotas_take_events(quotas, &shop, 10, START_S, &first, &refusal));
    assert_false(quotas_take_events(quotas, &shop_later, 6, START_S, &second, &refusal));
    assert_true(quotas_take_events(quotas, &shop_later, 5, START_S, &second, &refusal));
    quotas_give_back(quotas, &shop_later, &first, 7, START_S + 5);
    assert_true(quotas_take_events(quotas, &shop_later, 7, START_S + 5, &second, &refusal));
    quotas_destroy(&quotas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_until_a_minute_is_over),
        cmocka_unit_test(a_large_amount_waits_for_as_much_as_it_needs),
        cmocka_unit_test(a_ceiling_that_sank_lets_nothing_through),
        cmocka_unit_test(what_is_given_back_is_free_again),
        cmocka_unit_test(a_clock_that_goes_back_frees_nothing),
        cmocka_unit_test(never_more_than_the_ceiling),
        cmocka_unit_test(request_and_bytes_both_or_none),
        cmocka_unit_test(projects_do_not_share),
        cmocka_unit_test(use_outlives_the_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
