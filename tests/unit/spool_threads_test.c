// SPDX-License-Identifier: MIT
/* The three threads of a broker on one spool at full speed, with segments so small that all the
 * time some are begun, sealed and removed. Worth most under ThreadSanitizer:
 *
 *     make BUILD=build/tsan CFLAGS="-O1 -g" SANITIZE=-fsanitize=thread \
 *         build/tsan/unit/spool_threads_test
 */
#include "tests/unit/spool_help.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RECORDS = 6000, BATCH = 8, RING = 1024 };

struct shared {
    struct bench bench;
    atomic_uint stored;
    atomic_uint delivered;
    atomic_bool has_failed;
    /* From delivery to upkeep. */
    struct record_ref ring[RING];
    atomic_uint ring_head;
    atomic_uint ring_tail;
    atomic_uchar seen[RECORDS];
};

static void *run_intake(void *arg)
{
    struct shared *self = arg;
    for (unsigned i = 0; i < RECORDS && !self->has_failed; i += BATCH) {
        if (bench_append(&self->bench, i, BATCH, NULL) != APPEND_OK)
            self->has_failed = true;
        atomic_fetch_add(&self->stored, BATCH);
        appender_tick(self->bench.appender, self->bench.now_ms);
    }
    return NULL;
}

static void deliver(struct shared *self, const struct record_ref *ref)
{
    struct spool_blob blob;
    struct err err;
    if (spool_read(self->bench.spool, ref, &blob, &err) != READ_OK ||
        !spool_settle(self->bench.spool, &ref->id)) {
        self->has_failed = true;
        return;
    }
    unsigned number = 0;
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)blob.meta.len, blob.meta.data);
    if (sscanf(text, "record %u", &number) == 1 && number < RECORDS)
        atomic_fetch_add(&self->seen[number], 1);
    spool_blob_free(&blob);
    atomic_fetch_add(&self->delivered, 1);
    while (self->ring_tail - self->ring_head == RING && !self->has_failed)
        sched_yield();
    self->ring[self->ring_tail % RING] = *ref;
    self->ring_tail++;
}

static void *run_delivery(void *arg)
{
    struct shared *self = arg;
    struct record_ref refs[32];
    struct err err;
    while (self->delivered < RECORDS && !self->has_failed) {
        struct segment_info info;
        for (uint64_t segno = 0; spool_next(self->bench.spool, segno, &info); segno = info.segno) {
            struct spool_cursor cursor = {.segno = info.segno};
            int n;
            while ((n = spool_scan(self->bench.spool, &cursor, refs, 32, &err)) > 0)
                for (int i = 0; i < n && !self->has_failed; i++)
                    deliver(self, &refs[i]);
            if (n == -1)
                self->has_failed = true;
        }
    }
    return NULL;
}

static void *run_upkeep(void *arg)
{
    struct shared *self = arg;
    uint64_t now_ms = 1000;
    unsigned acked = 0;
    while (acked < RECORDS && !self->has_failed) {
        while (self->ring_head != self->ring_tail) {
            const struct record_ref *ref = &self->ring[self->ring_head % RING];
            acks_add(self->bench.acks, &ref->id, ACK_DONE, 0, 0, now_ms);
            self->ring_head++;
            acked++;
        }
        now_ms += 25;
        acks_tick(self->bench.acks, now_ms);
        if (now_ms % 1000 == 0)
            (void)spool_recount(self->bench.spool);
        struct spool_usage usage;
        spool_usage(self->bench.spool, &usage);
        if (usage.waiting > RECORDS)
            self->has_failed = true;
    }
    return NULL;
}

static void test_three_threads(void **state)
{
    (void)state;
    struct shared *self = calloc(1, sizeof *self);
    pthread_t threads[3];
    bench_init(&self->bench);
    bench_open(&self->bench);
    pthread_create(&threads[0], NULL, run_intake, self);
    pthread_create(&threads[1], NULL, run_delivery, self);
    pthread_create(&threads[2], NULL, run_upkeep, self);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_false(self->has_failed);
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(self->seen[i], 1);
    while (acks_tick(self->bench.acks, self->bench.now_ms) == 1)
        ;
    (void)acks_flush(self->bench.acks, self->bench.now_ms);
    struct spool_usage usage;
    spool_usage(self->bench.spool, &usage);
    assert_int_equal(usage.waiting, 0);
    assert_int_equal(usage.used_bytes, dir_bytes(self->bench.path, "seg"));
    assert_int_equal(spool_recount(self->bench.spool), 0);
    assert_true(bench_files(&self->bench, "seg", ".log") <= 1);
    bench_reopen(&self->bench);
    assert_int_equal(self->bench.report.waiting, 0);
    bench_fini(&self->bench);
    free(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
