// SPDX-License-Identifier: MIT
/*
 * Two passes. The first only reads: every segment is inspected, its acks are applied to the table,
 * and any reason to refuse is found while nothing has been changed. The second removes what is
 * done, keeps copies of damaged bytes, and seals what a crash left open, in this order, so that a
 * kill between any two steps leaves something the next start sees the same way. No step needs disk
 * space to go on: without it a segment stays open on disk and is walked again next time.
 */
#include "broker/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/ackfile.h"
#include "broker/gclog.h"
#include "broker/inspect.h"
#include "broker/quarantine.h"
#include "broker/spool_impl.h"
#include "common/clock.h"
#include "common/fsio.h"
#include "common/log.h"
#include "common/metrics.h"

struct numbers {
    uint64_t *items;
    size_t count;
};

struct recovery {
    spool_t *spool;
    struct spool_report *report;
    struct numbers logs;
    struct numbers acks;
    struct inspection *found; /* one for each of logs; kind INSPECT_SEALED ones are mostly empty */
    bool *is_unreadable;
    struct gclog removed;
    struct numbers missing;
};

/* --- the directory ---------------------------------------------------------------------------- */

static void add_number(struct numbers *self, uint64_t number)
{
    if ((self->count & (self->count - 1)) == 0) {
        size_t capacity = self->count == 0 ? 1 : self->count * 2;
        self->items = realloc(self->items, capacity * sizeof *self->items);
        if (self->items == NULL)
            abort();
    }
    self->items[self->count++] = number;
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static bool has_number(const struct numbers *self, uint64_t number)
{
    return self->count > 0 &&
           bsearch(&number, self->items, self->count, sizeof *self->items, by_value) != NULL;
}

static int list_directory(struct recovery *self, struct err *err)
{
    int fd = fsio_open_dir(self->spool->root_fd, "seg");
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fsio_close(fd);
        return err_set(err, "read %s/seg: %s", self->spool->path, strerror(errno));
    }
    unsigned strays = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        uint64_t segno;
        if (logfile_parse_name(entry->d_name, ".log", &segno))
            add_number(&self->logs, segno);
        else if (logfile_parse_name(entry->d_name, ".ack", &segno))
            add_number(&self->acks, segno);
        else if (entry->d_name[0] != '.')
            strays++;
    }
    closedir(dir);
    if (self->logs.count > 0)
        qsort(self->logs.items, self->logs.count, sizeof *self->logs.items, by_value);
    if (self->acks.count > 0)
        qsort(self->acks.items, self->acks.count, sizeof *self->acks.items, by_value);
    if (strays > 0)
        log_at(LEVEL_WARN, "spool.strays", NULL, LOG_NUM("files", strays));
    return 0;
}

static void set_next_segno(struct recovery *self)
{
    uint64_t highest = self->removed.highest;
    if (self->logs.count > 0 && self->logs.items[self->logs.count - 1] > highest)
        highest = self->logs.items[self->logs.count - 1];
    if (self->acks.count > 0 && self->acks.items[self->acks.count - 1] > highest)
        highest = self->acks.items[self->acks.count - 1];
    self->spool->next_segno = highest + 1;
}

static bool must_stop(const spool_t *spool)
{
    return spool->config.must_stop != NULL && spool->config.must_stop();
}

/* --- first pass: read ------------------------------------------------------------------------- */

struct applied {
    spool_t *spool;
    uint64_t segno;
    uint32_t nonce32;
    uint32_t finals;
};

static void apply_entry(void *arg, const struct ack_entry *entry)
{
    struct applied *self = arg;
    struct table *table = &self->spool->table;
    if (ack_is_final(entry->kind)) {
        if (table_settle(table, self->segno, self->nonce32, entry->ordinal))
            self->finals++;
        return;
    }
    struct record_history history = {0};
    table_recall(table, self->segno, entry->ordinal, &history);
    if (entry->kind == ACK_EXPIRY) {
        history.expiries = (uint8_t)(entry->value < 255 ? entry->value : 255);
    } else if (entry->kind == ACK_SUSPECT) {
        history.is_suspect = entry->value != 0;
        history.first_fail_s = entry->value;
        history.rounds = entry->rounds;
    } else {
        return;
    }
    table_remember(table, self->segno, entry->ordinal, &history);
}

static uint64_t ack_file_bytes(spool_t *spool, uint64_t segno)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, ".ack", name);
    uint64_t bytes = 0;
    int fd = fsio_open(spool->seg_fd, name, O_RDONLY);
    if (fd != -1 && fsio_size(fd, &bytes, NULL) == -1)
        bytes = 0;
    fsio_close(fd);
    return bytes;
}

static void add_to_table(struct recovery *self, const struct inspection *found)
{
    spool_t *spool = self->spool;
    uint64_t segno = found->header.segno;
    struct segment segment = {
        .header = found->header,
        .end = found->end,
        .records = found->records,
        .unwritten = found->records,
        .last_batch = found->last_batch,
        .oldest_ns = found->oldest_ns,
        .log_bytes = found->file_bytes,
        .fd = -1,
        .is_sealed = true,
    };
    table_add(&spool->table, &segment);
    struct applied applied = {
        .spool = spool, .segno = segno, .nonce32 = segment_nonce32(found->header.nonce)};
    if (has_number(&self->acks, segno)) {
        int64_t ignored = ackfile_load(spool->seg_fd, &found->header, apply_entry, &applied);
        if (ignored != 0)
            log_at(LEVEL_WARN, "spool.acks_ignored", NULL, LOG_NUM("segment", segno),
                   LOG_NUM("bytes", ignored));
        table_acked(&spool->table, segno, applied.finals, ack_file_bytes(spool, segno));
    }
}

static struct vouch vouch_for(struct recovery *self, size_t i)
{
    struct segment_header next;
    if (i + 1 >= self->logs.count ||
        inspect_header(self->spool->seg_fd, self->logs.items[i + 1], &next) != SEGMENT_VALID ||
        next.previous_segno != self->logs.items[i])
        return (struct vouch){0};
    return (struct vouch){.end = next.previous_end, .records = next.previous_records};
}

/* Lost ordinals that an earlier start has not acknowledged as lost already. */
static uint32_t count_new_losses(struct recovery *self, const struct bad_range *bad, uint64_t segno)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < bad->lost; i++)
        n += !table_is_settled(&self->spool->table, segno, bad->ordinal + i);
    return n;
}

static void sum_up(struct recovery *self, const struct inspection *found)
{
    for (size_t i = 0; i < found->bad_count; i++) {
        const struct bad_range *bad = &found->bad[i];
        if (bad->is_corrupt)
            self->report->corrupt_records += count_new_losses(self, bad, found->header.segno);
        else if (!bad->is_void)
            self->report->torn_bytes += bad->len;
    }
    self->report->corrupt_headers += found->is_header_damaged || found->kind == INSPECT_RUBBISH;
    self->report->scanned_bytes += found->bytes_read;
}

static int inspect_one(struct recovery *self, size_t i, struct err *err)
{
    spool_t *spool = self->spool;
    struct inspection *found = &self->found[i];
    struct vouch vouch = vouch_for(self, i);
    if (inspect_file(found, spool->seg_fd, self->logs.items[i], &vouch, spool->config.must_stop,
                     err) == -1) {
        if (must_stop(spool))
            return -1;
        log_at(LEVEL_ERROR, "spool.unreadable", NULL, LOG_NUM("segment", self->logs.items[i]),
               LOG_TEXT("error", err->text));
        self->is_unreadable[i] = true;
        self->report->corrupt_headers++;
        return 0;
    }
    if (found->kind == INSPECT_UNKNOWN)
        return err_set(err, "%s/seg/%020" PRIu64 ".log is of a format this version does not know",
                       spool->path, self->logs.items[i]);
    if (found->kind == INSPECT_SEALED || found->kind == INSPECT_OPEN)
        add_to_table(self, found);
    sum_up(self, found);
    uint64_t previous = found->header.previous_segno;
    if (previous != 0 && !has_number(&self->logs, previous) &&
        !gclog_has(&self->removed, previous)) {
        self->report->missing_segments++;
        add_number(&self->missing, previous);
        log_at(LEVEL_ERROR, "spool.missing", NULL, LOG_NUM("segment", previous));
    }
    return 0;
}

static int read_all(struct recovery *self, struct err *err)
{
    for (size_t i = 0; i < self->logs.count; i++) {
        if (must_stop(self->spool))
            return err_set(err, "told to stop");
        if (inspect_one(self, i, err) == -1)
            return -1;
    }
    const struct spool_report *report = self->report;
    if (self->spool->config.refuse_on_corruption &&
        (report->corrupt_records > 0 || report->corrupt_headers > 0))
        return err_set(err, "%" PRIu64 " damaged records and %" PRIu64 " damaged headers in %s/seg",
                       report->corrupt_records, report->corrupt_headers, self->spool->path);
    return 0;
}

/* --- second pass: mend ------------------------------------------------------------------------ */

static void remove_file(spool_t *spool, uint64_t segno, const char *suffix)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, suffix, name);
    if (fsio_unlink(spool->seg_fd, name) == -1 && errno != ENOENT)
        log_at(LEVEL_WARN, "spool.unlink_failed", NULL, LOG_TEXT("file", name),
               LOG_TEXT("error", strerror(errno)));
}

static void remove_segment(spool_t *spool, uint64_t segno, const char *why)
{
    (void)gclog_add(spool, segno, why);
    remove_file(spool, segno, ".log");
    remove_file(spool, segno, ".ack");
    table_remove(&spool->table, segno);
}

/* The lost ordinals that lie before the end of what the file has given out get an ack, so that no
 * later start counts them again. */
static int settle_losses(spool_t *spool, const struct inspection *found, struct err *err)
{
    const struct segment_header *header = &found->header;
    uint32_t nonce32 = segment_nonce32(header->nonce);
    struct ackfile acks;
    ackfile_init(&acks, header);
    uint32_t n = 0;
    int result = 0;
    for (size_t i = 0; i < found->bad_count && result == 0; i++) {
        const struct bad_range *bad = &found->bad[i];
        for (uint32_t k = 0; k < bad->lost && result == 0; k++) {
            struct ack_entry entry = {.ordinal = bad->ordinal + k,
                                      .kind = ACK_LOST,
                                      .value = bad->is_corrupt ? LOST_CORRUPT : LOST_TORN};
            if (!table_settle(&spool->table, header->segno, nonce32, entry.ordinal))
                continue;
            n++;
            if (!ackfile_add(&acks, &entry)) {
                result = ackfile_write(&acks, spool->seg_fd);
                result = result == 0 && ackfile_add(&acks, &entry) ? 0 : -1;
            }
        }
    }
    if (result == 0 && ackfile_write(&acks, spool->seg_fd) == 0)
        result = ackfile_sync(&acks);
    else
        result = -1;
    if (result == -1)
        err_set(err, "acks of %020" PRIu64 ": %s", header->segno, strerror(errno));
    ackfile_fini(&acks);
    if (n > 0)
        table_acked(&spool->table, header->segno, n, ack_file_bytes(spool, header->segno));
    return result;
}

static int keep_copies(spool_t *spool, const struct inspection *found, int fd, struct err *err)
{
    int result = 0;
    for (size_t i = 0; i < found->bad_count; i++) {
        const struct bad_range *bad = &found->bad[i];
        bool is_new;
        if (bad->len == 0 || bad->is_void)
            continue;
        if (quarantine_copy(spool, found->header.segno, fd, bad->offset, bad->len, &is_new, err) ==
            -1)
            result = -1;
        if (bad->is_corrupt && is_new)
            log_at(LEVEL_ERROR, "spool.corrupt", NULL, LOG_NUM("segment", found->header.segno),
                   LOG_NUM("offset", bad->offset), LOG_NUM("bytes", bad->len),
                   LOG_NUM("first", bad->ordinal), LOG_NUM("records", bad->lost));
    }
    return result;
}

/* Seals behind the last good record. Whatever fails, the segment serves from what was found. */
static int seal(spool_t *spool, struct inspection *found, int fd, struct err *err)
{
    struct logfile *tally = &found->tally;
    tally->fd = fd;
    int result = logfile_seal(tally, err) == LOGFILE_OK ? 0 : -1;
    uint64_t bytes;
    if (fsio_size(fd, &bytes, NULL) == 0)
        table_set_log_bytes(&spool->table, found->header.segno, bytes);
    tally->fd = -1;
    return result;
}

static void mend_open(spool_t *spool, struct inspection *found)
{
    struct err err = {""};
    char name[LOGFILE_NAME_SIZE];
    logfile_name(found->header.segno, ".log", name);
    int fd = fsio_open(spool->seg_fd, name, O_RDWR);
    if (fd == -1)
        err_set(&err, "open %s: %s", name, strerror(errno));
    int result = fd == -1 ? -1 : keep_copies(spool, found, fd, &err);
    if (settle_losses(spool, found, &err) == -1)
        result = -1;
    if (result == 0 && found->is_header_damaged) {
        bool is_new;
        result =
            quarantine_copy(spool, found->header.segno, fd, 0, SEGMENT_HEADER_SIZE, &is_new, &err);
    }
    if (result == 0)
        result = seal(spool, found, fd, &err);
    if (result == -1)
        log_at(LEVEL_WARN, "spool.not_sealed", NULL, LOG_NUM("segment", found->header.segno),
               LOG_TEXT("error", err.text));
    fsio_close(fd);
}

static void mend(struct recovery *self, size_t i)
{
    spool_t *spool = self->spool;
    struct inspection *found = &self->found[i];
    uint64_t segno = self->logs.items[i];
    struct err err;
    struct segment_info info;
    if (self->is_unreadable[i])
        return;
    if (found->kind == INSPECT_UNUSED) {
        remove_segment(spool, segno, "unused");
        return;
    }
    if (found->kind == INSPECT_RUBBISH) {
        log_at(LEVEL_ERROR, "spool.rubbish", NULL, LOG_NUM("segment", segno));
        if (quarantine_move(spool, segno, &err) == -1)
            log_at(LEVEL_WARN, "spool.not_moved", NULL, LOG_TEXT("error", err.text));
        else
            (void)gclog_add(spool, segno, "rubbish");
        return;
    }
    if (found->kind == INSPECT_OPEN && found->bad_count > 0)
        mend_open(spool, found);
    bool is_there = table_info(&spool->table, segno, &info);
    if (is_there && info.settled == info.records)
        remove_segment(spool, segno, "done");
    else if (found->kind == INSPECT_OPEN && found->bad_count == 0)
        mend_open(spool, found);
}

static void mend_all(struct recovery *self)
{
    spool_t *spool = self->spool;
    for (size_t i = 0; i < self->logs.count; i++) {
        if (must_stop(spool))
            return;
        mend(self, i);
    }
    /* So that the next start does not report them again. */
    for (size_t i = 0; i < self->missing.count; i++)
        (void)gclog_add(spool, self->missing.items[i], "missing");
    for (size_t i = 0; i < self->acks.count; i++)
        if (!has_number(&self->logs, self->acks.items[i]))
            remove_file(spool, self->acks.items[i], ".ack");
}

static void free_all(struct recovery *self)
{
    for (size_t i = 0; i < self->logs.count && self->found != NULL; i++)
        inspect_fini(&self->found[i]);
    free(self->found);
    free(self->is_unreadable);
    free(self->logs.items);
    free(self->acks.items);
    free(self->missing.items);
    gclog_fini(&self->removed);
}

int recover_run(spool_t *spool, struct spool_report *report, struct err *err)
{
    uint64_t started_ms = clock_mono_ms();
    struct recovery self = {.spool = spool, .report = report};
    int result = list_directory(&self, err);
    if (result == -1)
        goto out;
    gclog_load(spool, &self.removed);
    set_next_segno(&self);
    self.found = calloc(self.logs.count + 1, sizeof *self.found);
    self.is_unreadable = calloc(self.logs.count + 1, sizeof *self.is_unreadable);
    if (self.found == NULL || self.is_unreadable == NULL)
        abort();
    result = read_all(&self, err);
    if (result == -1)
        goto out;
    mend_all(&self);
    if (must_stop(spool)) {
        result = err_set(err, "told to stop");
        goto out;
    }
    spool_count_others(spool);
    struct spool_usage usage;
    table_usage(&spool->table, &usage);
    report->segments = usage.segments;
    report->waiting = usage.waiting;
    report->took_ms = clock_mono_ms() - started_ms;
    metrics_add(METRIC_spool_torn_bytes, report->torn_bytes);
    metrics_add(METRIC_spool_corrupt_records, report->corrupt_records);
out:
    free_all(&self);
    return result;
}
