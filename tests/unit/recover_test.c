// SPDX-License-Identifier: MIT
/* Starting on what a crash or a bad disk left behind. */
#include "tests/unit/spool_help.h"

#include <sys/mman.h>

#include "broker/logfile.h"
#include "common/crc32c.h"

enum { PATH_SIZE = 300 };

static void seg_path(const struct bench *bench, unsigned segno, const char *suffix,
                     char out[PATH_SIZE])
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, suffix, name);
    snprintf(out, PATH_SIZE, "%s/seg/%s", bench->path, name);
}

static uint8_t *load(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *len = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*len + 1);
    assert_int_equal(fread(bytes, 1, *len, file), *len);
    fclose(file);
    return bytes;
}

static void store(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void flip(const char *path, uint64_t offset)
{
    size_t len;
    uint8_t *bytes = load(path, &len);
    assert_true(offset < len);
    bytes[offset] ^= 0x10;
    store(path, bytes, len);
    free(bytes);
}

static void shell(const char *format, ...)
{
    char command[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0)
        fail_msg("%s", command);
}

/* --- a process that ends without a clean stop ------------------------------------------------- */

static unsigned fill_count;

static void fill_and_vanish(struct bench *bench)
{
    bench_open(bench);
    for (unsigned i = 0; i < fill_count; i += 4)
        if (bench_append(bench, i, fill_count - i < 4 ? fill_count - i : 4, NULL) != APPEND_OK)
            _exit(1);
    _exit(0);
}

static void fill_mark_and_vanish(struct bench *bench)
{
    bench_open(bench);
    for (unsigned i = 0; i < fill_count; i += 4)
        if (bench_append(bench, i, 4, NULL) != APPEND_OK)
            _exit(1);
    appender_tick(bench->appender, bench->now_ms + 1000);
    _exit(0);
}

static void crashed_with(struct bench *bench, unsigned n)
{
    fill_count = n;
    assert_int_equal(bench_fork(bench, NULL, fill_and_vanish), 0);
}

/* Where record number `number` lies, by a scan of an open spool. */
static struct record_ref place_of(struct bench *bench, unsigned number)
{
    struct segment_info info;
    struct err err;
    unsigned at = 0;
    for (uint64_t segno = 0; spool_next(bench->spool, segno, &info); segno = info.segno) {
        struct spool_cursor cursor = {.segno = info.segno};
        struct record_ref ref;
        while (spool_scan(bench->spool, &cursor, &ref, 1, &err) == 1)
            if (at++ == number)
                return ref;
    }
    fail_msg("no record %u", number);
    return (struct record_ref){0};
}

/* --- one damaged byte ------------------------------------------------------------------------- */

enum where { IN_BODY, IN_HEADER, IN_PADDING, IN_SEGMENT_HEADER, WHERE_COUNT };

static uint64_t offset_in(const struct record_ref *ref, enum where where)
{
    switch (where) {
    case IN_BODY:
        return ref->offset + SEGMENT_RECORD_SIZE + ref->meta_len + 5;
    case IN_HEADER:
        return ref->offset + 9;
    case IN_PADDING:
        return ref->offset + record_disk_len(0, ref->meta_len, ref->body_len) - 1;
    default:
        return 20;
    }
}

static struct record_ref padded_place(struct bench *bench)
{
    for (unsigned i = 110;; i++) {
        struct record_ref ref = place_of(bench, i);
        uint64_t raw = SEGMENT_RECORD_SIZE + (uint64_t)ref.meta_len + ref.body_len;
        if (record_disk_len(0, ref.meta_len, ref.body_len) != raw)
            return ref;
    }
}

/* One damaged byte costs one record at most, wherever it is; the bytes are kept; it is counted once
 * however often the spool is opened. Both for sealed segments and for ones a crash left open. */
static void test_one_damaged_byte(void **state)
{
    (void)state;
    static const unsigned lost_by[WHERE_COUNT] = {1, 1, 0, 0};
    for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
        for (enum where where = 0; where < WHERE_COUNT; where++) {
            struct bench bench;
            struct tally tally;
            char path[PATH_SIZE];
            bench_init(&bench);
            if (!is_sealed)
                bench.config.segment_bytes = 1 << 20; /* all in one, left open */
            crashed_with(&bench, 300);
            shell("cp -r '%s/seg' '%s/copy'", bench.path, bench.path);
            bench_open(&bench);
            struct record_ref ref = padded_place(&bench);
            bench_close(&bench);
            if (!is_sealed)
                shell("rm -rf '%s/seg' && mv '%s/copy' '%s/seg'", bench.path, bench.path,
                      bench.path);
            seg_path(&bench, (unsigned)ref.id.segno, ".log", path);
            flip(path, offset_in(&ref, where));
            uint64_t corrupt = 0;
            for (int start = 0; start < 3; start++) {
                bench_open(&bench);
                bench_collect(&bench, &tally, NULL);
                corrupt += bench.report.corrupt_records + tally.corrupt + tally.lost;
                assert_int_equal(tally.found, 300 - lost_by[where]);
                assert_int_equal(bench.report.torn_bytes, 0);
                if (where == IN_SEGMENT_HEADER)
                    assert_int_equal(bench.report.corrupt_headers, 1);
                bench_close(&bench);
                fsio_restart();
            }
            assert_int_equal(corrupt, lost_by[where]);
            assert_int_equal(bench_files(&bench, "quarantine", ".bin") > 0,
                             lost_by[where] > 0 || (where == IN_SEGMENT_HEADER && !is_sealed));
            bench_fini(&bench);
        }
    }
}

/* --- what can be said of a damaged tail ------------------------------------------------------- */

/* The last batch's record is damaged. With a mark behind it the batch had been synced: corrupt.
 * Without, nothing proves it: torn, no alarm. */
static void test_mark_proves_the_last_batch(void **state)
{
    (void)state;
    for (int has_mark = 0; has_mark < 2; has_mark++) {
        struct bench bench;
        struct tally tally;
        char path[PATH_SIZE];
        bench_init(&bench);
        fill_count = 8;
        assert_int_equal(
            bench_fork(&bench, NULL, has_mark ? fill_mark_and_vanish : fill_and_vanish), 0);
        seg_path(&bench, 1, ".log", path);
        shell("cp '%s' '%s/copy'", path, bench.path);
        bench_open(&bench);
        struct record_ref ref = place_of(&bench, 5);
        bench_close(&bench);
        shell("cp '%s/copy' '%s'", bench.path, path);
        flip(path, ref.offset + SEGMENT_RECORD_SIZE + 20);
        bench_open(&bench);
        assert_int_equal(bench.report.corrupt_records, has_mark);
        assert_int_equal(bench.report.torn_bytes > 0, !has_mark);
        bench_collect(&bench, &tally, NULL);
        assert_int_equal(tally.found, 7); /* the siblings are kept */
        assert_int_equal(tally.lost + tally.corrupt, 0);
        assert_int_equal(bench_files(&bench, "quarantine", ".bin"), 1);
        bench_fini(&bench);
    }
}

/* The blocks of one write land in any order: the first record of the last batch is missing, later
 * ones are whole. That is torn; the same hole one batch earlier is corrupt. */
static void test_hole_in_the_last_batch(void **state)
{
    (void)state;
    for (unsigned first = 4; first <= 8; first += 4) {
        struct bench bench;
        struct tally tally;
        char path[PATH_SIZE];
        bench_init(&bench);
        crashed_with(&bench, 12); /* batches 0-3, 4-7, 8-11 */
        seg_path(&bench, 1, ".log", path);
        shell("cp '%s' '%s/copy'", path, bench.path);
        bench_open(&bench);
        struct record_ref from = place_of(&bench, first), to = place_of(&bench, first + 2);
        bench_close(&bench);
        shell("cp '%s/copy' '%s'", bench.path, path);
        size_t len;
        uint8_t *bytes = load(path, &len);
        memset(bytes + from.offset, 0, to.offset - from.offset);
        store(path, bytes, len);
        free(bytes);
        bench_open(&bench);
        assert_int_equal(bench.report.corrupt_records, first == 8 ? 0 : 2);
        bench_collect(&bench, &tally, NULL);
        assert_int_equal(tally.found, 10);
        assert_int_equal(tally.lost, 0);
        bench_reopen(&bench);
        assert_int_equal(bench.report.corrupt_records, 0);
        assert_int_equal(bench.report.waiting, 10);
        bench_fini(&bench);
    }
}

/* The end of a file is gone, but the next one's header says how much there was. */
static void test_next_header_vouches(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    char path[PATH_SIZE];
    bench_init(&bench);
    crashed_with(&bench, 100);
    bench_open(&bench);
    struct segment_info info;
    assert_true(spool_info(bench.spool, 1, &info));
    bench_close(&bench);
    seg_path(&bench, 1, ".log", path);
    assert_int_equal(truncate(path, 8192), 0);
    bench_open(&bench);
    uint64_t corrupt = bench.report.corrupt_records;
    assert_true(corrupt > 0 && corrupt < info.records);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found + corrupt, 100);
    bench_reopen(&bench);
    assert_int_equal(bench.report.corrupt_records, 0);
    bench_fini(&bench);
}

/* --- crashes at every call -------------------------------------------------------------------- */

static unsigned *acknowledged; /* shared with the child: records answered as stored */

static void append_until_it_ends(struct bench *bench)
{
    struct err err;
    if (bench_try_open(bench, &err) == -1)
        _exit(2);
    for (unsigned i = 0; i < 48; i += 4) {
        if (bench_append(bench, *acknowledged, 4, NULL) == APPEND_OK)
            *acknowledged += 4;
        bench->now_ms += 150;
        appender_tick(bench->appender, bench->now_ms);
    }
    bench_close(bench);
}

static void *shared(size_t len)
{
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* The process ends before, inside and after each write, sync and other change of the disk while it
 * stores records: every one that was answered is there, nothing counts as corrupt, no number is
 * used twice, and no damage builds up over many such ends. */
static void test_end_at_each_call(void **state)
{
    (void)state;
    static const char *const ways[] = {"exit-before", "exit-inside", "exit-after"};
    acknowledged = shared(sizeof *acknowledged);
    for (int way = 0; way < 3; way++) {
        struct bench bench;
        bench_init(&bench);
        *acknowledged = 0;
        uint64_t highest = 0;
        int status = 99;
        for (int k = 1; status == 99; k++) {
            char script[64];
            struct tally tally;
            snprintf(script, sizeof script, "any@%d=%s", k, ways[way]);
            status = bench_fork(&bench, script, append_until_it_ends);
            assert_true(status == 99 || status == 0);
            bench_open(&bench);
            assert_int_equal(bench.report.corrupt_records + bench.report.corrupt_headers +
                                 bench.report.missing_segments,
                             0);
            bench_collect(&bench, &tally, NULL);
            for (unsigned i = 0; i < *acknowledged && i < 4096; i++)
                if (tally.seen[i] == 0)
                    fail_msg("%s: record %u is gone", script, i);
            assert_int_equal(tally.corrupt + tally.lost, 0);
            struct record_ref ref;
            assert_int_equal(bench_append(&bench, 5000, 1, &ref), APPEND_OK);
            assert_true(ref.id.segno > highest);
            highest = ref.id.segno;
            bench_collect(&bench, &tally, settle_it); /* so that the next round starts small */
            *acknowledged = 0;
            bench_close(&bench);
            fsio_restart();
        }
        assert_int_equal(status, 0);
        bench_fini(&bench);
    }
    munmap(acknowledged, sizeof *acknowledged);
}

static void store_large_batches(struct bench *bench)
{
    struct err err;
    if (bench_try_open(bench, &err) == -1)
        _exit(2);
    for (unsigned i = 0; i < 6; i++)
        if (bench_append(bench, i * 20, 20, NULL) == APPEND_OK)
            *acknowledged += 20;
}

/* Where record number n of a whole file begins, found by walking. */
static uint64_t end_of_record(const uint8_t *bytes, size_t len, uint32_t n)
{
    struct record_header header;
    struct segment_header segment;
    assert_int_equal(segment_header_decode(&segment, bytes), SEGMENT_VALID);
    uint64_t at = SEGMENT_HEADER_SIZE;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(at + SEGMENT_RECORD_SIZE < len);
        assert_int_equal(record_header_decode(&header, segment_nonce32(segment.nonce), bytes + at),
                         SEGMENT_VALID);
        at += record_disk_len(header.extra_len, header.meta_len, header.body_len);
    }
    return at;
}

/* The power fails while a batch is being written: of its blocks of 512 bytes any may have reached
 * the disk. Whatever the mixture, the records answered before are there, no other bytes are taken
 * for a record, and no alarm is raised. */
static void test_blocks_in_any_order(void **state)
{
    (void)state;
    enum { BLOCK = 512, IMAGES = 200 };
    struct bench bench;
    struct tally tally;
    char path[PATH_SIZE];
    bench_init(&bench);
    bench.config.segment_bytes = 256 * 1024;
    bench.config.max_bytes = 64 << 20;
    acknowledged = shared(sizeof *acknowledged);
    *acknowledged = 0;
    /* The first is of the new file, then those of five batches; that of the sixth is not made. */
    assert_int_equal(bench_fork(&bench, "sync:*.log@7=exit-before", store_large_batches), 99);
    assert_int_equal(*acknowledged, 100);
    seg_path(&bench, 1, ".log", path);
    size_t len;
    uint8_t *whole = load(path, &len), *image = malloc(len);
    uint64_t end = end_of_record(whole, len, 100);
    srand(20260102);
    for (int i = 0; i < IMAGES; i++) {
        memcpy(image, whole, len);
        unsigned kept_of_8 = (unsigned)rand() % 9;
        for (uint64_t at = end / BLOCK * BLOCK; at < len; at += BLOCK)
            if ((unsigned)rand() % 8 >= kept_of_8)
                memset(image + (at < end ? end : at), 0, BLOCK - (at < end ? end - at : 0));
        store(path, image, len);
        bench_open(&bench);
        assert_int_equal(bench.report.corrupt_records + bench.report.corrupt_headers, 0);
        bench_collect(&bench, &tally, NULL);
        assert_int_equal(tally.corrupt + tally.lost, 0);
        for (int k = 0; k < 120; k++)
            assert_true(tally.seen[k] <= 1 && (tally.seen[k] == 1 || k >= 100));
        bench_close(&bench);
        fsio_restart();
        shell("rm -rf '%s/seg' '%s/gc.log'; mkdir '%s/seg'", bench.path, bench.path, bench.path);
    }
    free(whole);
    free(image);
    munmap(acknowledged, sizeof *acknowledged);
    bench_fini(&bench);
}

/* A start that never gets to a record leaves nothing behind, however often. */
static void append_one(struct bench *bench)
{
    struct err err;
    if (bench_try_open(bench, &err) == -1)
        _exit(2);
    (void)bench_append(bench, 0, 1, NULL);
    _exit(0);
}

static void test_crash_loop_leaves_no_files(void **state)
{
    (void)state;
    static const char *const scripts[] = {"open:*.log@1=exit-after", "allocate@1=exit-after",
                                          "write:*.log@1=exit-after", "sync:*.log@1=exit-after",
                                          "write:*.log@1=exit-inside"};
    struct bench bench;
    bench_init(&bench);
    for (int i = 0; i < 50; i++)
        assert_int_equal(bench_fork(&bench, scripts[i % 5], append_one), 99);
    assert_true(bench_files(&bench, "seg", ".log") <= 1);
    bench_open(&bench);
    assert_int_equal(bench.report.waiting + bench.report.corrupt_headers, 0);
    assert_int_equal(bench_files(&bench, "seg", ""), 0);
    bench_fini(&bench);
}

/* --- recovery that is killed ------------------------------------------------------------------ */

static void open_and_close(struct bench *bench)
{
    struct err err;
    if (bench_try_open(bench, &err) == -1)
        _exit(2);
    bench_close(bench);
}

/* A spool with everything wrong at once, left open by a crash: done segments, acks, damage in the
 * middle and at the end, a file without records, a file of rubbish. */
static void make_a_mess(struct bench *bench)
{
    char path[PATH_SIZE];
    struct tally tally;
    bench_open(bench);
    bench_fill(bench, 0, 60);
    bench_collect(bench, &tally, settle_it);
    acks_flush(bench->acks, bench->now_ms);
    bench_fill(bench, 60, 100);
    struct record_ref in_last = place_of(bench, 97), in_middle = place_of(bench, 40);
    /* As if killed here: the files are put aside before the clean stop. */
    shell("cp -r '%s/seg' '%s/mess'", bench->path, bench->path);
    bench_close(bench);
    shell("rm -rf '%s/seg' && mv '%s/mess' '%s/seg'", bench->path, bench->path, bench->path);
    seg_path(bench, (unsigned)in_last.id.segno, ".log", path);
    flip(path, in_last.offset + 70);
    seg_path(bench, (unsigned)in_middle.id.segno, ".log", path);
    flip(path, in_middle.offset + 3);
    flip(path, in_middle.offset + 2000);
    size_t len;
    uint8_t *bytes = load(path, &len); /* and its seal */
    memset(bytes + len - 40, 'z', 40);
    store(path, bytes, len);
    free(bytes);
    seg_path(bench, 900, ".log", path);
    shell("head -c 8192 /dev/zero > '%s'", path);
    seg_path(bench, 901, ".log", path);
    shell("head -c 9000 /dev/zero | tr '\\0' q > '%s'", path);
}

static void outcome(struct bench *bench, struct tally *tally, char *files, size_t size)
{
    bench_open(bench);
    bench_collect(bench, tally, NULL);
    bench_close(bench);
    fsio_restart();
    char command[PATH_SIZE];
    snprintf(command, sizeof command, "cd '%s/quarantine' && ls -s --block-size=1 | sort",
             bench->path);
    FILE *pipe = popen(command, "r");
    size_t n = fread(files, 1, size - 1, pipe);
    files[n] = '\0';
    pclose(pipe);
}

/* Recovery is ended before and after each of its changes to the disk and run again: the same
 * records are delivered and the same bytes are kept as when nobody disturbs it. */
static void test_recovery_killed_at_each_call(void **state)
{
    (void)state;
    static const char *const ways[] = {"exit-before", "exit-inside", "exit-after"};
    struct bench bench, copy;
    struct tally right, tally;
    char right_files[2000], files[2000];
    bench_init(&bench);
    bench_init(&copy);
    make_a_mess(&bench);
    shell("cp -r '%s/.' '%s/'", bench.path, copy.path);
    outcome(&copy, &right, right_files, sizeof right_files);
    assert_true(right.found >= 97 && right.found < 160);
    for (int way = 0; way < 3; way++) {
        int status = 99;
        for (int k = 1; status == 99; k++) {
            char script[64];
            shell("rm -rf '%s' && cp -r '%s' '%s'", copy.path, bench.path, copy.path);
            snprintf(script, sizeof script, "any@%d=%s", k, ways[way]);
            status = bench_fork(&copy, script, open_and_close);
            assert_true(status == 99 || status == 0);
            outcome(&copy, &tally, files, sizeof files);
            assert_memory_equal(tally.seen, right.seen, sizeof tally.seen);
            assert_string_equal(files, right_files);
        }
    }
    bench_fini(&copy);
    bench_fini(&bench);
}

/* Start and drain at 100 % full: every write of recovery fails, and segments that are done are
 * removed first. */
static void test_start_on_a_full_disk(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    bench_init(&bench);
    make_a_mess(&bench);
    fsio_script("write@1+=ENOSPC;allocate@1+=ENOSPC;open:*.ack@1+=ENOSPC;open:*.bin@1+=ENOSPC");
    bench_open(&bench);
    bench_collect(&bench, &tally, settle_it);
    assert_true(tally.found >= 97);
    for (int i = 0; i < 20; i++)
        acks_tick(bench.acks, bench.now_ms += 1000);
    assert_true(bench_files(&bench, "seg", ".log") <= 1); /* 901 */
    bench_fini(&bench);
}

/* --- side files ------------------------------------------------------------------------------- */

/* Damage to gc.log, an ack file or a seal loses no record: the worst is that some come again. */
static void test_side_files_lose_nothing(void **state)
{
    (void)state;
    static const char *const targets[] = {"gc.log", "seg/%020u.ack", "seal"};
    static const char *const commands[] = {
        "printf 'XXXXXXXX' | dd of='%s' bs=1 seek=%ld conv=notrunc status=none",
        "truncate -s %3$ld '%1$s'", ": > '%s'", "rm -f '%s'"};
    for (int target = 0; target < 3; target++) {
        for (int way = 0; way < (target == 2 ? 2 : 4); way++) {
            struct bench bench;
            struct tally tally;
            bench_init(&bench);
            bench_open(&bench);
            bench_fill(&bench, 0, 100);
            bench_collect(&bench, &tally, NULL);
            unsigned settled = 0;
            struct segment_info info;
            struct err err;
            for (uint64_t segno = 0; spool_next(bench.spool, segno, &info); segno = info.segno) {
                struct spool_cursor cursor = {.segno = info.segno};
                struct record_ref refs[10];
                int n = spool_scan(bench.spool, &cursor, refs, info.segno == 1 ? 10 : 3, &err);
                for (int i = 0; i < n; i++)
                    settle_it(&bench, &refs[i], 0);
                settled += (unsigned)n;
            }
            bench_close(&bench);
            char name[64], path[PATH_SIZE];
            snprintf(name, sizeof name, target == 2 ? "seg/%020u.log" : targets[target], 2u);
            snprintf(path, sizeof path, "%s/%s", bench.path, name);
            struct stat st;
            long len = stat(path, &st) == 0 ? (long)st.st_size : 0;
            if (target != 0 || len > 0)
                shell(commands[way], path, len > 30 ? len - 30 : 0, len > 30 ? len - 25 : 0);
            bench_open(&bench);
            assert_int_equal(bench.report.corrupt_records, 0);
            bench_collect(&bench, &tally, NULL);
            assert_true(tally.found >= 100 - settled && tally.found <= 100);
            assert_int_equal(tally.lost + tally.corrupt, 0);
            bench_fini(&bench);
        }
    }
}

/* An ack file put beside another segment settles nothing there. */
static void test_foreign_acks_are_ignored(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    char from[PATH_SIZE], to[PATH_SIZE];
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 100);
    struct spool_cursor cursor = {.segno = 2};
    struct record_ref refs[10];
    struct err err;
    assert_int_equal(spool_scan(bench.spool, &cursor, refs, 10, &err), 10);
    for (int i = 0; i < 10; i++)
        settle_it(&bench, &refs[i], 0);
    bench_close(&bench);
    seg_path(&bench, 2, ".ack", from);
    seg_path(&bench, 3, ".ack", to);
    shell("cp '%s' '%s'", from, to);
    bench_open(&bench);
    assert_int_equal(bench.report.waiting, 90);
    /* And the segment's own acks take its place. */
    cursor = (struct spool_cursor){.segno = 3};
    assert_int_equal(spool_scan(bench.spool, &cursor, refs, 2, &err), 2);
    settle_it(&bench, &refs[0], 0);
    bench_reopen(&bench);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 89);
    bench_fini(&bench);
}

/* --- files that are not what they should be ----------------------------------------------------
 */

/* Blocks that the disk does not give cost the records in them, during recovery and later; a passing
 * error costs nothing. */
static void test_unreadable_blocks(void **state)
{
    (void)state;
    for (int fails = 1; fails <= 3; fails++) {
        struct bench bench;
        struct tally tally;
        char script[128] = "";
        bench_init(&bench);
        bench.config.segment_bytes = 1 << 20;
        bench.config.max_bytes = 64 << 20;
        crashed_with(&bench, 300);
        /* The third read of the open file is the first of its records; then block by block. */
        snprintf(script, sizeof script, "read:*1.log@3=EIO;read:*1.log@%d=EIO;read:*1.log@%d=EIO",
                 fails > 1 ? 5 : 999, fails > 2 ? 6 : 999);
        fsio_script(script);
        bench_open(&bench);
        fsio_script(NULL);
        bench_collect(&bench, &tally, NULL);
        uint64_t lost = bench.report.corrupt_records + tally.corrupt + tally.lost;
        assert_int_equal(tally.found + lost, 300);
        assert_true(fails == 1 ? lost == 0 : lost > 5 && lost < 60);
        bench_fini(&bench);
    }
}

/* A newer major version, or a record kind that must be understood: no start, nothing touched. */
static void test_unknown_formats_refuse(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        struct bench bench;
        struct err err;
        char path[PATH_SIZE];
        bench_init(&bench);
        crashed_with(&bench, 100);
        seg_path(&bench, 2, ".log", path);
        size_t len;
        uint8_t *bytes = load(path, &len);
        if (what == 0)
            bytes[8] = 2;
        size_t crc_at = what == 0 ? SEGMENT_HEADER_SIZE - 4 : SEGMENT_HEADER_SIZE + 44;
        if (what == 1) {
            bytes[SEGMENT_HEADER_SIZE + 4] = 77;
            memset(bytes + len - 8, 0, 8); /* no seal */
        }
        size_t start = what == 0 ? 0 : SEGMENT_HEADER_SIZE;
        uint32_t crc = crc32c(0, bytes + start, crc_at - start);
        for (int i = 0; i < 4; i++)
            bytes[crc_at + (size_t)i] = (uint8_t)(crc >> (8 * i));
        store(path, bytes, len);
        free(bytes);
        shell("cd '%s' && find seg -type f -exec sha256sum {} + | sort > before", bench.path);
        assert_int_equal(bench_try_open(&bench, &err), -1);
        assert_non_null(strstr(err.text, "format"));
        shell("cd '%s' && find seg -type f -exec sha256sum {} + | sort > after && cmp before after",
              bench.path);
        bench_fini(&bench);
    }
}

/* An ordinal that cannot be, under a right checksum, is damage of one record and does not make
 * billions of lost ones of it. */
static void test_wild_ordinal(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    char path[PATH_SIZE];
    bench_init(&bench);
    bench.config.segment_bytes = 1 << 20;
    bench.config.max_bytes = 64 << 20;
    crashed_with(&bench, 100);
    seg_path(&bench, 1, ".log", path);
    size_t len;
    uint8_t *bytes = load(path, &len);
    uint8_t *record = bytes + end_of_record(bytes, len, 50);
    memset(record + 8, 0xfe, 4);
    uint32_t crc = crc32c(0, record, 44);
    for (int i = 0; i < 4; i++)
        record[44 + i] = (uint8_t)(crc >> (8 * i));
    store(path, bytes, len);
    free(bytes);
    bench_open(&bench);
    assert_int_equal(bench.report.corrupt_records, 1);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 99);
    bench_fini(&bench);
}

static void test_policy_refuse(void **state)
{
    (void)state;
    struct bench bench;
    struct err err;
    char path[PATH_SIZE];
    bench_init(&bench);
    bench.config.segment_bytes = 1 << 20;
    crashed_with(&bench, 100);
    seg_path(&bench, 1, ".log", path);
    flip(path, 3000);
    bench.config.refuse_on_corruption = true;
    assert_int_equal(bench_try_open(&bench, &err), -1);
    assert_non_null(strstr(err.text, "damaged"));
    bench.config.refuse_on_corruption = false;
    bench_open(&bench);
    assert_int_equal(bench.report.corrupt_records, 1);
    bench_fini(&bench);
}

/* A whole segment in the middle is random bytes, empty, or missing: the others are delivered. What
 * was in an emptied one is counted by what the next one says, once. */
static void test_whole_segment_damaged(void **state)
{
    (void)state;
    static const char *const commands[] = {"head -c %2$d /dev/urandom > '%1$s'", ": > '%s'",
                                           "rm '%s'", "head -c %2$d /dev/zero > '%1$s'",
                                           "truncate -s 60 '%s'"};
    for (int way = 0; way < 5; way++) {
        struct bench bench;
        struct tally tally;
        struct segment_info info;
        char path[PATH_SIZE];
        bench_init(&bench);
        bench_open(&bench);
        bench_fill(&bench, 0, 100);
        assert_true(spool_info(bench.spool, 2, &info));
        bench_close(&bench);
        seg_path(&bench, 2, ".log", path);
        shell(commands[way], path, HELP_SEGMENT);
        for (int start = 0; start < 2; start++) {
            bench_open(&bench);
            if (start == 0)
                assert_int_equal(bench.report.missing_segments, way == 2);
            else
                assert_int_equal(bench.report.missing_segments + bench.report.corrupt_headers, 0);
            bool is_emptied = way == 1 || way >= 3;
            assert_int_equal(bench.report.corrupt_records,
                             start == 0 && is_emptied ? info.records : 0);
            bench_collect(&bench, &tally, NULL);
            assert_int_equal(tally.found, 100 - info.records);
            bench_close(&bench);
        }
        bench_fini(&bench);
    }
}

/* Those of an emptied segment that had been delivered before are not counted as lost. */
static void test_emptied_segment_with_acks(void **state)
{
    (void)state;
    struct bench bench;
    struct segment_info info;
    struct record_ref refs[5];
    struct spool_cursor cursor = {.segno = 2};
    struct err err;
    char path[PATH_SIZE];
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 100);
    assert_true(spool_info(bench.spool, 2, &info));
    int n = spool_scan(bench.spool, &cursor, refs, 5, &err);
    assert_true(n > 0 && info.records > (uint32_t)n);
    for (int i = 0; i < n; i++)
        settle_it(&bench, &refs[i], 0);
    assert_int_equal(acks_flush(bench.acks, bench.now_ms), 0);
    bench_close(&bench);
    seg_path(&bench, 2, ".log", path);
    shell(": > '%s'", path);
    bench_open(&bench);
    assert_int_equal(bench.report.corrupt_records, info.records - (uint32_t)n);
    assert_false(spool_info(bench.spool, 2, &info));
    bench_fini(&bench);
}

/* A client's body that holds copies of our own records must not be taken for records when the
 * header before it is damaged: they carry another nonce. */
static void test_embedded_records_are_not_adopted(void **state)
{
    (void)state;
    struct bench bench;
    struct tally tally;
    struct record_ref ref;
    struct err err;
    char path[PATH_SIZE];
    bench_init(&bench);
    bench_open(&bench);
    bench_fill(&bench, 0, 12);
    bench_close(&bench);
    seg_path(&bench, 1, ".log", path);
    size_t len;
    uint8_t *bytes = load(path, &len);
    bench_open(&bench);
    struct append_item item = {slice_of("record 1000"),
                               {(char *)bytes + SEGMENT_HEADER_SIZE, len - SEGMENT_HEADER_SIZE},
                               1,
                               NULL};
    assert_int_equal(appender_admit(bench.appender, item.meta.len, item.body.len), ADMIT_OK);
    assert_int_equal(appender_append(bench.appender, &item, 1, &ref, 0, &err), APPEND_OK);
    bench_fill(&bench, 12, 4);
    bench_close(&bench);
    seg_path(&bench, (unsigned)ref.id.segno, ".log", path);
    flip(path, ref.offset + 9);
    bench_open(&bench);
    bench_collect(&bench, &tally, NULL);
    assert_int_equal(tally.found, 16);
    assert_int_equal(tally.lost, 1);
    for (int i = 0; i < 16; i++)
        assert_int_equal(tally.seen[i], 1);
    free(bytes);
    bench_fini(&bench);
}

/* Each byte of a spool of three segments is damaged once (a part of them, unless told to be
 * thorough): it always starts, and no more than one record is lost. */
static void test_flip_sweep(void **state)
{
    (void)state;
    size_t step = getenv("MCPD_TEST_THOROUGH") != NULL ? 1 : 97;
    for (int is_crashed = 0; is_crashed < 2; is_crashed++) {
        struct bench bench;
        bench_init(&bench);
        crashed_with(&bench, 90);
        if (!is_crashed) {
            bench_open(&bench);
            bench_close(&bench);
        }
        shell("cp -r '%s/seg' '%s/copy'", bench.path, bench.path);
        for (unsigned segno = 1; segno <= 3; segno++) {
            char path[PATH_SIZE];
            seg_path(&bench, segno, ".log", path);
            size_t len;
            uint8_t *bytes = load(path, &len);
            for (size_t at = 0; at < len; at += step) {
                struct tally tally;
                bytes[at] ^= (uint8_t)(1 << at % 8);
                store(path, bytes, len);
                bytes[at] ^= (uint8_t)(1 << at % 8);
                bench_open(&bench);
                bench_collect(&bench, &tally, NULL);
                if (tally.found < 89)
                    fail_msg("byte %zu of segment %u: %u found", at, segno, tally.found);
                bench_close(&bench);
                fsio_restart();
                shell("rm -rf '%s/seg' && cp -r '%s/copy' '%s/seg'", bench.path, bench.path,
                      bench.path);
            }
            free(bytes);
        }
        bench_fini(&bench);
    }
}

static unsigned looks_left;

static bool stop_soon(void)
{
    if (looks_left == 0)
        return true;
    looks_left--;
    return false;
}

/* Told to stop while it recovers, it stops, at whatever point, and the next start finds all. */
static void test_stop_during_recovery(void **state)
{
    (void)state;
    struct bench bench;
    struct err err;
    bench_init(&bench);
    crashed_with(&bench, 300);
    bench.config.must_stop = stop_soon;
    for (unsigned i = 0; i < 12; i++) {
        looks_left = i;
        assert_int_equal(bench_try_open(&bench, &err), -1);
        assert_non_null(strstr(err.text, "stop"));
    }
    bench.config.must_stop = NULL;
    bench_open(&bench);
    assert_int_equal(bench.report.waiting, 300);
    bench_fini(&bench);
}

/* Start time and bytes read do not grow with sealed segments' bytes. */
static void test_sealed_segments_are_not_scanned(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    bench.config.segment_bytes = 256 * 1024;
    bench.config.max_bytes = 256 << 20;
    crashed_with(&bench, 4000);
    bench_open(&bench);
    assert_int_equal(bench.report.waiting, 4000);
    assert_true(bench.report.segments >= 6);
    /* One open segment, and some hundred bytes for each sealed one. */
    assert_true(bench.report.scanned_bytes < 2 * 256 * 1024);
    bench_fini(&bench);
}

static int use_memory(void **state)
{
    (void)state;
    /* Syncs cost nothing there; what they are for is tested by counting and by power cuts. */
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_damaged_byte),
        cmocka_unit_test(test_mark_proves_the_last_batch),
        cmocka_unit_test(test_hole_in_the_last_batch),
        cmocka_unit_test(test_next_header_vouches),
        cmocka_unit_test(test_end_at_each_call),
        cmocka_unit_test(test_blocks_in_any_order),
        cmocka_unit_test(test_crash_loop_leaves_no_files),
        cmocka_unit_test(test_recovery_killed_at_each_call),
        cmocka_unit_test(test_start_on_a_full_disk),
        cmocka_unit_test(test_side_files_lose_nothing),
        cmocka_unit_test(test_foreign_acks_are_ignored),
        cmocka_unit_test(test_unreadable_blocks),
        cmocka_unit_test(test_unknown_formats_refuse),
        cmocka_unit_test(test_wild_ordinal),
        cmocka_unit_test(test_policy_refuse),
        cmocka_unit_test(test_whole_segment_damaged),
        cmocka_unit_test(test_emptied_segment_with_acks),
        cmocka_unit_test(test_embedded_records_are_not_adopted),
        cmocka_unit_test(test_flip_sweep),
        cmocka_unit_test(test_stop_during_recovery),
        cmocka_unit_test(test_sealed_segments_are_not_scanned),
    };
    return cmocka_run_group_tests(tests, use_memory, NULL);
}
