// SPDX-License-Identifier: MIT
/* The spool as intake, delivery and upkeep use it, and what it does when writing fails. */
#include "tests/unit/spool_help.h"

/* What is answered as stored is there after a restart, once each, in order, unchanged; and a clean
 * stop leaves nothing to be scanned. */
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
    assert_true(bench.report.scanned_bytes <= 512 * bench.report.segments);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(tally.seen[i], 1);
    bench_fini(&bench);
}

static void remove_all_done(struct bench *bench)
{
    while (acks_tick(bench->acks, bench->now_ms) == 1)
        ;
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
    remove_all_done(&bench);
    assert_int_equal(bench_files(&bench, "seg", ".log"), 1); /* the active one */
    bench_reopen(&bench);
    assert_int_equal(bench.report.waiting, 0);
    assert_int_equal(bench_files(&bench, "seg", ""), 0);
    bench_fini(&bench);
}

/* The last segment gives its space back too once it is idle and everything in it is settled; a
 * later record then opens the next number. */
static void test_idle_spool_is_empty(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    struct record_ref ref;
    bench_init(&bench);
    bench_open(&bench);
    assert_int_equal(bench_append(&bench, 0, 1, &ref), APPEND_OK);
    bench_collect(&bench, &tally, settle_it);
    for (int i = 0; i < 60; i++) {
        bench.now_ms += 1000;
        appender_tick(bench.appender, bench.now_ms);
        acks_tick(bench.acks, bench.now_ms);
    }
    assert_int_equal(bench_files(&bench, "seg", ""), 0);
    struct spool_usage usage;
    spool_usage(bench.spool, &usage);
    assert_int_equal(usage.used_bytes, 0);
    struct record_ref next;
    assert_int_equal(bench_append(&bench, 1, 1, &next), APPEND_OK);
    assert_true(next.id.segno > ref.id.segno);
    bench_fini(&bench);
}

/* An idle broker writes one mark and then nothing. */
static void test_idle_writes_one_mark(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 4);
    bench.now_ms += 50;
    fsio_script(NULL);
    assert_true(appender_tick(bench.appender, bench.now_ms) <= 50);
    assert_int_equal(fsio_count("any"), 0);
    for (int i = 0; i < 600; i++) {
        bench.now_ms += 1000;
        appender_tick(bench.appender, bench.now_ms);
        acks_tick(bench.acks, bench.now_ms);
    }
    assert_int_equal(fsio_count("write"), 1);
    assert_int_equal(fsio_count("any"), 1);
    bench_fini(&bench);
}

/* One write and one sync for a batch, whatever its size, and none more on the way. */
static void test_a_batch_is_one_write_and_one_sync(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    bench.config.segment_bytes = 1 << 20;
    bench.config.max_bytes = 64 << 20;
    bench_open(&bench);
    bench_fill(&bench, 0, 4);
    fsio_script(NULL);
    assert_int_equal(bench_append(&bench, 4, 64, NULL), APPEND_OK);
    assert_int_equal(fsio_count("write"), 1);
    assert_int_equal(fsio_count("sync"), 1);
    assert_int_equal(fsio_count("any"), 2);
    bench_fini(&bench);
}

/* Nothing is made on disk before the first record: a crash loop leaves no files. */
static void test_opening_makes_no_segment(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    for (int i = 0; i < 20; i++) {
        bench_open(&bench);
        bench.now_ms += 1000;
        appender_tick(bench.appender, bench.now_ms);
        bench_close(&bench);
    }
    assert_int_equal(bench_files(&bench, "seg", ""), 0);
    bench_fini(&bench);
}

/* --- failing writes --------------------------------------------------------------------------- */

struct failing {
    const char *script;
    enum append_result expected;
};

/* A batch whose write or sync fails is refused whole and not delivered in this run; the next one
 * goes to a new segment and is kept; the file is never synced again (fsio aborts the test). */
static void test_one_failed_write(void **state)
{
    (void)state;
    static const struct failing cases[] = {
        {"write@1=EIO", APPEND_FAILED},
        {"write@1=short", APPEND_FAILED},
        {"sync@1=EIO", APPEND_FAILED},
        {"write@1=ENOSPC", APPEND_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench;
        struct tally tally;
        struct appender_health health;
        bench_init(&bench);
        bench_open(&bench);
        bench_fill(&bench, 0, 8);
        fsio_script(cases[i].script);
        assert_int_equal(bench_append(&bench, 100, 4, NULL), cases[i].expected);
        fsio_script(NULL);
        appender_health(bench.appender, bench.now_ms, &health);
        assert_int_equal(health.write_errors, 1);
        assert_false(health.is_refusing);
        bench_collect(&bench, &tally, NULL);
        assert_int_equal(tally.found, 8);
        bench_fill(&bench, 8, 8);
        bench_collect(&bench, &tally, NULL);
        assert_int_equal(tally.found, 16);
        bench_reopen(&bench);
        assert_int_equal(bench.report.corrupt_records, 0);
        bench_collect(&bench, &tally, NULL);
        for (int k = 0; k < 16; k++)
            assert_int_equal(tally.seen[k], 1);
        /* The refused ones may be there or not; never damaged, never twice. */
        assert_true(tally.found <= 20 && tally.corrupt == 0);
        bench_fini(&bench);
    }
}

/* A second failure within a minute: refusing until the process is ended, which is asked for after
 * 30 s; what was proven is still there to be delivered. */
static void test_second_failure_refuses(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    struct appender_health health;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 8);
    fsio_script("sync@1=EIO;sync@2=EIO");
    assert_int_equal(bench_append(&bench, 100, 4, NULL), APPEND_FAILED);
    bench.now_ms += 1000;
    assert_int_equal(bench_append(&bench, 104, 4, NULL), APPEND_FAILED);
    fsio_script(NULL);
    for (int i = 0; i < 29; i++) {
        bench.now_ms += 1000;
        appender_tick(bench.appender, bench.now_ms);
        appender_health(bench.appender, bench.now_ms, &health);
        assert_true(health.is_refusing);
        assert_false(health.must_fail);
        assert_int_equal(appender_admit(bench.appender, 10, 10), ADMIT_REFUSING);
    }
    bench.now_ms += 2000;
    appender_health(bench.appender, bench.now_ms, &health);
    assert_true(health.must_fail);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 8);
    bench_fini(&bench);
}

/* Two failures far apart are two single ones. */
static void test_failures_far_apart(void **state)
{
    (void)state;
    struct bench bench;
    struct appender_health health;
    bench_init(&bench);
    bench_open(&bench);
    for (int i = 0; i < 3; i++) {
        bench_fill(&bench, (unsigned)i * 4, 4);
        fsio_script("sync@1=EIO");
        assert_int_equal(bench_append(&bench, 100, 4, NULL), APPEND_FAILED);
        fsio_script(NULL);
        bench_fill(&bench, 200, 4);
        bench.now_ms += 61 * 1000;
    }
    appender_health(bench.appender, bench.now_ms, &health);
    assert_int_equal(health.write_errors, 3);
    assert_false(health.is_refusing);
    bench_fini(&bench);
}

/* While no file can be made (a file system gone read-only), requests are refused and nothing is
 * forgotten; when it works again so does the spool, by itself, and no id comes twice. */
static void test_no_file_for_a_while(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    struct appender_health health;
    struct record_ref before, after;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 12);
    assert_int_equal(bench_append(&bench, 12, 1, &before), APPEND_OK);
    fsio_script("open:*.log@1+=EROFS");
    unsigned refused = 0;
    for (unsigned i = 0; i < 40 && refused == 0; i++)
        refused += bench_append(&bench, 100, 4, NULL) == APPEND_FAILED; /* until it must roll */
    assert_int_equal(refused, 1);
    for (int i = 0; i < 10; i++) {
        bench.now_ms += 1000;
        appender_tick(bench.appender, bench.now_ms);
        appender_health(bench.appender, bench.now_ms, &health);
        assert_true(health.is_refusing && !health.must_fail);
    }
    fsio_script(NULL);
    bench.now_ms += 1000;
    appender_tick(bench.appender, bench.now_ms);
    appender_health(bench.appender, bench.now_ms, &health);
    assert_false(health.is_refusing);
    assert_int_equal(bench_append(&bench, 13, 1, &after), APPEND_OK);
    assert_true(after.id.segno > before.id.segno);
    bench_collect(&bench, &tally, NULL);
    for (int k = 0; k < 14; k++)
        assert_int_equal(tally.seen[k], 1);
    bench_fini(&bench);
}

/* No space for the next step: full, not broken; tried again every five seconds. */
static void test_no_space_is_full(void **state)
{
    (void)state;
    static const char *const scripts[] = {"allocate@1+=ENOSPC", "allocate@1+=EDQUOT",
                                          "open:*.log@1+=ENOSPC"};
    for (int s = 0; s < 3; s++) {
        struct bench bench;
        struct appender_health health;
        struct spool_usage usage;
        struct tally tally;
        bench_init(&bench);
        bench_open(&bench);
        bench_fill(&bench, 0, 8);
        fsio_script(scripts[s]);
        enum append_result result = APPEND_OK;
        unsigned stored = 8;
        for (unsigned i = 0; i < 40 && result == APPEND_OK; i++) {
            result = bench_append(&bench, stored, 1, NULL);
            stored += result == APPEND_OK;
        }
        assert_int_equal(result, APPEND_FULL);
        assert_int_equal(appender_admit(bench.appender, 10, 10), ADMIT_FULL);
        spool_usage(bench.spool, &usage);
        assert_true(usage.is_low_disk);
        appender_health(bench.appender, bench.now_ms, &health);
        assert_int_equal(health.write_errors, 0);
        fsio_script(NULL);
        bench.now_ms += 5000;
        appender_tick(bench.appender, bench.now_ms);
        spool_usage(bench.spool, &usage);
        assert_false(usage.is_low_disk);
        bench_fill(&bench, stored, 40);
        bench_collect(&bench, &tally, NULL);
        assert_int_equal(tally.found, stored + 40);
        bench_fini(&bench);
    }
}

/* --- space ------------------------------------------------------------------------------------ */

static uint64_t counted(struct bench *bench)
{
    struct spool_usage usage;
    spool_usage(bench->spool, &usage);
    return usage.used_bytes;
}

/* Files on disk, and 16 bytes for each ack that is still to be written. */
static uint64_t expected(struct bench *bench, uint64_t unwritten)
{
    return dir_bytes(bench->path, "seg") + dir_bytes(bench->path, "dead") +
           dir_bytes(bench->path, "quarantine") + 16 * unwritten;
}

/* Full means refused at the limit and not before; freed space is seen; full is left at 95 %. */
static void test_full_and_back(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    struct spool_usage usage;
    bench_init(&bench);
    bench.config.max_bytes = 1 << 20;
    bench.config.max_body_bytes = 1024;
    bench_open(&bench);
    unsigned n = 0;
    enum append_result result;
    while ((result = bench_append(&bench, n, 1, NULL)) == APPEND_OK)
        n++;
    assert_int_equal(result, APPEND_FULL);
    spool_usage(bench.spool, &usage);
    assert_true(usage.is_full);
    assert_true(usage.used_bytes <= usage.limit_bytes);
    assert_true(usage.used_bytes + 3 * 4096 + 16 > usage.limit_bytes); /* not a step too early */
    assert_true(usage.used_bytes == expected(&bench, usage.waiting));
    bench_reopen(&bench); /* counting goes on from what is there, not from zero */
    assert_int_equal(bench_append(&bench, n, 1, NULL), APPEND_FULL);
    bench_collect(&bench, &tally, settle_it);
    assert_int_equal(tally.found, n);
    remove_all_done(&bench);
    spool_usage(bench.spool, &usage);
    assert_false(usage.is_full);
    assert_int_equal(bench_append(&bench, n, 1, NULL), APPEND_OK);
    bench_fini(&bench);
}

/* A limit below current use: starts, drains, refuses. */
static void test_limit_below_use(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    bench.config.max_body_bytes = 1024;
    bench_open(&bench);
    bench_fill(&bench, 0, 2000);
    bench_close(&bench);
    bench.config.max_bytes = 512 * 1024;
    bench_open(&bench);
    assert_int_equal(bench_append(&bench, 0, 1, NULL), APPEND_FULL);
    bench_collect(&bench, &tally, settle_it);
    assert_int_equal(tally.found, 2000);
    remove_all_done(&bench);
    assert_int_equal(bench_append(&bench, 0, 1, NULL), APPEND_OK);
    bench_fini(&bench);
}

/* Used bytes equal a recount of the directory after every kind of step, in any order; and a wrong
 * sum is found and mended. */
static void test_used_bytes_equal_the_directory(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    bench_open(&bench);
    srand(4711);
    unsigned number = 0;
    uint64_t unwritten = 0;
    struct record_ref waiting[4096];
    unsigned head = 0, tail = 0;
    for (int step = 0; step < 600; step++) {
        int what = rand() % 20;
        if (what < 8) {
            unsigned n = 1 + (unsigned)rand() % 8;
            if (tail + n > 4096)
                break;
            assert_int_equal(bench_append(&bench, number, n, waiting + tail), APPEND_OK);
            number += n, tail += n, unwritten += n;
        } else if (what < 17 && head < tail) {
            struct record_ref *ref = &waiting[head + (unsigned)rand() % (tail - head)];
            struct record_ref swap = *ref;
            *ref = waiting[head];
            waiting[head++] = swap;
            assert_true(spool_settle(bench.spool, &swap.id));
            acks_add(bench.acks, &swap.id, ACK_DONE, 0, 0, bench.now_ms);
        } else if (what == 17) {
            bench.now_ms += 300;
            acks_tick(bench.acks, bench.now_ms);
            appender_tick(bench.appender, bench.now_ms);
        } else if (what == 18) {
            bench_reopen(&bench);
        }
        acks_flush(bench.acks, bench.now_ms);
        struct spool_usage usage;
        spool_usage(bench.spool, &usage);
        assert_int_equal(usage.waiting, tail - head);
        uint64_t difference = usage.used_bytes - expected(&bench, tail - head);
        assert_int_equal(difference, 0);
        assert_int_equal(spool_recount(bench.spool), 0);
    }
    uint64_t right = counted(&bench);
    char command[300];
    snprintf(command, sizeof command, "head -c 100000 /dev/zero > '%s/dead/stranger'", bench.path);
    assert_int_equal(system(command), 0);
    (void)spool_recount(bench.spool);
    assert_true(counted(&bench) >= right + 100000);
    bench_fini(&bench);
}

/* --- refusals of a start ---------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    struct bench bench, second;
    struct err err;
    bench_init(&bench);
    bench_open(&bench);
    second = bench;
    assert_int_equal(bench_try_open(&second, &err), -1);
    assert_non_null(strstr(err.text, "in use by another process"));
    bench_close(&bench);
    bench.config.max_bytes = 4 * (HELP_BODY_MAX + 65536) - 1;
    assert_int_equal(bench_try_open(&bench, &err), -1);
    assert_non_null(strstr(err.text, "--spool-max-bytes"));
    assert_non_null(strstr(err.text, "--max-body-bytes"));
    assert_non_null(strstr(err.text, "294912"));
    bench.config.max_bytes++;
    bench_open(&bench);
    bench_close(&bench);
    bench.config.path = "/proc/mcpd-spool";
    assert_int_equal(bench_try_open(&bench, &err), -1);
    assert_non_null(strstr(err.text, "/proc/mcpd-spool"));
    bench.config.path = bench.path;
    bench_fini(&bench);
}

static unsigned mode_of(struct bench *bench, const char *name)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", bench->path, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

/* Senders' keys are in there: nobody else may read it, whatever the umask. */
static void test_only_the_owner_reads(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    char inner[140];
    snprintf(inner, sizeof inner, "%s/a/b", bench.path);
    bench.config.path = inner;
    mode_t before = umask(0);
    bench_open(&bench);
    bench_fill(&bench, 0, 4);
    bench_collect(&bench, &tally, settle_it);
    acks_flush(bench.acks, 0);
    umask(before);
    static const char *const directories[] = {"a", "a/b", "a/b/seg", "a/b/dead", "a/b/quarantine"};
    for (int i = 0; i < 5; i++)
        assert_int_equal(mode_of(&bench, directories[i]), 0700);
    assert_int_equal(mode_of(&bench, "a/b/LOCK"), 0600);
    assert_int_equal(mode_of(&bench, "a/b/seg/00000000000000000001.log"), 0600);
    assert_int_equal(mode_of(&bench, "a/b/seg/00000000000000000001.ack"), 0600);
    bench_fini(&bench);
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* Limits are exact, and a record larger than a segment gets one of its own. */
static void test_sizes_at_the_limit(void **state)
{
    (void)state;
    struct bench bench;
    struct err err;
    bench_init(&bench);
    bench.config.max_body_bytes = 100 * 1024; /* a segment is 16 KiB */
    bench_open(&bench);
    assert_int_equal(appender_admit(bench.appender, 10, 100 * 1024 + 1), ADMIT_TOO_LARGE);
    assert_int_equal(appender_admit(bench.appender, SEGMENT_META_MAX + 1, 10), ADMIT_TOO_LARGE);
    char *body = malloc(100 * 1024), *meta = malloc(SEGMENT_META_MAX);
    memset(body, 'b', 100 * 1024);
    memset(meta, 'm', SEGMENT_META_MAX);
    bench_fill(&bench, 0, 4);
    struct append_item item = {{meta, SEGMENT_META_MAX}, {body, 100 * 1024}, 5, NULL};
    assert_int_equal(appender_admit(bench.appender, item.meta.len, item.body.len), ADMIT_OK);
    struct record_ref ref;
    assert_int_equal(appender_append(bench.appender, &item, 1, &ref, bench.now_ms, &err),
                     APPEND_OK);
    bench_fill(&bench, 4, 4);
    bench_reopen(&bench);
    assert_int_equal(bench.report.waiting, 9);
    struct spool_blob blob;
    assert_int_equal(spool_read(bench.spool, &ref, &blob, &err), READ_OK);
    assert_int_equal(blob.body.len, 100 * 1024);
    assert_memory_equal(blob.body.data, body, blob.body.len);
    assert_memory_equal(blob.meta.data, meta, blob.meta.len);
    spool_blob_free(&blob);
    free(body);
    free(meta);
    bench_fini(&bench);
}

/* Batches that end 8 bytes before, at and behind a segment's limit; each restart reads all. */
static void test_segment_borders(void **state)
{
    (void)state;
    for (int shift = -40; shift <= 40; shift += 8) {
        struct bench bench;
        struct err err;
        struct record_ref ref;
        bench_init(&bench);
        bench_open(&bench);
        static char body[HELP_SEGMENT];
        memset(body, 'x', sizeof body);
        size_t used = SEGMENT_HEADER_SIZE + 2 * SEGMENT_RECORD_SIZE;
        unsigned records = 0;
        for (int i = 0; i < 4; i++) {
            size_t len = ((size_t)HELP_SEGMENT - used - 200) / 2 + (size_t)(shift + i * 8) - 100;
            if (len > HELP_BODY_MAX)
                len = HELP_BODY_MAX;
            struct append_item item = {{"m", 1}, {body, len}, 1, NULL};
            assert_int_equal(appender_admit(bench.appender, 1, len), ADMIT_OK);
            assert_int_equal(appender_append(bench.appender, &item, 1, &ref, 0, &err), APPEND_OK);
            records++;
        }
        bench_reopen(&bench);
        assert_int_equal(bench.report.waiting, records);
        assert_int_equal(bench.report.corrupt_records + bench.report.torn_bytes, 0);
        bench_fini(&bench);
    }
}

/* What a request went through is known after a restart: expiries, suspicion, rounds. */
static void test_history_comes_back(void **state)
{
    (void)state;
    struct bench bench;
    struct record_ref refs[4], found[8];
    struct err err;
    bench_init(&bench);
    bench_open(&bench);
    assert_int_equal(bench_append(&bench, 0, 4, refs), APPEND_OK);
    acks_add(bench.acks, &refs[1].id, ACK_EXPIRY, 0, 4, 0);
    acks_add(bench.acks, &refs[2].id, ACK_SUSPECT, 7, 1700000000, 0);
    acks_add(bench.acks, &refs[3].id, ACK_SUSPECT, 2, 1700000000, 0);
    acks_add(bench.acks, &refs[3].id, ACK_SUSPECT, 0, 0, 0); /* no longer */
    bench_reopen(&bench);
    struct spool_cursor cursor = {.segno = refs[0].id.segno};
    assert_int_equal(spool_scan(bench.spool, &cursor, found, 8, &err), 4);
    assert_int_equal(found[0].history.expiries, 0);
    assert_int_equal(found[1].history.expiries, 4);
    assert_true(found[2].history.is_suspect);
    assert_int_equal(found[2].history.rounds, 7);
    assert_int_equal(found[2].history.first_fail_s, 1700000000);
    assert_false(found[3].history.is_suspect);
    bench_fini(&bench);
}

/* A moved record keeps its arrival time, first id and history; it may use the reserve. */
static void test_moved_record_keeps_its_origin(void **state)
{
    (void)state;
    struct bench bench;
    struct record_ref first, moved, found[4];
    struct err err;
    bench_init(&bench);
    bench_open(&bench);
    assert_int_equal(bench_append(&bench, 0, 1, &first), APPEND_OK);
    struct record_origin origin = {
        .id = first.id,
        .arrival_ns = first.arrival_ns,
        .history = {.expiries = 2, .is_suspect = true, .first_fail_s = 5},
        .moves = 1};
    struct append_item item = {slice_of("record 0"), slice_of("body"), 999999, &origin};
    assert_int_equal(appender_admit_move(bench.appender, 8, 4), ADMIT_OK);
    assert_int_equal(appender_append(bench.appender, &item, 1, &moved, 0, &err), APPEND_OK);
    assert_true(spool_settle(bench.spool, &first.id));
    acks_add(bench.acks, &first.id, ACK_MOVED, 0, 0, 0);
    bench_reopen(&bench);
    struct spool_cursor cursor = {.segno = moved.id.segno};
    assert_int_equal(spool_scan(bench.spool, &cursor, found, 4, &err), 1);
    assert_int_equal(found[0].id.ordinal, moved.id.ordinal);
    assert_int_equal(found[0].arrival_ns, first.arrival_ns);
    assert_int_equal(found[0].history.expiries, 2);
    assert_true(found[0].history.is_suspect);
    struct spool_blob blob;
    assert_int_equal(spool_read(bench.spool, &found[0], &blob, &err), READ_OK);
    assert_int_equal(blob.origin.id.ordinal, first.id.ordinal);
    assert_int_equal(blob.origin.id.segno, first.id.segno);
    assert_true(slice_equals(blob.body, "body"));
    spool_blob_free(&blob);
    bench_fini(&bench);
}

/* Acks cannot be written (a full disk): segments are removed all the same, and when there is room
 * again the acks go out. */
static void test_full_disk_drains(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 200);
    fsio_script("write:*.ack@1+=ENOSPC;write:*gc.log@1+=ENOSPC;open:*.ack@1+=ENOSPC");
    bench_collect(&bench, &tally, settle_it);
    for (int i = 0; i < 10; i++) {
        bench.now_ms += 500;
        acks_tick(bench.acks, bench.now_ms);
    }
    assert_int_equal(bench_files(&bench, "seg", ".log"), 1);
    assert_int_equal(bench_files(&bench, "seg", ".ack"), 0);
    fsio_script(NULL);
    bench.now_ms += 1100;
    acks_tick(bench.acks, bench.now_ms);
    assert_int_equal(bench_files(&bench, "seg", ".ack"), 1);
    bench_reopen(&bench);
    assert_int_equal(bench.report.waiting, 0);
    bench_fini(&bench);
}

/* A failed sync of acks costs deliveries, never records, and that file is left alone. */
static void test_failed_ack_sync(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 8);
    struct record_ref ref;
    struct err err;
    struct spool_cursor cursor = {.segno = 1};
    assert_int_equal(spool_scan(bench.spool, &cursor, &ref, 1, &err), 1);
    settle_it(&bench, &ref, 0);
    fsio_script("sync:*.ack@1=EIO");
    assert_int_equal(acks_flush(bench.acks, bench.now_ms), -1);
    fsio_script(NULL);
    assert_int_equal(spool_scan(bench.spool, &cursor, &ref, 1, &err), 1);
    settle_it(&bench, &ref, 1);
    bench.now_ms += 1000;
    acks_tick(bench.acks, bench.now_ms);
    bench.now_ms += 1000;
    acks_tick(bench.acks, bench.now_ms);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 6);
    bench_reopen(&bench);
    bench_collect(&bench, &tally, NULL);
    assert_true(tally.found >= 6 && tally.found <= 8);
    bench_fini(&bench);
}

/* A line of gc.log that could not be written before the segment went is written when it has gone,
 * and a gc.log whose sync failed is not synced again: the next start misses no segment. */
static void test_failing_gc_log(void **state)
{
    (void)state;
    static const char *const scripts[] = {"write:*gc.log@%u=ENOSPC", "sync:*gc.log@%u=EIO",
                                          "sync:*gc.log@1=EIO", "open:*gc.log@%u=ENOSPC"};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct bench bench;
        struct tally tally;
        char script[64];
        bench_init(&bench);
        bench_open(&bench);
        bench_fill(&bench, 0, 200);
        /* The line that the next file's header makes somebody look for. */
        snprintf(script, sizeof script, scripts[i], bench_files(&bench, "seg", ".log") - 1);
        fsio_script(script);
        bench_collect(&bench, &tally, settle_it);
        acks_tick(bench.acks, bench.now_ms);
        bench.now_ms += 1000;
        acks_tick(bench.acks, bench.now_ms);
        assert_true(bench_files(&bench, "seg", ".log") <= 1);
        fsio_script(NULL);
        bench_reopen(&bench);
        assert_int_equal(bench.report.missing_segments, 0);
        bench_fini(&bench);
    }
}

/* Somebody deletes a segment under a running broker: its records are gone, everything else goes on.
 */
static void test_deleted_segment(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 100);
    bench_reopen(&bench);
    struct segment_info info;
    assert_true(spool_info(bench.spool, 2, &info));
    char path[256];
    snprintf(path, sizeof path, "%s/seg/%020d.log", bench.path, 2);
    assert_int_equal(unlink(path), 0);
    bench_collect(&bench, &tally, settle_it);
    assert_int_equal(tally.found, 100 - info.records);
    bench_reopen(&bench);
    assert_int_equal(bench.report.waiting, 0);
    bench_fini(&bench);
}

/* A backlog costs no memory: a scan gives descriptors in bounded pieces from any cursor. */
static void test_scan_in_pieces(void **state)
{
    (void)state;
    struct bench bench;
    struct err err;
    bench_init(&bench);
    bench.config.segment_bytes = 1 << 20;
    bench.config.max_bytes = 64 << 20;
    bench_open(&bench);
    bench_fill(&bench, 0, 1000);
    for (int piece = 1; piece < 2000; piece = piece * 3 + 1) {
        struct spool_cursor cursor = {.segno = 1};
        struct record_ref *refs = calloc((size_t)piece, sizeof *refs);
        uint32_t next = 0;
        int n;
        while ((n = spool_scan(bench.spool, &cursor, refs, piece, &err)) > 0)
            for (int i = 0; i < n; i++)
                assert_int_equal(refs[i].id.ordinal, next++);
        assert_int_equal(n, 0);
        assert_int_equal(next, 1000);
        /* What comes later is found from where the cursor stands. */
        free(refs);
    }
    struct spool_cursor cursor = {.segno = 1};
    struct record_ref refs[8];
    while (spool_scan(bench.spool, &cursor, refs, 8, &err) > 0)
        ;
    bench_fill(&bench, 1000, 3);
    assert_int_equal(spool_scan(bench.spool, &cursor, refs, 8, &err), 3);
    assert_int_equal(refs[0].id.ordinal, 1000);
    bench_fini(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored_is_there),
        cmocka_unit_test(test_settled_is_gone),
        cmocka_unit_test(test_idle_spool_is_empty),
        cmocka_unit_test(test_idle_writes_one_mark),
        cmocka_unit_test(test_a_batch_is_one_write_and_one_sync),
        cmocka_unit_test(test_opening_makes_no_segment),
        cmocka_unit_test(test_one_failed_write),
        cmocka_unit_test(test_second_failure_refuses),
        cmocka_unit_test(test_failures_far_apart),
        cmocka_unit_test(test_no_file_for_a_while),
        cmocka_unit_test(test_no_space_is_full),
        cmocka_unit_test(test_full_and_back),
        cmocka_unit_test(test_limit_below_use),
        cmocka_unit_test(test_used_bytes_equal_the_directory),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_only_the_owner_reads),
        cmocka_unit_test(test_sizes_at_the_limit),
        cmocka_unit_test(test_segment_borders),
        cmocka_unit_test(test_history_comes_back),
        cmocka_unit_test(test_moved_record_keeps_its_origin),
        cmocka_unit_test(test_full_disk_drains),
        cmocka_unit_test(test_failed_ack_sync),
        cmocka_unit_test(test_failing_gc_log),
        cmocka_unit_test(test_deleted_segment),
        cmocka_unit_test(test_scan_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
