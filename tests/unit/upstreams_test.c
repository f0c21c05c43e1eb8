// SPDX-License-Identifier: MIT
/*
 * The list of upstreams under made-up time: who is chosen, who cools for how long, who comes back.
 * Nothing here sleeps; a "second" is a number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "courier/upstreams.h"

#define A           0
#define B           1
#define S           ((uint64_t)1000)
#define START_MS    (1000 * S)
#define WORKERS     16
#define TIMEOUT_MS  (30 * S) /* the standard of an attempt */
#define HALF        0.5
#define NEARLY_ONE  0.999999999
#define MANY_ROUNDS 200

struct fixture {
    upstreams_t *upstreams;
    uint64_t now_ms;
};

static struct fixture make(const char *first, const char *second)
{
    char *items[] = {(char *)first, (char *)second};
    struct text_list texts = {.items = items, .count = second ? 2 : 1};
    struct err err = {{0}};
    struct fixture fixture = {.now_ms = START_MS};
    fixture.upstreams = upstreams_new(&texts, WORKERS, START_MS, &err);
    if (!fixture.upstreams)
        fail_msg("%s", err.text);
    return fixture;
}

static struct fixture make_two(void)
{
    return make("http://a:1", "http://b:1");
}

static struct choice choose(struct fixture *f, uint64_t tried)
{
    return upstreams_choose(f->upstreams, tried, f->now_ms);
}

static struct attempt begin(struct fixture *f, size_t expected)
{
    struct choice choice = choose(f, 0);
    assert_int_equal(choice.kind, CHOICE_TAKE);
    assert_int_equal(choice.upstream, expected);
    return upstreams_begin(f->upstreams, &choice, f->now_ms);
}

static enum outcome_class end(struct fixture *f, struct attempt attempt, struct outcome outcome,
                              uint64_t retry_after_s, double unit)
{
    struct attempt_end ended = {
        .outcome = outcome, .retry_after_s = retry_after_s, .detail = "test"};
    return upstreams_end(f->upstreams, &attempt, &ended, f->now_ms, unit);
}

static enum outcome_class end_as(struct fixture *f, struct attempt attempt,
                                 enum outcome_class class)
{
    return end(f, attempt, (struct outcome){.class = class}, 0, NEARLY_ONE);
}

/* One request, chosen and ended at once. */
static void fail_at(struct fixture *f, size_t upstream)
{
    end_as(f, begin(f, upstream), OUTCOME_HARD);
}

static void deliver_at(struct fixture *f, size_t upstream)
{
    end_as(f, begin(f, upstream), OUTCOME_DELIVERED);
}

static bool is_taken(struct fixture *f, size_t upstream)
{
    struct choice choice = choose(f, 0);
    return choice.kind == CHOICE_TAKE && choice.upstream == upstream;
}

/* Time goes on until the upstream is chosen; returns how long that took. */
static uint64_t wait_for(struct fixture *f, size_t upstream, uint64_t most_ms)
{
    uint64_t from_ms = f->now_ms;
    while (!is_taken(f, upstream)) {
        f->now_ms += 10;
        upstreams_tick(f->upstreams, f->now_ms, HALF);
        if (f->now_ms - from_ms > most_ms)
            fail_msg("upstream %zu not used again within %llu ms", upstream,
                     (unsigned long long)most_ms);
    }
    return f->now_ms - from_ms;
}

static void the_first_that_is_neither_cooling_nor_tried_is_chosen(void **state)
{
    (void)state;
    struct fixture f = make_two();
    assert_true(is_taken(&f, A));
    struct choice choice = choose(&f, 1 << A);
    assert_int_equal(choice.kind, CHOICE_TAKE);
    assert_int_equal(choice.upstream, B);
    assert_int_equal(choose(&f, 1 << A | 1 << B).kind, CHOICE_NOBODY);
    fail_at(&f, A);
    assert_true(is_taken(&f, B));
    assert_int_equal(choose(&f, 1 << B).kind, CHOICE_NOBODY);
    upstreams_destroy(&f.upstreams);
}

static void a_failure_cools_and_traffic_returns_by_itself(void **state)
{
    (void)state;
    struct fixture f = make_two();
    fail_at(&f, A);
    assert_in_range(wait_for(&f, A, S), 900, S);
    deliver_at(&f, A);
    assert_true(is_taken(&f, A));
    upstreams_destroy(&f.upstreams);
}

static void four_that_fail_together_are_one_strike(void **state)
{
    (void)state;
    struct fixture f = make_two();
    struct attempt attempts[4];
    for (int i = 0; i < 4; i++) {
        attempts[i] = begin(&f, A);
    }
    for (int i = 0; i < 4; i++) {
        f.now_ms += 100;
        end_as(&f, attempts[i], OUTCOME_HARD);
    }
    wait_for(&f, A, S);
    fail_at(&f, A); /* the trial: strike 2, not 5 */
    assert_in_range(wait_for(&f, A, 2 * S), 1900, 2 * S);
    upstreams_destroy(&f.upstreams);
}

/* A delivery that hung through a whole cool-off says nothing about now. */
static void old_failures_do_not_cool_a_recovered_upstream(void **state)
{
    (void)state;
    struct fixture f = make_two();
    struct attempt old = begin(&f, A);
    fail_at(&f, A);
    wait_for(&f, A, S);
    deliver_at(&f, A);
    end_as(&f, old, OUTCOME_SOFT);
    assert_true(is_taken(&f, A));
    upstreams_destroy(&f.upstreams);
}

static void at_half_open_one_goes_and_the_rest_take_the_next(void **state)
{
    (void)state;
    struct fixture f = make_two();
    fail_at(&f, A);
    wait_for(&f, A, S);
    struct attempt trial = begin(&f, A);
    assert_true(trial.is_trial);
    for (int i = 0; i < WORKERS - 1; i++) {
        assert_false(begin(&f, B).is_trial);
    }
    end_as(&f, trial, OUTCOME_DELIVERED);
    assert_true(is_taken(&f, A));
    upstreams_destroy(&f.upstreams);
}

static void with_one_upstream_the_rest_waits_for_the_trial(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1", NULL);
    fail_at(&f, A);
    assert_int_equal(choose(&f, 0).kind, CHOICE_NOBODY);
    wait_for(&f, A, S);
    struct attempt trial = begin(&f, A);
    assert_int_equal(choose(&f, 0).kind, CHOICE_WAIT);
    assert_int_equal(upstreams_open_at_ms(f.upstreams, f.now_ms), 0);
    end_as(&f, trial, OUTCOME_HARD);
    assert_int_equal(choose(&f, 0).kind, CHOICE_NOBODY);
    assert_true(upstreams_open_at_ms(f.upstreams, f.now_ms) > f.now_ms);
    upstreams_destroy(&f.upstreams);
}

static void after_a_cool_off_the_load_doubles_from_one(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1", NULL);
    fail_at(&f, A);
    wait_for(&f, A, S);
    deliver_at(&f, A);
    for (int limit = 1; limit <= WORKERS; limit *= 2) {
        struct attempt attempts[WORKERS];
        for (int i = 0; i < limit; i++) {
            attempts[i] = begin(&f, A);
        }
        assert_int_equal(choose(&f, 0).kind, CHOICE_WAIT);
        for (int i = 0; i < limit; i++) {
            end_as(&f, attempts[i], i == 0 ? OUTCOME_DELIVERED : OUTCOME_WAIT);
        }
    }
    upstreams_destroy(&f.upstreams);
}

static void full_is_not_down(void **state)
{
    (void)state;
    struct fixture f = make_two();
    for (int i = 0; i < WORKERS; i++) {
        begin(&f, A);
    }
    assert_int_equal(choose(&f, 0).kind, CHOICE_WAIT);
    upstreams_destroy(&f.upstreams);
}

/* Attempts from before the cool-off may hang until their timeout; they must not count as load. */
static void hanging_attempts_do_not_block_a_recovered_upstream(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1", NULL);
    for (int i = 0; i < WORKERS - 1; i++) {
        begin(&f, A);
    }
    fail_at(&f, A);
    wait_for(&f, A, S);
    deliver_at(&f, A);
    deliver_at(&f, A);
    upstreams_destroy(&f.upstreams);
}

static void a_trial_that_never_ends_is_followed_by_another(void **state)
{
    (void)state;
    struct fixture f = make_two();
    fail_at(&f, A);
    wait_for(&f, A, S);
    struct attempt lost = begin(&f, A);
    uint64_t took_ms = wait_for(&f, A, TIMEOUT_MS + 3 * S);
    assert_true(took_ms > TIMEOUT_MS);
    end_as(&f, lost, OUTCOME_HARD); /* old news */
    deliver_at(&f, A);
    upstreams_destroy(&f.upstreams);
}

static void a_trial_that_failed_for_our_own_reason_costs_nothing(void **state)
{
    (void)state;
    struct fixture f = make_two();
    fail_at(&f, A);
    wait_for(&f, A, S);
    end_as(&f, begin(&f, A), OUTCOME_LOCAL);
    assert_true(begin(&f, A).is_trial);
    upstreams_destroy(&f.upstreams);
}

static void a_long_outage_ends_within_the_cap(void **state)
{
    (void)state;
    struct fixture f = make_two();
    for (int i = 0; i < 50; i++) {
        wait_for(&f, A, 30 * S);
        fail_at(&f, A);
    }
    wait_for(&f, A, 31 * S);
    deliver_at(&f, A);
    deliver_at(&f, A);
    upstreams_destroy(&f.upstreams);
}

static void an_upstream_that_works_every_other_time_is_asked_less_and_less(void **state)
{
    (void)state;
    struct fixture f = make_two();
    int cooled = 0;
    uint64_t last_ms = 0;
    for (bool is_good = true; f.now_ms < START_MS + 60 * S; is_good = !is_good) {
        uint64_t from_ms = f.now_ms;
        while (!is_taken(&f, A)) {
            f.now_ms += 10;
        }
        if (f.now_ms > from_ms) {
            assert_true(f.now_ms - from_ms >= last_ms || last_ms >= 29 * S);
            last_ms = f.now_ms - from_ms;
        }
        end_as(&f, begin(&f, A), is_good ? OUTCOME_DELIVERED : OUTCOME_HARD);
        cooled += !is_good;
    }
    assert_in_range(cooled, 4, 12);
    upstreams_destroy(&f.upstreams);
}

static void strikes_are_forgiven_one_each_30_s(void **state)
{
    (void)state;
    struct fixture f = make_two();
    for (int i = 0; i < 4; i++) {
        wait_for(&f, A, 30 * S);
        fail_at(&f, A);
    }
    wait_for(&f, A, 30 * S);
    deliver_at(&f, A);
    f.now_ms += 2 * 30 * S; /* 4 strikes become 2 */
    fail_at(&f, A);         /* strike 3: 4 s */
    assert_in_range(wait_for(&f, A, 30 * S), 3900, 4 * S);
    upstreams_destroy(&f.upstreams);
}

static void a_retry_after_is_kept_to(void **state)
{
    (void)state;
    for (int i = 0; i < MANY_ROUNDS; i++) {
        struct fixture f = make_two();
        struct outcome hard = {.class = OUTCOME_HARD};
        end(&f, begin(&f, A), hard, 7, clock_random_unit());
        f.now_ms += 7 * S - 1;
        assert_true(is_taken(&f, B));
        f.now_ms += 701;
        assert_true(is_taken(&f, A));
        upstreams_destroy(&f.upstreams);
    }
}

static void a_longer_retry_after_extends_a_shorter_does_not(void **state)
{
    (void)state;
    struct fixture f = make_two();
    struct outcome hard = {.class = OUTCOME_HARD};
    struct attempt first = begin(&f, A), second = begin(&f, A), third = begin(&f, A);
    end(&f, first, hard, 5, 0);
    end(&f, second, hard, 20, 0);
    end(&f, third, hard, 1, 0);
    assert_int_equal(wait_for(&f, A, 30 * S), 20 * S);
    upstreams_destroy(&f.upstreams);
}

static void a_retry_after_is_honoured_for_an_hour_at_most(void **state)
{
    (void)state;
    struct fixture f = make_two();
    end(&f, begin(&f, A), (struct outcome){.class = OUTCOME_HARD}, 86400000, NEARLY_ONE);
    f.now_ms += 3600 * S - 1;
    assert_true(is_taken(&f, B));
    f.now_ms += 5 * S + 1;
    assert_true(is_taken(&f, A));
    upstreams_destroy(&f.upstreams);
}

static void set_up_trouble_cools_for_long(void **state)
{
    (void)state;
    struct fixture f = make_two();
    end_as(&f, begin(&f, A), OUTCOME_CONFIG);
    assert_in_range(wait_for(&f, A, 30 * S), 29 * S, 30 * S);
    for (int i = 0; i < 6; i++) {
        end_as(&f, begin(&f, A), OUTCOME_CONFIG);
        wait_for(&f, A, 300 * S);
    }
    upstreams_destroy(&f.upstreams);
}

/* A wrong key of ours: requests are kept and the upstream is left alone, whatever its probe says.
 */
static void a_wrong_key_costs_few_attempts(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1", NULL);
    int attempts = 0;
    for (uint64_t at = 0; at < 60 * S; at += 100, f.now_ms += 100) {
        if (at % (5 * S) == 0)
            upstreams_probed(f.upstreams, A, true, f.now_ms);
        if (!is_taken(&f, A))
            continue;
        end_as(&f, begin(&f, A), OUTCOME_CONFIG);
        attempts++;
    }
    assert_in_range(attempts, 2, 5);
    upstreams_destroy(&f.upstreams);
}

static void a_final_refusal_and_a_wait_pass_the_trial(void **state)
{
    (void)state;
    static const enum outcome_class classes[] = {OUTCOME_FINAL, OUTCOME_WAIT};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f = make_two();
        end_as(&f, begin(&f, A), classes[i]);
        assert_true(is_taken(&f, A)); /* neither cools */
        fail_at(&f, A);
        wait_for(&f, A, S);
        end_as(&f, begin(&f, A), classes[i]);
        assert_false(begin(&f, A).is_trial);
        upstreams_destroy(&f.upstreams);
    }
}

static void a_probe_never_cools(void **state)
{
    (void)state;
    struct fixture f = make_two();
    for (int i = 0; i < 100; i++) {
        upstreams_probed(f.upstreams, A, false, f.now_ms);
    }
    assert_true(is_taken(&f, A));
    upstreams_destroy(&f.upstreams);
}

static void cool_down(struct fixture *f, uint64_t retry_after_s)
{
    for (int i = 0; i < 6; i++) { /* the longest cool-off for both */
        f->now_ms += 60 * S;
        fail_at(f, A);
    }
    end(f, begin(f, B), (struct outcome){.class = OUTCOME_HARD}, retry_after_s, NEARLY_ONE);
    f->now_ms += 100;
}

static void two_good_probes_end_a_cool_off_when_all_cool(void **state)
{
    (void)state;
    struct fixture f = make_two();
    cool_down(&f, 60);
    upstreams_probed(f.upstreams, A, true, f.now_ms);
    upstreams_probed(f.upstreams, A, false, f.now_ms); /* not in a row */
    upstreams_probed(f.upstreams, A, true, f.now_ms);
    assert_int_equal(choose(&f, 0).kind, CHOICE_NOBODY);
    upstreams_probed(f.upstreams, A, true, f.now_ms);
    assert_true(begin(&f, A).is_trial);
    upstreams_destroy(&f.upstreams);
}

static void probes_shorten_no_retry_after_and_nothing_while_one_is_open(void **state)
{
    (void)state;
    struct fixture f = make_two();
    cool_down(&f, 60);
    for (int i = 0; i < 10; i++) {
        upstreams_probed(f.upstreams, B, true, f.now_ms);
    }
    assert_int_equal(choose(&f, 0).kind, CHOICE_NOBODY);
    upstreams_destroy(&f.upstreams);

    f = make_two();
    fail_at(&f, A);
    for (int i = 0; i < 10; i++) {
        upstreams_probed(f.upstreams, A, true, f.now_ms);
    }
    assert_true(is_taken(&f, B));
    upstreams_destroy(&f.upstreams);
}

/* Any state without a way out by time alone is a bug. */
static void no_state_lasts_for_ever_without_traffic(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1", NULL);
    fail_at(&f, A);
    assert_int_equal(upstreams_open_at_ms(f.upstreams, f.now_ms),
                     upstreams_tick(f.upstreams, f.now_ms, HALF));
    for (int i = 0; i < 20; i++) {
        f.now_ms = upstreams_tick(f.upstreams, f.now_ms, HALF); /* to what is due next */
        assert_int_equal(upstreams_open_at_ms(f.upstreams, f.now_ms), 0);
        assert_true(begin(&f, A).is_trial); /* HALF_OPEN, and never ended */
        f.now_ms = upstreams_tick(f.upstreams, f.now_ms, HALF);
        upstreams_tick(f.upstreams, f.now_ms, HALF); /* the permit is taken back */
    }
    upstreams_destroy(&f.upstreams);
}

static enum outcome_class refuse_at_a(struct fixture *f)
{
    struct outcome refusal = {.class = OUTCOME_FINAL, .is_braked = true};
    return end(f, begin(f, A), refusal, 0, HALF);
}

static bool note_is(struct fixture *f, const char *expected)
{
    struct buf note;
    buf_init(&note, 256);
    assert_int_equal(upstreams_note(f->upstreams, &note), 0);
    bool is_so = strcmp(buf_cstr(&note), expected) == 0;
    buf_fini(&note);
    return is_so;
}

static void an_upstream_that_refuses_everything_is_braked(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1 name=first", "http://b:1");
    for (int i = 0; i < 99; i++) {
        assert_int_equal(refuse_at_a(&f), OUTCOME_FINAL);
    }
    deliver_at(&f, A);
    for (int i = 0; i < 100; i++) { /* 400 and the like do not count, nor do they interrupt */
        assert_int_equal(refuse_at_a(&f), OUTCOME_FINAL);
        end_as(&f, begin(&f, A), OUTCOME_FINAL);
    }
    assert_true(note_is(&f, "refusals at first"));
    assert_int_equal(refuse_at_a(&f), OUTCOME_CONFIG);
    assert_true(is_taken(&f, B));
    wait_for(&f, A, 31 * S);
    deliver_at(&f, A);
    assert_true(note_is(&f, ""));
    assert_int_equal(refuse_at_a(&f), OUTCOME_FINAL);
    upstreams_destroy(&f.upstreams);
}

static void reachable_means_heard_of_within_30_s(void **state)
{
    (void)state;
    struct fixture f = make_two();
    upstreams_tick(f.upstreams, f.now_ms, HALF);
    assert_int_equal(upstreams_up(f.upstreams), 0);
    upstreams_probed(f.upstreams, B, true, f.now_ms);
    upstreams_probed(f.upstreams, A, false, f.now_ms);
    uint64_t due_ms = upstreams_tick(f.upstreams, f.now_ms, HALF);
    assert_int_equal(upstreams_up(f.upstreams), 1);
    assert_int_equal(due_ms, f.now_ms + 30 * S);
    deliver_at(&f, A);
    upstreams_tick(f.upstreams, f.now_ms + 30 * S - 1, HALF);
    assert_int_equal(upstreams_up(f.upstreams), 2);
    upstreams_tick(f.upstreams, f.now_ms + 30 * S, HALF);
    assert_int_equal(upstreams_up(f.upstreams), 0);
    upstreams_destroy(&f.upstreams);
}

static void an_upstream_without_probe_is_up_until_it_fails(void **state)
{
    (void)state;
    struct fixture f = make("http://a:1 probe=off", NULL);
    upstreams_tick(f.upstreams, f.now_ms + 3600 * S, HALF);
    assert_int_equal(upstreams_up(f.upstreams), 1);
    fail_at(&f, A);
    upstreams_tick(f.upstreams, f.now_ms, HALF);
    assert_int_equal(upstreams_up(f.upstreams), 0);
    upstreams_destroy(&f.upstreams);
}

/* After an outage the name may mean another machine: no connection from before is used again. */
static void connections_from_before_a_cool_off_are_not_used(void **state)
{
    (void)state;
    struct fixture f = make_two();
    assert_int_equal(upstreams_connection_age_s(f.upstreams, A, f.now_ms), 300);
    fail_at(&f, A);
    assert_int_equal(upstreams_connection_age_s(f.upstreams, A, f.now_ms), 1);
    wait_for(&f, A, S);
    fail_at(&f, A);
    wait_for(&f, A, 2 * S);
    deliver_at(&f, A);
    f.now_ms = START_MS + 60 * S;
    assert_int_equal(upstreams_connection_age_s(f.upstreams, A, f.now_ms), 60);
    f.now_ms = START_MS + 400 * S;
    assert_int_equal(upstreams_connection_age_s(f.upstreams, A, f.now_ms), 300);
    upstreams_destroy(&f.upstreams);
}

static void wrong_upstreams_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        const char *second;
        const char *reason;
    } rows[] = {
        {"", NULL, "not an http:// or https:// URL"},
        {"a:1", NULL, "not an http:// or https:// URL"},
        {"ftp://a", NULL, "starts with http:// or https://"},
        {"http://", NULL, "not an http:// or https:// URL"},
        {"http://a:99999", NULL, "not an http:// or https:// URL"},
        {"http://a/x?y=1", NULL, "no query"},
        {"http://a/x#y", NULL, "no fragment"},
        {"http://user:secret@a", NULL, "no user or password"},
        {"http://a colour=red", NULL, "unknown option \"colour\""},
        {"http://a name", NULL, "name needs a value"},
        {"http://a name=", NULL, "name= takes"},
        {"http://a timeout=soon", NULL, "timeout=soon is not a time"},
        {"http://a timeout=0s", NULL, "timeout=0s is not a time"},
        {"http://a connect-timeout=2h", NULL, "connect-timeout=2h is not a time"},
        {"http://a probe=ready", NULL, "probe= takes a path"},
        {"https://a ca-file=/no/such/file", NULL, "cannot be read"},
        {"http://a:80", "HTTP://A/", "given twice"},
        {"http://a/x", "http://a/x/ name=other", "given twice"},
        {"http://a name=n", "http://b name=n", "two are named n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *items[] = {(char *)rows[i].first, (char *)rows[i].second};
        struct text_list texts = {.items = items, .count = rows[i].second ? 2 : 1};
        struct err err = {{0}};
        assert_null(upstreams_new(&texts, WORKERS, START_MS, &err));
        if (!strstr(err.text, rows[i].reason) || strstr(err.text, "secret"))
            fail_msg("%s: \"%s\"", rows[i].first, err.text);
    }
}

static void an_upstream_is_read_whole(void **state)
{
    (void)state;
    struct fixture f = make("https://Collect.Example:8443/a/b/  name=one\ttimeout=2s probe=/up "
                            "connect-timeout=250ms",
                            "http://b");
    const struct upstream_spec *spec = upstreams_spec(f.upstreams, A);
    assert_string_equal(spec->name, "one");
    assert_string_equal(spec->origin, "https://collect.example:8443/");
    assert_string_equal(spec->prefix, "/a/b");
    assert_string_equal(spec->probe_path, "/a/b/up");
    assert_int_equal(spec->timeout_ms, 2000);
    assert_int_equal(spec->connect_timeout_ms, 250);
    spec = upstreams_spec(f.upstreams, B);
    assert_string_equal(spec->name, "http://b");
    assert_string_equal(spec->prefix, "");
    assert_string_equal(spec->probe_path, "/readyz");
    upstreams_destroy(&f.upstreams);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_neither_cooling_nor_tried_is_chosen),
        cmocka_unit_test(a_failure_cools_and_traffic_returns_by_itself),
        cmocka_unit_test(four_that_fail_together_are_one_strike),
        cmocka_unit_test(old_failures_do_not_cool_a_recovered_upstream),
        cmocka_unit_test(at_half_open_one_goes_and_the_rest_take_the_next),
        cmocka_unit_test(with_one_upstream_the_rest_waits_for_the_trial),
        cmocka_unit_test(after_a_cool_off_the_load_doubles_from_one),
        cmocka_unit_test(full_is_not_down),
        cmocka_unit_test(hanging_attempts_do_not_block_a_recovered_upstream),
        cmocka_unit_test(a_trial_that_never_ends_is_followed_by_another),
        cmocka_unit_test(a_trial_that_failed_for_our_own_reason_costs_nothing),
        cmocka_unit_test(a_long_outage_ends_within_the_cap),
        cmocka_unit_test(an_upstream_that_works_every_other_time_is_asked_less_and_less),
        cmocka_unit_test(strikes_are_forgiven_one_each_30_s),
        cmocka_unit_test(a_retry_after_is_kept_to),
        cmocka_unit_test(a_longer_retry_after_extends_a_shorter_does_not),
        cmocka_unit_test(a_retry_after_is_honoured_for_an_hour_at_most),
        cmocka_unit_test(set_up_trouble_cools_for_long),
        cmocka_unit_test(a_wrong_key_costs_few_attempts),
        cmocka_unit_test(a_final_refusal_and_a_wait_pass_the_trial),
        cmocka_unit_test(a_probe_never_cools),
        cmocka_unit_test(two_good_probes_end_a_cool_off_when_all_cool),
        cmocka_unit_test(probes_shorten_no_retry_after_and_nothing_while_one_is_open),
        cmocka_unit_test(no_state_lasts_for_ever_without_traffic),
        cmocka_unit_test(an_upstream_that_refuses_everything_is_braked),
        cmocka_unit_test(reachable_means_heard_of_within_30_s),
        cmocka_unit_test(an_upstream_without_probe_is_up_until_it_fails),
        cmocka_unit_test(connections_from_before_a_cool_off_are_not_used),
        cmocka_unit_test(wrong_upstreams_are_refused_with_the_reason),
        cmocka_unit_test(an_upstream_is_read_whole),
    };
    log_open(LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
