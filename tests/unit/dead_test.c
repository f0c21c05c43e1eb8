// SPDX-License-Identifier: MIT
/* Dead letters: durable before they leave the queue, readable, put back unchanged, bounded. */
#include "tests/unit/spool_help.h"

static dead_t *open_dead(struct bench *bench)
{
    struct err err = {""};
    dead_t *dead = dead_new(bench->spool, &err);
    if (dead == NULL)
        fail_msg("%s", err.text);
    return dead;
}

static const struct record_note note = {.dead_ns = 77,
                                        .rounds = 3,
                                        .status = 400,
                                        .reason = {"refused", 7},
                                        .upstream = {"http://up", 9},
                                        .excerpt = {"bad field", 9}};

static int add(dead_t *dead, const struct record_ref *ref)
{
    struct err err = {""};
    enum read_result result;
    return dead_add(dead, ref, &note, &result, &err);
}

/* Everything of the request and of why it is there comes back, also after a restart. */
static void test_letter_comes_back_unchanged(void **state)
{
    (void)state;
    struct bench bench;
    struct record_ref refs[4];
    struct err err;
    struct dead_letter letters[8], whole;
    bench_init(&bench);
    bench_open(&bench);
    dead_t *dead = open_dead(&bench);
    assert_int_equal(bench_append(&bench, 0, 4, refs), APPEND_OK);
    refs[2].history = (struct record_history){.expiries = 2, .is_suspect = true, .first_fail_s = 9};
    fsio_script(NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(add(dead, &refs[i]), 0);
    assert_int_equal(fsio_count("sync"), 2); /* of the new file; the letters themselves: */
    assert_int_equal(dead_commit(dead, &err), 0);
    assert_int_equal(fsio_count("sync"), 3);
    for (int start = 0; start < 3; start++) {
        assert_int_equal(dead_count(dead), 4);
        assert_int_equal(dead_list(dead, &(struct dead_id){0}, letters, 8, &err), 4);
        for (unsigned i = 0; i < 4; i++) {
            char text[32], body[1024];
            int len = snprintf(text, sizeof text, "record %u", i);
            assert_int_equal(letters[i].origin.id.ordinal, refs[i].id.ordinal);
            assert_int_equal(letters[i].origin.id.segno, refs[i].id.segno);
            assert_int_equal(letters[i].origin.arrival_ns, 1000 + i);
            assert_int_equal(letters[i].origin.history.expiries, i == 2 ? 2 : 0);
            assert_int_equal(letters[i].note.status, 400);
            assert_int_equal(letters[i].note.rounds, 3);
            assert_true(slice_equals(letters[i].note.reason, "refused"));
            assert_true(slice_equals(letters[i].note.upstream, "http://up"));
            assert_true(slice_equals(letters[i].note.excerpt, "bad field"));
            assert_int_equal(dead_read(dead, &letters[i].id, &whole, &err), 0);
            assert_int_equal(whole.meta.len, len);
            assert_memory_equal(whole.meta.data, text, len);
            assert_int_equal(whole.body.len, body_of(i, body));
            assert_memory_equal(whole.body.data, body, whole.body.len);
            dead_letter_fini(&whole);
            dead_letter_fini(&letters[i]);
        }
        /* In pages, each from the last one seen. */
        assert_int_equal(dead_list(dead, &(struct dead_id){0}, letters, 3, &err), 3);
        struct dead_id last = letters[2].id;
        for (int i = 0; i < 3; i++)
            dead_letter_fini(&letters[i]);
        assert_int_equal(dead_list(dead, &last, letters, 3, &err), 1);
        assert_int_equal(letters[0].origin.id.ordinal, 3);
        dead_letter_fini(&letters[0]);
        dead_destroy(&dead);
        bench_reopen(&bench);
        dead = open_dead(&bench);
    }
    dead_destroy(&dead);
    bench_fini(&bench);
}

/* A letter put back or dropped stays away; a file without letters goes. */
static void test_removed_letters_stay_away(void **state)
{
    (void)state;
    struct bench bench;
    struct record_ref refs[4];
    struct err err;
    struct dead_letter letters[8];
    bench_init(&bench);
    bench_open(&bench);
    dead_t *dead = open_dead(&bench);
    assert_int_equal(bench_append(&bench, 0, 4, refs), APPEND_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(add(dead, &refs[i]), 0);
    assert_int_equal(dead_commit(dead, &err), 0);
    struct dead_id id = {1, 1};
    assert_int_equal(dead_remove(dead, &id, ACK_MOVED, &err), 0);
    assert_int_equal(dead_remove(dead, &id, ACK_MOVED, &err), -1);
    dead_destroy(&dead);
    bench_reopen(&bench);
    dead = open_dead(&bench);
    assert_int_equal(dead_count(dead), 3);
    assert_int_equal(dead_read(dead, &id, &letters[0], &err), -1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(dead_remove(dead, &(struct dead_id){1, i}, ACK_DONE, &err),
                         i == 1 ? -1 : 0);
    assert_int_equal(bench_files(&bench, "dead", ""), 0);
    dead_destroy(&dead);
    bench_fini(&bench);
}

/* Above its share the oldest letters go, counted, and the newest are there. */
static void test_share_is_kept(void **state)
{
    (void)state;
    struct bench bench;
    struct record_ref refs[4];
    struct err err;
    bench_init(&bench);
    bench.config.max_bytes = 5 << 20; /* share: 512 KiB */
    bench_open(&bench);
    dead_t *dead = open_dead(&bench);
    assert_int_equal(bench_append(&bench, 0, 4, refs), APPEND_OK);
    for (int i = 0; i < 4000; i++) {
        assert_int_equal(add(dead, &refs[i % 4]), 0);
        if (i % 50 == 0)
            assert_int_equal(dead_commit(dead, &err), 0);
    }
    assert_int_equal(dead_commit(dead, &err), 0);
    assert_true(dead_dropped(dead) > 0);
    assert_int_equal(dead_count(dead) + dead_dropped(dead), 4000);
    uint64_t bytes = dir_bytes(bench.path, "dead");
    assert_true(bytes <= (5 << 20) / 10 + 8192 && bytes > (5 << 20) / 20);
    struct spool_usage usage;
    spool_usage(bench.spool, &usage);
    assert_int_equal(usage.dead_bytes, bytes);
    dead_destroy(&dead);
    bench_fini(&bench);
}

/* A write or sync that fails: the letter is not dead, nothing half-written is listed, and the next
 * try goes to another file. */
static void test_failed_letter(void **state)
{
    (void)state;
    static const char *const scripts[] = {"write:*/dead/*@2=EIO", "write:*/dead/*@2=short",
                                          "sync:*/dead/*.log@2=EIO", "open:*/dead/*@1=ENOSPC"};
    for (int i = 0; i < 4; i++) {
        struct bench bench;
        struct record_ref refs[4];
        struct err err;
        bench_init(&bench);
        bench_open(&bench);
        dead_t *dead = open_dead(&bench);
        assert_int_equal(bench_append(&bench, 0, 4, refs), APPEND_OK);
        fsio_script(scripts[i]);
        int added = add(dead, &refs[0]);
        int committed = dead_commit(dead, &err);
        assert_true(added == -1 || committed == -1);
        fsio_script(NULL);
        assert_int_equal(dead_count(dead), 0);
        for (int k = 0; k < 4; k++)
            assert_int_equal(add(dead, &refs[k]), 0);
        assert_int_equal(dead_commit(dead, &err), 0);
        assert_int_equal(dead_count(dead), 4);
        dead_destroy(&dead);
        bench_reopen(&bench);
        dead = open_dead(&bench);
        assert_true(dead_count(dead) >= 4 && dead_count(dead) <= 5);
        dead_destroy(&dead);
        bench_fini(&bench);
    }
}

static void bury_one(struct bench *bench)
{
    struct err err;
    enum read_result result;
    struct record_ref ref;
    bench_open(bench);
    dead_t *dead = dead_new(bench->spool, &err);
    struct segment_info info;
    if (dead == NULL || !spool_next(bench->spool, 0, &info))
        _exit(3);
    struct spool_cursor cursor = {.segno = info.segno};
    if (spool_scan(bench->spool, &cursor, &ref, 1, &err) != 1)
        _exit(3);
    if (dead_add(dead, &ref, &note, &result, &err) == 0 && dead_commit(dead, &err) == 0) {
        acks_add(bench->acks, &ref.id, ACK_DEAD, 0, 0, 0);
        (void)spool_settle(bench->spool, &ref.id);
        (void)acks_flush(bench->acks, 0);
    }
    _exit(0);
}

/* However a refusal is interrupted, the request is in the queue or in dead/ (or in both), never in
 * neither. */
static void test_never_in_neither_place(void **state)
{
    (void)state;
    static const char *const ways[] = {"exit-before", "exit-inside", "exit-after"};
    for (int way = 0; way < 3; way++) {
        int status = 99;
        for (int k = 1; status == 99; k++) {
            struct bench bench;
            char script[64];
            bench_init(&bench);
            bench_open(&bench);
            bench_fill(&bench, 0, 1);
            bench_close(&bench);
            snprintf(script, sizeof script, "any@%d=%s", k, ways[way]);
            status = bench_fork(&bench, script, bury_one);
            assert_true(status == 0 || status == 99);
            bench_open(&bench);
            dead_t *dead = open_dead(&bench);
            uint64_t places = bench.report.waiting + dead_count(dead);
            assert_true(places == 1 || places == 2);
            if (status == 0)
                assert_int_equal(bench.report.waiting, 0);
            dead_destroy(&dead);
            bench_fini(&bench);
        }
    }
}

/* A damaged letter is neither listed as whole nor does it hide its neighbours. */
static void test_damaged_letter(void **state)
{
    (void)state;
    struct bench bench;
    struct record_ref refs[4];
    struct err err;
    struct dead_letter letter;
    bench_init(&bench);
    bench_open(&bench);
    dead_t *dead = open_dead(&bench);
    assert_int_equal(bench_append(&bench, 0, 4, refs), APPEND_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(add(dead, &refs[i]), 0);
    assert_int_equal(dead_commit(dead, &err), 0);
    dead_destroy(&dead);
    bench_close(&bench);
    char command[512];
    snprintf(command, sizeof command,
             "printf 'XXXXXXXX' | dd of='%s/dead/%020d.log' bs=1 seek=500 conv=notrunc status=none",
             bench.path, 1);
    assert_int_equal(system(command), 0);
    bench_open(&bench);
    dead = open_dead(&bench);
    unsigned readable = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (dead_read(dead, &(struct dead_id){1, i}, &letter, &err) == 0) {
            readable++;
            dead_letter_fini(&letter);
        }
    }
    assert_int_equal(readable, 3);
    dead_destroy(&dead);
    bench_fini(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letter_comes_back_unchanged),
        cmocka_unit_test(test_removed_letters_stay_away),
        cmocka_unit_test(test_share_is_kept),
        cmocka_unit_test(test_failed_letter),
        cmocka_unit_test(test_never_in_neither_place),
        cmocka_unit_test(test_damaged_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
