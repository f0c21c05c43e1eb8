// SPDX-License-Identifier: MIT
/*
 * The promise: nobody believes to be the leader when the lease may already be another's, and a
 * leader that is only slow for a while stays one. P is 1000, so the lease runs 2500 and is trusted
 * for 2300 from when it was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/leader.h"

#define P     1000
#define START 5000
#define TRUST 2300

static const struct lease_row won = {.fence = 7, .left_ms = 2500, .server = 1};
static const struct lease_row others = {.fence = 8, .left_ms = 600, .server = 1};

/* The answer to what was sent at sent_ms. */
static enum leader_change answer(struct leader *self, enum backend_status status,
                                 const struct lease_row *row, uint64_t sent_ms, uint64_t now_ms)
{
    return leader_answered(self, status, row, sent_ms, now_ms, 0);
}

static struct leader a_leader(void)
{
    struct leader self;
    leader_init(&self, P, START);
    assert_int_equal(leader_next_ms(&self), START);
    assert_int_equal(answer(&self, BACKEND_OK, &won, START, START + 5), LEADER_WON);
    return self;
}

static void the_times_follow_from_the_interval(void **state)
{
    (void)state;
    assert_int_equal(leader_ttl_ms(10000), 25000);
    assert_int_equal(leader_trust_ms(10000), 23000);
    assert_int_equal(leader_try_ms(10000), 3000);
    assert_int_equal(leader_fenced_ms(10000), 1000);
    assert_int_equal(leader_try_ms(600000), 5000); /* no call to the store may take for ever */
    assert_int_equal(leader_fenced_ms(600000), 5000);
}

static void trust_runs_from_when_the_bid_was_sent(void **state)
{
    (void)state;
    struct leader self = a_leader();
    assert_int_equal(leader_trust_left_ms(&self, START + 5), TRUST - 5);
    assert_int_equal(leader_tick(&self, START + TRUST - 1), LEADER_STAYS);
    assert_int_equal(leader_trust_left_ms(&self, START + TRUST - 1), 1);
    assert_int_equal(leader_trust_left_ms(&self, START + TRUST), 0);
    assert_int_equal(leader_tick(&self, START + TRUST), LEADER_LOST);
    assert_false(self.is_leader);
    assert_int_equal(leader_tick(&self, START + TRUST), LEADER_STAYS);
}

static void a_renewal_is_due_each_interval_and_prolongs_the_trust(void **state)
{
    (void)state;
    struct leader self = a_leader();
    for (uint64_t sent_ms = START + P; sent_ms < START + 20 * P; sent_ms += P) {
        assert_int_equal(leader_next_ms(&self), sent_ms);
        assert_int_equal(answer(&self, BACKEND_OK, &won, sent_ms, sent_ms + 200), LEADER_STAYS);
        assert_int_equal(leader_trust_left_ms(&self, sent_ms + 200), TRUST - 200);
    }
}

static void one_renewal_late_by_an_interval_changes_nothing(void **state)
{
    (void)state;
    struct leader self = a_leader();
    assert_int_equal(leader_tick(&self, START + 2 * P), LEADER_STAYS);
    assert_int_equal(answer(&self, BACKEND_OK, &won, START + 2 * P, START + 2 * P + 10),
                     LEADER_STAYS);
    assert_true(self.is_leader);
    assert_int_equal(self.fence, 7);
}

static void no_answer_stops_new_work_at_once_and_the_belief_in_time(void **state)
{
    (void)state;
    struct leader self = a_leader();
    uint64_t now_ms = START + P;
    int tries = 0;
    while (self.is_leader) {
        uint64_t limit_ms = leader_limit_ms(&self, now_ms);
        assert_in_range(limit_ms, 1, 300);
        assert_in_range(now_ms + limit_ms, 0, START + TRUST);
        uint64_t sent_ms = now_ms;
        now_ms += limit_ms;
        answer(&self, BACKEND_AWAY, &(struct lease_row){0}, sent_ms, now_ms);
        assert_int_equal(leader_trust_left_ms(&self, now_ms), 0);
        tries++;
        if (self.is_leader)
            now_ms = leader_next_ms(&self);
        leader_tick(&self, now_ms);
    }
    assert_int_equal(now_ms, START + TRUST);
    assert_in_range(tries, 2, 4);
}

static void a_try_that_fails_once_is_made_good_by_the_next(void **state)
{
    (void)state;
    struct leader self = a_leader();
    answer(&self, BACKEND_AWAY, &(struct lease_row){0}, START + P, START + P + 300);
    uint64_t again_ms = leader_next_ms(&self);
    assert_int_equal(again_ms, START + P + 300 + P / 4);
    assert_int_equal(answer(&self, BACKEND_OK, &won, again_ms, again_ms + 5), LEADER_STAYS);
    assert_int_equal(leader_trust_left_ms(&self, again_ms + 5), TRUST - 5);
    struct leader slow = a_leader();
    slow.pass_ms = 60000; /* never waits for longer than a second */
    answer(&slow, BACKEND_AWAY, &(struct lease_row){0}, START + P, START + P + 300);
    assert_int_equal(leader_next_ms(&slow), START + P + 300 + 1000);
}

static void a_renewal_that_finds_no_row_ends_it_at_once(void **state)
{
    (void)state;
    struct leader self = a_leader();
    assert_int_equal(answer(&self, BACKEND_FENCED, &others, START + P, START + P + 5), LEADER_LOST);
    assert_int_equal(leader_trust_left_ms(&self, START + P + 5), 0);
    assert_int_equal(leader_next_ms(&self), START + P + 5); /* it may bid again */
    assert_int_equal(self.highest_fence, 8);
}

static void a_frozen_leader_believes_nothing_when_it_wakes(void **state)
{
    (void)state;
    struct leader asleep = a_leader();
    assert_int_equal(leader_trust_left_ms(&asleep, START + 60 * P), 0);
    assert_int_equal(leader_tick(&asleep, START + 60 * P), LEADER_LOST);
    /* Frozen while its renewal, or its bid, was under way, which went through. */
    struct leader renewing = a_leader();
    assert_int_equal(answer(&renewing, BACKEND_OK, &won, START + P, START + 60 * P), LEADER_LOST);
    struct leader bidding;
    leader_init(&bidding, P, START);
    assert_int_equal(answer(&bidding, BACKEND_OK, &won, START, START + 60 * P), LEADER_STAYS);
    assert_false(bidding.is_leader);
}

static void another_start_of_the_server_ends_it_and_the_next_bid_goes_higher(void **state)
{
    (void)state;
    struct leader self = a_leader();
    struct lease_row older = {.fence = 7, .left_ms = 2500, .server = 2};
    assert_int_equal(answer(&self, BACKEND_OK, &older, START + P, START + P + 5), LEADER_LOST);
    /* Whatever fence a server shows that forgot some, the highest one is remembered. */
    struct lease_row forgot = {.fence = 3, .left_ms = 100, .server = 2};
    answer(&self, BACKEND_FENCED, &forgot, START + 2 * P, START + 2 * P + 5);
    assert_int_equal(self.highest_fence, 7);
}

static void a_fenced_write_ends_only_the_leadership_it_belongs_to(void **state)
{
    (void)state;
    struct leader self = a_leader();
    assert_int_equal(leader_fenced(&self, 6, START + 10), LEADER_STAYS);
    assert_int_equal(leader_fenced(&self, 7, START + 10), LEADER_LOST);
    assert_int_equal(leader_fenced(&self, 7, START + 10), LEADER_STAYS);
}

static void a_refused_bid_comes_back_when_the_lease_may_end(void **state)
{
    (void)state;
    static const struct {
        uint64_t left_ms;
        double chance;
        uint64_t wait_ms;
    } cases[] = {
        {600, 0, 650}, {600, 0.999999, 849}, {0, 0, 50}, {2500, 0, P}, {UINT64_MAX / 2, 0.5, P},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leader self;
        struct lease_row row = {.fence = 8, .left_ms = cases[i].left_ms};
        leader_init(&self, P, START);
        leader_answered(&self, BACKEND_FENCED, &row, START, START + 5, cases[i].chance);
        assert_int_equal(leader_next_ms(&self), START + 5 + cases[i].wait_ms);
    }
}

static void an_unanswered_bid_is_made_again_soon(void **state)
{
    (void)state;
    struct leader self;
    leader_init(&self, P, START);
    answer(&self, BACKEND_AWAY, &(struct lease_row){0}, START, START + 300);
    assert_in_range(leader_next_ms(&self), START + 301, START + 300 + P / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_times_follow_from_the_interval),
        cmocka_unit_test(trust_runs_from_when_the_bid_was_sent),
        cmocka_unit_test(a_renewal_is_due_each_interval_and_prolongs_the_trust),
        cmocka_unit_test(one_renewal_late_by_an_interval_changes_nothing),
        cmocka_unit_test(no_answer_stops_new_work_at_once_and_the_belief_in_time),
        cmocka_unit_test(a_try_that_fails_once_is_made_good_by_the_next),
        cmocka_unit_test(a_renewal_that_finds_no_row_ends_it_at_once),
        cmocka_unit_test(a_frozen_leader_believes_nothing_when_it_wakes),
        cmocka_unit_test(another_start_of_the_server_ends_it_and_the_next_bid_goes_higher),
        cmocka_unit_test(a_fenced_write_ends_only_the_leadership_it_belongs_to),
        cmocka_unit_test(a_refused_bid_comes_back_when_the_lease_may_end),
        cmocka_unit_test(an_unanswered_bid_is_made_again_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
