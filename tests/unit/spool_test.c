// SPDX-License-Identifier: MIT
/* The spool as intake, delivery and upkeep use it. */
#include "tests/unit/spool_help.h"

/* What is answered as stored is there after a restart, once each, in order, unchanged. */
static void test_stored_is_there(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 300);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 300);
    bench_reopen(&bench);
    assert_int_equal(bench.report.waiting, 300);
    assert_int_equal(bench.report.torn_bytes, 0);
    assert_int_equal(bench.report.scanned_bytes > 8192, false); /* all sealed */
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(tally.seen[i], 1);
    bench_fini(&bench);
}

/* Settled records do not come back, and their segments give their space back. */
static void test_settled_is_gone(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 200);
    bench_collect(&bench, &tally, settle_it);
    assert_int_equal(tally.found, 200);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 0);
    bench.now_ms += 25;
    acks_tick(bench.acks, bench.now_ms);
    assert_int_equal(bench_files(&bench, "seg", ".log"), 1); /* the active one */
    bench_reopen(&bench);
    assert_int_equal(bench.report.waiting, 0);
    assert_int_equal(bench_files(&bench, "seg", ""), 0);
    bench_fini(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored_is_there),
        cmocka_unit_test(test_settled_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
