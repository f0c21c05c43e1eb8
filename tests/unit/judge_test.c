// SPDX-License-Identifier: MIT
/* The promises: what a judge answers is a score that the scorer allows, or a failure with its
 * reason; the samples of scorers are what their arithmetic says; nothing connects to where machines
 * tell their secrets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "common/http_client.h"
#include "store/judge_text.h"
#include "store/score_plan.h"

static const char *const labels[] = {"order", "refund"};
static const struct settings_output number = {.type = SCORE_NUMBER, .min = 0, .max = 1};
static const struct settings_output any_number = {
    .type = SCORE_NUMBER, .min = -INFINITY, .max = INFINITY};
static const struct settings_output boolean = {.type = SCORE_BOOLEAN};
static const struct settings_output label = {
    .type = SCORE_LABEL, .labels = labels, .labels_count = 2};
static const struct settings_output text = {.type = SCORE_TEXT};

static void answers_are_scores(void **state)
{
    static const struct {
        const struct settings_output *output;
        const char *body;
        double number; /* NAN: none */
        const char *text, *comment;
    } rows[] = {
        {&number, "{\"value\":0.5}", 0.5, "", ""},
        {&number, " {\"value\":1,\"label\":\"good\",\"comment\":\"c\"} ", 1, "good", "c"},
        {&number, "{\"value\":2,\"value\":0}", 0, "", ""}, /* of equal names the last */
        {&number, "{\"value\":1e-3,\"label\":5,\"comment\":{}}", 1e-3, "", ""},
        {&any_number, "{\"value\":-1e300}", -1e300, "", ""},
        {&boolean, "{\"value\":true}", 1, "", ""},
        {&boolean, "{\"value\":0}", 0, "", ""},
        {&label, "{\"value\":\"refund\"}", NAN, "refund", ""},
        {&label, "{\"label\":\"order\"}", NAN, "order", ""},
        {&text, "{\"value\":\"\\u00e9\"}", NAN, "\xc3\xa9", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct judge_answer answer;
        struct err err = {""};
        if (judge_read_answer(slice_of(rows[i].body), rows[i].output, &answer, &err) == -1)
            fail_msg("%s: %s", rows[i].body, err.text);
        assert_int_equal(answer.has_number, !isnan(rows[i].number));
        if (answer.has_number)
            assert_true(answer.number == rows[i].number);
        assert_string_equal(answer.text, rows[i].text);
        assert_string_equal(answer.comment, rows[i].comment);
    }
}

static void other_answers_are_failures(void **state)
{
    static const struct {
        const struct settings_output *output;
        const char *body, *reason;
    } rows[] = {
        {&number, "", "its answer is no JSON object"},
        {&number, "[0.5]", "its answer is no JSON object"},
        {&number, "{\"value\":0.5", "its answer is no JSON object"},
        {&number, "{}", "its value is no number"},
        {&number, "{\"value\":\"1\"}", "its value is no number"},
        {&number, "{\"value\":true}", "its value is no number"},
        {&number, "{\"value\":1e999}", "its value is no number"},
        {&number, "{\"value\":1.01}", "its value 1.01 is not from 0 to 1"},
        {&boolean, "{\"value\":2}", "its value is neither true nor false"},
        {&boolean, "{\"value\":\"true\"}", "its value is neither true nor false"},
        {&label, "{\"value\":\"Order\"}", "its value is none of the labels"},
        {&label, "{\"value\":\"\"}", "its value is no label of up to 200 characters"},
        {&text, "{\"value\":7}", "its value is no text of up to 500 characters"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct judge_answer answer;
        struct err err = {""};
        assert_int_equal(judge_read_answer(slice_of(rows[i].body), rows[i].output, &answer, &err),
                         -1);
        assert_string_equal(err.text, rows[i].reason);
    }
}

/* A row of LISTING_SPANS with these texts. */
static void fill_span(struct list_value *row, const char *parent, const char *content)
{
    const struct listing *listing = listing_row(LISTING_SPANS);
    memset(row, 0, LISTING_COLUMNS_MAX * sizeof *row);
    for (size_t i = 0; listing->columns[i].name; i++) {
        const char *name = listing->columns[i].name;
        const char *value = strcmp(name, "parent_id") == 0 ? parent
                            : strcmp(name, "content") == 0 ? content
                            : strcmp(name, "name") == 0    ? "n"
                                                           : NULL;
        if (value)
            row[i] = (struct list_value){.type = LIST_TEXT, .bytes = slice_of(value)};
    }
}

static void request_has_the_roots_input_and_output(void **state)
{
    static const struct settings_scorer scorer = {.name = "s", .version = "v", .output = &number};
    static const struct score_job job = {.project = "shop", .trace_id = {0xab}};
    static const char expected[] =
        "{\"scorer\":{\"name\":\"s\",\"version\":\"v\",\"output\":{\"type\":\"number\",\"min\":0.0,"
        "\"max\":1.0}},\"target\":{\"type\":\"trace\",\"project\":\"shop\",\"trace_id\":"
        "\"ab000000000000000000000000000000\"},\"input\":\"asked\",\"output\":[\"last\"],\"spans\":"
        "[";
    struct list_value row[LISTING_COLUMNS_MAX];
    struct judge_input input;
    struct buf body;
    (void)state;
    judge_input_init(&input, 65536);
    buf_init(&body, 1 << 20);
    fill_span(row, "12345678", "{\"input.value\":\"first\",\"output.value\":\"no\"}");
    judge_input_add(&input, row);
    fill_span(row, NULL, "{\"gen_ai.input.messages\":\"asked\",\"input.value\":\"older\"}");
    judge_input_add(&input, row);
    fill_span(row, "12345678", "{\"gen_ai.output.messages\":[\"last\"]}");
    judge_input_add(&input, row);
    assert_int_equal(judge_write_request(&input, &scorer, &job, &body), 0);
    assert_true(body.len > sizeof expected - 1);
    assert_memory_equal(body.data, expected, sizeof expected - 1);
    buf_fini(&body);
    judge_input_fini(&input);
}

static void samples_hold_their_share_and_are_nested(void **state)
{
    struct settings_scorer few = {.name = "s", .sample = 0.2};
    struct settings_scorer more = {.name = "s", .sample = 0.6};
    struct settings_scorer all = {.name = "s", .sample = 1, .project = "shop"};
    struct settings_scorer none = {.name = "s", .sample = 0};
    const struct planned_scorer plans[] = {
        {.settings = &few}, {.settings = &more}, {.settings = &all}, {.settings = &none}};
    size_t counts[4] = {0};
    (void)state;
    for (uint32_t n = 0; n < 10000; n++) {
        uint8_t id[TRACE_ID_LEN] = {(uint8_t)n, (uint8_t)(n >> 8)};
        bool is_chosen[4];
        for (size_t i = 0; i < 4; i++)
            counts[i] += is_chosen[i] = score_chooses(&plans[i], "shop", id);
        assert_true(!is_chosen[0] || is_chosen[1]);
        assert_false(score_chooses(&plans[2], "other", id));
    }
    assert_in_range(counts[0], 1800, 2200);
    assert_in_range(counts[1], 5800, 6200);
    assert_int_equal(counts[2], 10000);
    assert_int_equal(counts[3], 0);
}

static void tries_wait_longer_and_end(void **state)
{
    static const struct settings_judge judge = {.retries = 6};
    static const struct settings_scorer scorer = {.judge = &judge};
    static const struct settings_scorer rule = {0};
    static const uint64_t waits[] = {10, 60, 600, 3600, 3600, 3600, 0};
    (void)state;
    for (uint64_t tries = 1; tries <= 7; tries++)
        assert_int_equal(score_retry_s(&scorer, tries), waits[tries - 1]);
    assert_int_equal(score_retry_s(&rule, 1), 0);
}

static bool is_forbidden(const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return http_client_is_forbidden((struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return http_client_is_forbidden((struct sockaddr *)&v6);
}

static void secrets_of_machines_are_out_of_reach(void **state)
{
    static const char *const forbidden[] = {
        "169.254.169.254", "169.254.0.1",       "100.100.100.200",          "192.0.0.192",
        "224.0.0.1",       "fe80::1",           "::ffff:169.254.169.254",   "fd00:ec2::254",
        "ff02::1",         "::169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1"};
    static const char *const allowed[] = {
        "127.0.0.1", "10.0.0.1",    "169.253.255.255", "8.8.8.8",           "::1",
        "fd00::1",   "2001:db8::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1"};
    (void)state;
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (!is_forbidden(forbidden[i]))
            fail_msg("%s is allowed", forbidden[i]);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (is_forbidden(allowed[i]))
            fail_msg("%s is forbidden", allowed[i]);
    assert_true(http_client_is_forbidden(&(struct sockaddr){.sa_family = AF_UNIX}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_scores),
        cmocka_unit_test(other_answers_are_failures),
        cmocka_unit_test(request_has_the_roots_input_and_output),
        cmocka_unit_test(samples_hold_their_share_and_are_nested),
        cmocka_unit_test(tries_wait_longer_and_end),
        cmocka_unit_test(secrets_of_machines_are_out_of_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
