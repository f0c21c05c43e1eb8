// SPDX-License-Identifier: MIT
/* A spool in a directory of its own, with small segments, for the spool's tests. */
#ifndef MCPD_TESTS_SPOOL_HELP_H
#define MCPD_TESTS_SPOOL_HELP_H

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/acks.h"
#include "broker/appender.h"
#include "broker/dead.h"
#include "broker/spool.h"
#include "common/fsio.h"
#include "common/log.h"

#define UNUSED_HELP __attribute__((unused))

enum { HELP_SEGMENT = 16 * 1024, HELP_BODY_MAX = 8 * 1024, HELP_MAX = 8 << 20 };

struct bench {
    char path[128];
    struct spool_config config;
    struct spool_report report;
    spool_t *spool;
    appender_t *appender;
    acks_t *acks;
    uint64_t now_ms;
};

static UNUSED_HELP void bench_init(struct bench *self)
{
    *self = (struct bench){.now_ms = 1000000};
    fsio_restart(); /* inode numbers of an earlier test's files come back */
    const char *base = getenv("TMPDIR");
    snprintf(self->path, sizeof self->path, "%s/mcpd-spool-XXXXXX", base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(self->path));
    self->config = (struct spool_config){.path = self->path,
                                         .max_bytes = HELP_MAX,
                                         .max_body_bytes = HELP_BODY_MAX,
                                         .segment_bytes = HELP_SEGMENT};
    log_open(getenv("MCPD_TEST_LOG") ? LEVEL_DEBUG : LEVEL_ERROR + 1, false);
}

static UNUSED_HELP int bench_try_open(struct bench *self, struct err *err)
{
    self->spool = spool_open(&self->config, &self->report, err);
    if (self->spool == NULL)
        return -1;
    self->appender = appender_new(self->spool);
    self->acks = acks_new(self->spool);
    return 0;
}

static UNUSED_HELP void bench_open(struct bench *self)
{
    struct err err = {""};
    if (bench_try_open(self, &err) == -1)
        fail_msg("open: %s", err.text);
}

static UNUSED_HELP void bench_close(struct bench *self)
{
    appender_destroy(&self->appender);
    acks_destroy(&self->acks);
    spool_close(&self->spool);
}

static UNUSED_HELP void bench_reopen(struct bench *self)
{
    bench_close(self);
    fsio_restart();
    bench_open(self);
}

static UNUSED_HELP void bench_fini(struct bench *self)
{
    fsio_script(NULL);
    bench_close(self);
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", self->path);
    assert_int_equal(system(command), 0);
}

/* What record number i holds: told from its meta. */
static UNUSED_HELP size_t body_of(unsigned i, char *out)
{
    size_t len = 40 + i * 37 % 700;
    for (size_t k = 0; k < len; k++)
        out[k] = (char)('a' + (i + k) % 26);
    return len;
}

/* One batch of n records, numbered from first. */
static UNUSED_HELP enum append_result bench_append(struct bench *self, unsigned first, unsigned n,
                                                   struct record_ref *refs)
{
    struct append_item items[64];
    static char metas[64][32], bodies[64][1024];
    struct record_ref own[64];
    assert_true(n <= 64);
    for (unsigned i = 0; i < n; i++) {
        int len = snprintf(metas[i], sizeof metas[i], "record %u", first + i);
        items[i] = (struct append_item){
            .meta = {metas[i], (size_t)len},
            .body = {bodies[i], body_of(first + i, bodies[i])},
            .arrival_ns = 1000 + first + i,
        };
        enum admission admission =
            appender_admit(self->appender, items[i].meta.len, items[i].body.len);
        if (admission != ADMIT_OK)
            return admission == ADMIT_FULL ? APPEND_FULL : APPEND_FAILED;
    }
    struct err err = {""};
    enum append_result result =
        appender_append(self->appender, items, n, refs == NULL ? own : refs, self->now_ms, &err);
    return result;
}

/* n records in batches of 4; all must be taken. */
static UNUSED_HELP void bench_fill(struct bench *self, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < n; i += 4)
        assert_int_equal(bench_append(self, first + i, n - i < 4 ? n - i : 4, NULL), APPEND_OK);
}

typedef void bench_visit(struct bench *self, const struct record_ref *ref, unsigned number);

struct tally {
    unsigned found;           /* records that read back right */
    unsigned corrupt;         /* that did not */
    unsigned lost;            /* ordinals in damaged ranges */
    unsigned char seen[4096]; /* how often each number came */
};

/* Goes through all that waits as delivery would: scan, read, compare. */
static UNUSED_HELP void bench_collect(struct bench *self, struct tally *tally, bench_visit *visit)
{
    *tally = (struct tally){0};
    struct segment_info info;
    struct err err = {""};
    for (uint64_t segno = 0; spool_next(self->spool, segno, &info); segno = info.segno) {
        struct spool_cursor cursor = {.segno = info.segno};
        struct record_ref refs[7];
        int n;
        while ((n = spool_scan(self->spool, &cursor, refs, 7, &err)) > 0) {
            for (int i = 0; i < n; i++) {
                struct spool_blob blob;
                if (refs[i].lost > 0) {
                    tally->lost += refs[i].lost;
                    acks_lose(self->acks, &refs[i], self->now_ms);
                    continue;
                }
                enum read_result result = spool_read(self->spool, &refs[i], &blob, &err);
                if (result == READ_CORRUPT) {
                    tally->corrupt++;
                    acks_lose(self->acks, &refs[i], self->now_ms);
                    continue;
                }
                assert_int_equal(result, READ_OK);
                unsigned number;
                char text[32], body[1024];
                snprintf(text, sizeof text, "%.*s", (int)blob.meta.len, blob.meta.data);
                assert_int_equal(sscanf(text, "record %u", &number), 1);
                assert_int_equal(blob.body.len, body_of(number, body));
                assert_memory_equal(blob.body.data, body, blob.body.len);
                tally->found++;
                if (number < 4096)
                    tally->seen[number]++;
                spool_blob_free(&blob);
                if (visit != NULL)
                    visit(self, &refs[i], number);
            }
        }
        if (n == -1)
            fail_msg("scan: %s", err.text);
    }
}

static UNUSED_HELP void settle_it(struct bench *self, const struct record_ref *ref, unsigned number)
{
    (void)number;
    assert_true(spool_settle(self->spool, &ref->id));
    acks_add(self->acks, &ref->id, ACK_DONE, 0, 0, self->now_ms);
}

/* Runs work in a child that may _exit at a scripted fault; the exit status. */
typedef void bench_work(struct bench *self);
static UNUSED_HELP int bench_fork(struct bench *self, const char *script, bench_work *work)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        fsio_script(script);
        work(self);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        fail_msg("child ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* Number of files in a part of the spool whose names end so. */
static UNUSED_HELP unsigned bench_files(struct bench *self, const char *part, const char *suffix)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", self->path, part);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    unsigned n = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        n += entry->d_name[0] != '.' && len >= strlen(suffix) &&
             strcmp(entry->d_name + len - strlen(suffix), suffix) == 0;
    }
    closedir(dir);
    return n;
}

static UNUSED_HELP uint64_t dir_bytes(const char *root, const char *part)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, part);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    uint64_t sum = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat st;
        if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
            sum += (uint64_t)st.st_blocks * 512;
    }
    closedir(dir);
    return sum;
}

#endif
