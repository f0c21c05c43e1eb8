// SPDX-License-Identifier: MIT
/*
 * What each result of an attempt means. The lists here are written by class, as the documentation
 * tells them, and not derived from outcome.def: a row changed by mistake shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <curl/curl.h>

#include "courier/outcome.h"

#define END -1

static bool has(const int *list, int value)
{
    for (; *list != END; list++) {
        if (*list == value)
            return true;
    }
    return false;
}

static struct outcome of_status(int status, bool has_our_key)
{
    struct attempt_facts facts = {
        .curl_code = CURLE_OK, .status = status, .is_sent = true, .has_our_key = has_our_key};
    return outcome_of(&facts);
}

static enum outcome_class expected_of_status(int status, bool has_our_key)
{
    static const int wait[] = {409, 423, 425, END};
    static const int hard[] = {429, 502, 503, 504, 507, 509, END};
    static const int config[] = {407, 421, 426, 505, 511, END};
    static const int soft[] = {408, 499, END};
    if (status >= 200 && status < 300)
        return OUTCOME_DELIVERED;
    if (status < 400 || has(config, status))
        return OUTCOME_CONFIG;
    if (has(wait, status))
        return OUTCOME_WAIT;
    if (has(hard, status) || (status >= 520 && status <= 530))
        return OUTCOME_HARD;
    if (has(soft, status))
        return OUTCOME_SOFT;
    if ((status == 401 || status == 403) && has_our_key)
        return OUTCOME_CONFIG;
    return status < 500 || status == 501 ? OUTCOME_FINAL : OUTCOME_SOFT;
}

static void each_status_has_its_class(void **state)
{
    (void)state;
    static const int braked[] = {401, 403, 404, 405, END};
    for (int status = 100; status < 600; status++) {
        for (int has_our_key = 0; has_our_key < 2; has_our_key++) {
            struct outcome outcome = of_status(status, has_our_key);
            if (outcome.class != expected_of_status(status, has_our_key))
                fail_msg("status %d is %s", status, outcome_class_name(outcome.class));
            assert_int_equal(outcome.is_braked, has(braked, status));
            assert_false(outcome.is_ambiguous);
        }
    }
}

static void an_answer_that_is_no_http_is_the_upstreams_trouble(void **state)
{
    (void)state;
    static const int statuses[] = {0, 1, 99, 600, 999};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        assert_int_equal(of_status(statuses[i], false).class, OUTCOME_SOFT);
    }
}

static void another_copy_being_stored_cools_nobody(void **state)
{
    (void)state;
    struct attempt_facts facts = {.status = 503, .is_sent = true, .says_in_flight = true};
    assert_int_equal(outcome_of(&facts).class, OUTCOME_WAIT);
    facts.status = 502; /* the header means something with 503 only */
    assert_int_equal(outcome_of(&facts).class, OUTCOME_HARD);
}

/* One project's quota must not keep the others' requests from the upstream. */
static void a_project_over_its_quota_cools_nobody(void **state)
{
    (void)state;
    struct attempt_facts facts = {.status = 429, .is_sent = true, .says_quota = true};
    assert_int_equal(outcome_of(&facts).class, OUTCOME_WAIT);
    facts.has_our_key = true;
    assert_int_equal(outcome_of(&facts).class, OUTCOME_WAIT);
    facts.status = 503; /* the header means this with 429 only */
    assert_int_equal(outcome_of(&facts).class, OUTCOME_HARD);
}

static void a_refused_expect_is_taken_back(void **state)
{
    (void)state;
    struct attempt_facts facts = {.status = 417, .is_sent = true, .has_asked = true};
    assert_int_equal(outcome_of(&facts).class, OUTCOME_AGAIN);
    facts.has_asked = false;
    assert_int_equal(outcome_of(&facts).class, OUTCOME_FINAL);
}

static enum outcome_class expected_of_curl(int code)
{
    static const int hard[] = {5, 6, 7, 35, 45, 80, 89, 96, 97, END};
    static const int soft[] = {1, 8, 16, 18, 25, 28, 34, 52, 55, 56, 61, 92, 95, END};
    static const int config[] = {2,  3,  4,  47, 53, 54, 58, 59, 60, 64,
                                 66, 67, 77, 82, 83, 90, 91, 94, 98, END};
    if (has(hard, code))
        return OUTCOME_HARD;
    if (has(soft, code))
        return OUTCOME_SOFT;
    return has(config, code) ? OUTCOME_CONFIG : OUTCOME_LOCAL;
}

static void each_curl_result_has_its_class(void **state)
{
    (void)state;
    for (int code = 1; code < 130; code++) {
        struct attempt_facts facts = {.curl_code = code, .is_sent = true};
        struct outcome outcome = outcome_of(&facts);
        if (outcome.class != expected_of_curl(code))
            fail_msg("result %d is %s", code, outcome_class_name(outcome.class));
        assert_int_equal(outcome.is_ambiguous, outcome.class == OUTCOME_SOFT);
    }
}

static void a_timeout_before_sending_is_not_ambiguous(void **state)
{
    (void)state;
    struct attempt_facts facts = {.curl_code = CURLE_OPERATION_TIMEDOUT, .is_sent = false};
    struct outcome outcome = outcome_of(&facts);
    assert_int_equal(outcome.class, OUTCOME_HARD);
    assert_false(outcome.is_ambiguous);
}

/* An upstream that refuses a body early closes without reading it: the refusal is what counts. */
static void an_error_status_stands_though_the_connection_broke(void **state)
{
    (void)state;
    static const int codes[] = {CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct attempt_facts facts = {.curl_code = codes[i], .status = 413, .is_sent = true};
        assert_int_equal(outcome_of(&facts).class, OUTCOME_FINAL);
        facts.status = 503;
        assert_int_equal(outcome_of(&facts).class, OUTCOME_HARD);
    }
}

/* The upstream may have died before its transaction was whole. */
static void half_a_success_is_none(void **state)
{
    (void)state;
    struct attempt_facts facts = {.curl_code = CURLE_PARTIAL_FILE, .status = 200, .is_sent = true};
    struct outcome outcome = outcome_of(&facts);
    assert_int_equal(outcome.class, OUTCOME_SOFT);
    assert_true(outcome.is_ambiguous);
}

static void an_answer_we_cut_counts_by_its_status(void **state)
{
    (void)state;
    struct attempt_facts facts = {
        .curl_code = CURLE_WRITE_ERROR, .status = 200, .is_sent = true, .is_cut = true};
    assert_int_equal(outcome_of(&facts).class, OUTCOME_DELIVERED);
    facts.is_cut = false;
    assert_int_equal(outcome_of(&facts).class, OUTCOME_LOCAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_its_class),
        cmocka_unit_test(an_answer_that_is_no_http_is_the_upstreams_trouble),
        cmocka_unit_test(another_copy_being_stored_cools_nobody),
        cmocka_unit_test(a_project_over_its_quota_cools_nobody),
        cmocka_unit_test(a_refused_expect_is_taken_back),
        cmocka_unit_test(each_curl_result_has_its_class),
        cmocka_unit_test(a_timeout_before_sending_is_not_ambiguous),
        cmocka_unit_test(an_error_status_stands_though_the_connection_broke),
        cmocka_unit_test(half_a_success_is_none),
        cmocka_unit_test(an_answer_we_cut_counts_by_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
