// SPDX-License-Identifier: MIT
/*
 * The spool's append path alone against a plain loop of pwritev and fdatasync on a file of the same
 * disk: 1 KiB records in batches of 1, 32 and 128, the two sides in turns. Prints records a second
 * of each and the median of the ratios. There is nothing faster to compare with: the plain loop
 * does the least that makes a batch durable.
 *
 *     make build/bench/append && build/bench/append DIR [SECONDS_PER_TURN]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "broker/appender.h"
#include "broker/spool.h"
#include "common/clock.h"
#include "common/log.h"

enum { RECORD_BYTES = 1024, META_BYTES = 120, TURNS = 7, BATCH_MAX = 128 };

static char body[RECORD_BYTES];
static char meta[META_BYTES];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double plain(const char *dir, unsigned batch, double seconds)
{
    char path[512];
    snprintf(path, sizeof path, "%s/plain", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd == -1)
        fail(path);
    struct iovec parts[2 * BATCH_MAX];
    for (unsigned i = 0; i < batch; i++) {
        parts[2 * i] = (struct iovec){meta, META_BYTES};
        parts[2 * i + 1] = (struct iovec){body, RECORD_BYTES};
    }
    off_t at = 0;
    uint64_t records = 0, start = clock_mono_us(), now = start;
    while ((double)(now - start) < seconds * 1e6) {
        ssize_t done = pwritev(fd, parts, (int)(2 * batch), at);
        if (done == -1 || fdatasync(fd) == -1)
            fail("plain");
        at += done;
        records += batch;
        now = clock_mono_us();
    }
    close(fd);
    unlink(path);
    return (double)records / ((double)(now - start) / 1e6);
}

static double spool(const char *dir, unsigned batch, double seconds)
{
    char path[512], command[600];
    snprintf(path, sizeof path, "%s/spool", dir);
    struct spool_config config = {
        .path = path, .max_bytes = (uint64_t)16 << 30, .max_body_bytes = 16 << 20};
    struct spool_report report;
    struct err err;
    spool_t *self = spool_open(&config, &report, &err);
    if (self == NULL) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    appender_t *appender = appender_new(self);
    struct append_item items[BATCH_MAX];
    struct record_ref refs[BATCH_MAX];
    for (unsigned i = 0; i < batch; i++)
        items[i] = (struct append_item){{meta, META_BYTES}, {body, RECORD_BYTES}, 1, NULL};
    uint64_t records = 0, start = clock_mono_us(), now = start;
    while ((double)(now - start) < seconds * 1e6) {
        for (unsigned i = 0; i < batch; i++)
            if (appender_admit(appender, META_BYTES, RECORD_BYTES) != ADMIT_OK)
                fail("admit");
        if (appender_append(appender, items, batch, refs, now / 1000, &err) != APPEND_OK)
            fail(err.text);
        records += batch;
        now = clock_mono_us();
    }
    appender_destroy(&appender);
    spool_close(&self);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0)
        fail(command);
    return (double)records / ((double)(now - start) / 1e6);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    static const unsigned batches[] = {1, 32, 128};
    const char *dir = argc > 1 ? argv[1] : ".";
    double seconds = argc > 2 ? atof(argv[2]) : 0.5;
    log_open(LEVEL_ERROR, false);
    memset(body, 'b', sizeof body);
    memset(meta, 'm', sizeof meta);
    printf("batch   plain rec/s   spool rec/s   ratio\n");
    for (int b = 0; b < 3; b++) {
        double ours[TURNS], theirs[TURNS], ratios[TURNS];
        for (int i = 0; i < TURNS; i++) {
            theirs[i] = plain(dir, batches[b], seconds);
            ours[i] = spool(dir, batches[b], seconds);
            ratios[i] = ours[i] / theirs[i];
        }
        qsort(ours, TURNS, sizeof *ours, by_value);
        qsort(theirs, TURNS, sizeof *theirs, by_value);
        qsort(ratios, TURNS, sizeof *ratios, by_value);
        printf("%5u %13.0f %13.0f %7.2f\n", batches[b], theirs[TURNS / 2], ours[TURNS / 2],
               ratios[TURNS / 2]);
    }
    return 0;
}
