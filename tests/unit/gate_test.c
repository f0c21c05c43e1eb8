// SPDX-License-Identifier: MIT
/* The promise: neither many bodies at once nor many decoded ones in line can fill the memory, and
 * whoever waits goes on as soon as there is room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "store/gate.h"

#define SLOTS     2
#define MAX_BYTES 100
#define THREADS   16
#define ROUNDS    200
#define FAR_MS    20000

static bool enters_at_once(struct gate *gate)
{
    return gate_enter(gate, clock_mono_ms());
}

static void slots_are_few(void **state)
{
    struct gate gate;
    (void)state;
    gate_init(&gate, SLOTS, MAX_BYTES);
    assert_true(enters_at_once(&gate));
    assert_true(enters_at_once(&gate));
    assert_false(enters_at_once(&gate));
    gate_leave(&gate, 10);
    assert_true(enters_at_once(&gate));
    gate_fini(&gate);
}

static void held_memory_closes_the_gate(void **state)
{
    struct gate gate;
    (void)state;
    gate_init(&gate, SLOTS, MAX_BYTES);
    assert_true(enters_at_once(&gate));
    gate_leave(&gate, MAX_BYTES);
    assert_false(enters_at_once(&gate));
    gate_release(&gate, MAX_BYTES);
    assert_true(enters_at_once(&gate));
    gate_fini(&gate);
}

struct crowd {
    struct gate gate;
    atomic_int inside;
    atomic_int most;
    atomic_int passed;
};

static void *pass(void *arg)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (!gate_enter(&crowd->gate, clock_mono_ms() + FAR_MS))
            return NULL;
        int inside = ++crowd->inside;
        if (inside > crowd->most)
            crowd->most = inside;
        crowd->inside--;
        gate_leave(&crowd->gate, MAX_BYTES / 2);
        gate_release(&crowd->gate, MAX_BYTES / 2);
        crowd->passed++;
    }
    return NULL;
}

static void a_crowd_gets_through(void **state)
{
    struct crowd crowd = {.inside = 0};
    pthread_t threads[THREADS];
    (void)state;
    gate_init(&crowd.gate, SLOTS, MAX_BYTES);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pass, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.passed, THREADS * ROUNDS);
    assert_true(crowd.most <= SLOTS);
    assert_int_equal(crowd.gate.held_bytes, 0);
    gate_fini(&crowd.gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_few),
        cmocka_unit_test(held_memory_closes_the_gate),
        cmocka_unit_test(a_crowd_gets_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
