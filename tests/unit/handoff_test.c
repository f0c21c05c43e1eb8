// SPDX-License-Identifier: MIT
/* Promises: every worker gets the verdict of its own request, however hand-over, decision and
 * wake-up race, none sleeps for ever, and nobody touches a request that was freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/handoff.h"

#define WORKERS  24
#define REQUESTS 400

struct site {
    struct handoff handoff;
    atomic_uint working;
    atomic_uint wrong;
};

/* The verdict that the request of this number is to get. */
static enum verdict verdict_of(uint32_t number)
{
    return (enum verdict)(number % VERDICT_COUNT);
}

static void *work(void *arg)
{
    struct site *site = arg;
    uint32_t base = (uint32_t)(uintptr_t)pthread_self();
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t number = base / 4096 + i;
        struct buf body;
        buf_init(&body, 1 << 20);
        /* Small ones are copied, large ones handed over. */
        size_t len = i % 5 == 0 ? 20000 : 10;
        char *room = buf_reserve(&body, len);
        memset(room, 'x', len);
        body.len += len;
        struct slice meta = {(const char *)&number, sizeof number};
        if (handoff_submit(&site->handoff, meta, &body, 0) != verdict_of(number))
            atomic_fetch_add(&site->wrong, 1);
        buf_fini(&body);
    }
    atomic_fetch_sub(&site->working, 1);
    return NULL;
}

static void decide_all(struct pending *pending, unsigned *channels)
{
    while (pending != NULL) {
        struct pending *next = pending->next;
        uint32_t number;
        memcpy(&number, pending->meta.data, sizeof number);
        pending_decide(pending, verdict_of(number), channels);
        pending = next;
    }
}

/* As the submitter does it: some requests are decided with the next ones, a frame of some lives
 * longer than the request, and the actor sleeps only when nothing is there. */
static void act(struct site *site)
{
    struct pending *kept = NULL, *framed = NULL;
    unsigned seed = 1;
    while (atomic_load(&site->working) > 0) {
        unsigned channels = 0;
        struct pending *taken = handoff_take(&site->handoff);
        decide_all(kept, &channels);
        kept = NULL;
        if (framed != NULL)
            pending_release(framed);
        framed = taken;
        if (framed != NULL)
            pending_hold(framed, 1);
        if (rand_r(&seed) % 3 == 0)
            kept = taken;
        else
            decide_all(taken, &channels);
        handoff_wake(&site->handoff, channels);
        if (kept == NULL && handoff_may_sleep(&site->handoff)) {
            struct pollfd fd = {.fd = site->handoff.fd, .events = POLLIN};
            int ready = poll(&fd, 1, 100);
            handoff_woken(&site->handoff, ready > 0);
        }
    }
    if (framed != NULL)
        pending_release(framed);
}

static void test_everyone_gets_his_own_verdict(void **state)
{
    static struct site site;
    pthread_t workers[WORKERS];
    struct err err;
    (void)state;
    assert_int_equal(handoff_init(&site.handoff, &err), 0);
    atomic_init(&site.working, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, work, &site), 0);
    act(&site);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    assert_int_equal(atomic_load(&site.wrong), 0);
    assert_null(handoff_take(&site.handoff));
    handoff_fini(&site.handoff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everyone_gets_his_own_verdict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
