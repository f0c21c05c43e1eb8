// SPDX-License-Identifier: MIT
/* Promises: no request is forgotten or leased twice at once, whatever the order of events; nothing
 * is leased before its time; neither new nor failed requests starve; memory stays bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/ledger.h"

static struct record_ref ref_of(uint64_t segno, uint32_t ordinal)
{
    return (struct record_ref){
        .id = {.segno = segno, .ordinal = ordinal, .nonce32 = 5},
        .arrival_ns = 1000 + ordinal,
        .meta_len = 1,
    };
}

static struct entry *add(ledger_t *ledger, uint32_t ordinal)
{
    struct record_ref ref = ref_of(1, ordinal);
    return ledger_add(ledger, &ref, false);
}

static void lease(ledger_t *ledger, struct entry *entry, struct entry_list *held, uint64_t until_ms)
{
    static uint64_t lease_no;
    ledger_lease(ledger, entry, held, held, ++lease_no, until_ms);
}

static void test_known_and_full(void **state)
{
    ledger_t *ledger = ledger_new(4);
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        assert_non_null(add(ledger, i));
    assert_int_equal(ledger_room(ledger), 0);
    assert_null(add(ledger, 9));
    struct record_id id = ref_of(1, 2).id;
    ledger_drop(ledger, ledger_find(ledger, &id), NULL);
    assert_null(ledger_find(ledger, &id));
    assert_null(add(ledger, 3)); /* known already */
    assert_non_null(add(ledger, 2));
    id.nonce32++;
    assert_null(ledger_find(ledger, &id)); /* an id of another spool */
    ledger_destroy(&ledger);
}

static void test_order_of_the_spool(void **state)
{
    ledger_t *ledger = ledger_new(8);
    struct entry_list held = {0};
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        (void)!add(ledger, i);
    for (uint32_t i = 0; i < 5; i++) {
        struct entry *entry = ledger_choose(ledger, false);
        assert_int_equal(entry->ref.id.ordinal, i);
        lease(ledger, entry, &held, 10);
    }
    assert_null(ledger_choose(ledger, true));
    ledger_destroy(&ledger);
}

static void test_deferred_comes_when_due_and_not_before(void **state)
{
    ledger_t *ledger = ledger_new(8);
    struct entry_list held = {0};
    struct entry *entry = add(ledger, 1);
    (void)state;
    lease(ledger, entry, &held, 100);
    assert_true(ledger_defer(ledger, entry, &held, 500));
    assert_int_equal(held.count, 0);
    assert_int_equal(ledger_wait_ms(ledger, 200), 300);
    assert_null(ledger_expired(ledger, 499));
    assert_null(ledger_choose(ledger, true));
    assert_null(ledger_expired(ledger, 500));
    assert_ptr_equal(ledger_choose(ledger, true), entry);
    assert_true(ledger_wait_ms(ledger, 500) == UINT64_MAX);
    ledger_destroy(&ledger);
}

static void test_lease_expires_renews_and_shifts(void **state)
{
    ledger_t *ledger = ledger_new(8);
    struct entry_list held = {0};
    struct entry *a = add(ledger, 1), *b = add(ledger, 2);
    (void)state;
    lease(ledger, a, &held, 100);
    lease(ledger, b, &held, 200);
    ledger_renew(ledger, a, 300);
    assert_null(ledger_expired(ledger, 199));
    assert_ptr_equal(ledger_expired(ledger, 200), b);
    ledger_again(ledger, b, &held);
    ledger_shift_leases(ledger, 1000);
    assert_null(ledger_expired(ledger, 1299));
    assert_ptr_equal(ledger_expired(ledger, 1300), a);
    ledger_destroy(&ledger);
}

static void test_neither_side_starves(void **state)
{
    ledger_t *ledger = ledger_new(128);
    struct entry_list held = {0};
    unsigned again = 0;
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        struct entry *entry = add(ledger, i);
        lease(ledger, entry, &held, 10);
        ledger_again(ledger, entry, &held);
    }
    for (uint32_t i = 50; i < 100; i++)
        (void)!add(ledger, i);
    for (unsigned i = 0; i < 50; i++) {
        struct entry *entry = ledger_choose(ledger, false);
        again += entry->state == ENTRY_AGAIN;
        lease(ledger, entry, &held, 10);
    }
    assert_int_equal(again, 10); /* one in five */
    ledger_destroy(&ledger);
}

static void test_alone_after_three_expiries(void **state)
{
    ledger_t *ledger = ledger_new(8);
    struct entry_list held = {0};
    struct entry *killer = add(ledger, 1), *other = add(ledger, 2);
    (void)state;
    killer->ref.history.expiries = LEDGER_ALONE_FROM;
    lease(ledger, killer, &held, 10);
    ledger_again(ledger, killer, &held);
    assert_int_equal(killer->state, ENTRY_ALONE);
    assert_ptr_equal(ledger_choose(ledger, false), other);
    assert_ptr_equal(ledger_choose(ledger, true), killer);
    ledger_destroy(&ledger);
}

static void test_deferred_keep_to_half_of_the_window(void **state)
{
    ledger_t *ledger = ledger_new(8);
    uint64_t segno = 0;
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(ledger_defer(ledger, add(ledger, i), NULL, 1000 + i));
    struct record_ref ref = ref_of(7, 0);
    assert_false(ledger_defer(ledger, ledger_add(ledger, &ref, false), NULL, 700));
    ref = ref_of(7, 1);
    assert_false(ledger_defer(ledger, ledger_add(ledger, &ref, false), NULL, 600));
    assert_null(ledger_find(ledger, &ref.id));
    assert_int_equal(ledger_parked_wait_ms(ledger, 0), 600);
    assert_false(ledger_parked(ledger, 599, &segno));
    assert_true(ledger_parked(ledger, 600, &segno));
    assert_int_equal(segno, 7);
    assert_false(ledger_parked(ledger, 9999, &segno));
    ledger_destroy(&ledger);
}

/* A thousand random events against a plain model: state and due time of each record. */
static void test_random_events(void **state)
{
    enum { RECORDS = 64, STEPS = 20000 };
    ledger_t *ledger = ledger_new(2 * RECORDS);
    struct entry_list held = {0};
    enum entry_state model[RECORDS] = {0};
    uint64_t due[RECORDS] = {0}, now_ms = 1;
    unsigned seed = 42;
    (void)state;
    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)rand_r(&seed) % RECORDS;
        unsigned action = (unsigned)rand_r(&seed) % 5;
        uint64_t until_ms = now_ms + 1 + (unsigned)rand_r(&seed) % 50;
        struct record_id id = ref_of(1, i).id;
        struct entry *entry = ledger_find(ledger, &id);
        assert_true((entry != NULL) == (model[i] != ENTRY_FREE));
        if (entry == NULL) {
            assert_non_null(add(ledger, i));
            model[i] = ENTRY_READY;
        } else if (model[i] == ENTRY_LEASED && action == 0) {
            ledger_drop(ledger, entry, &held);
            model[i] = ENTRY_FREE;
        } else if (model[i] == ENTRY_LEASED && action == 1) {
            assert_true(ledger_defer(ledger, entry, &held, until_ms));
            model[i] = ENTRY_DEFERRED;
            due[i] = until_ms;
        } else if (model[i] == ENTRY_LEASED && action == 2) {
            ledger_renew(ledger, entry, until_ms);
            due[i] = until_ms;
        } else if (action == 3 && (entry = ledger_choose(ledger, true)) != NULL) {
            i = entry->ref.id.ordinal;
            assert_true(model[i] == ENTRY_READY || model[i] == ENTRY_AGAIN);
            lease(ledger, entry, &held, until_ms);
            model[i] = ENTRY_LEASED;
            due[i] = until_ms;
        } else if (action == 4) {
            now_ms++;
            while ((entry = ledger_expired(ledger, now_ms)) != NULL) {
                assert_true(due[entry->ref.id.ordinal] <= now_ms);
                model[entry->ref.id.ordinal] = ENTRY_AGAIN;
                ledger_again(ledger, entry, &held);
            }
            for (uint32_t k = 0; k < RECORDS; k++) {
                if (model[k] == ENTRY_DEFERRED && due[k] <= now_ms)
                    model[k] = ENTRY_AGAIN;
                assert_false(model[k] == ENTRY_LEASED && due[k] <= now_ms);
            }
        }
        uint32_t counts[ENTRY_STATES] = {0};
        for (uint32_t k = 0; k < RECORDS; k++)
            counts[model[k]]++;
        assert_int_equal(held.count, counts[ENTRY_LEASED]);
        for (unsigned k = ENTRY_READY; k < ENTRY_STATES; k++)
            assert_int_equal(ledger_count(ledger, k), counts[k]);
    }
    ledger_destroy(&ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_and_full),
        cmocka_unit_test(test_order_of_the_spool),
        cmocka_unit_test(test_deferred_comes_when_due_and_not_before),
        cmocka_unit_test(test_lease_expires_renews_and_shifts),
        cmocka_unit_test(test_neither_side_starves),
        cmocka_unit_test(test_alone_after_three_expiries),
        cmocka_unit_test(test_deferred_keep_to_half_of_the_window),
        cmocka_unit_test(test_random_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
