// SPDX-License-Identifier: MIT
/*
 * Each segment with something to write has an ackfile here, kept a little longer than its last
 * entry. That a segment is done is known from the table, not from its file: so one is removed even
 * when the disk has no room for its acks.
 */
#include "broker/acks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "broker/ackfile.h"
#include "broker/gclog.h"
#include "broker/logfile.h"
#include "broker/quarantine.h"
#include "broker/spool_impl.h"
#include "common/fsio.h"
#include "common/log.h"
#include "common/metrics.h"

enum {
    WRITE_AFTER_MS = 20,
    SYNC_AFTER_MS = 200,
    RETRY_AFTER_MS = 1000,
    CLOSE_AFTER_MS = 5000,
    REMOVE_AT_ONCE = 16,
    REMOVE_RETRY_MS = 5000,
};

struct open_acks {
    struct ackfile file;
    uint32_t finals;     /* pending entries that settle a record */
    uint64_t pending_at; /* when the oldest pending entry came; 0: none */
    uint64_t dirty_at;   /* when the oldest unsynced write was; 0: none */
    uint64_t retry_at;   /* not before, after an error; 0: at once */
    uint64_t used_at;
};

struct acks {
    spool_t *spool;
    struct open_acks **items; /* by segno */
    size_t count;
    size_t capacity;
    bool has_failed;    /* logged; until a write works again */
    uint64_t remove_at; /* an unlink failed: not before; 0: at once */
};

acks_t *acks_new(spool_t *spool)
{
    acks_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->spool = spool;
    return self;
}

static size_t lower_bound(const acks_t *self, uint64_t segno)
{
    size_t low = 0, high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->items[middle]->file.segment.segno < segno)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void close_at(acks_t *self, size_t i)
{
    ackfile_fini(&self->items[i]->file);
    free(self->items[i]);
    self->count--;
    memmove(self->items + i, self->items + i + 1, (self->count - i) * sizeof(struct open_acks *));
}

static struct open_acks *insert_at(acks_t *self, size_t i, const struct segment_header *header)
{
    if (self->count == self->capacity) {
        self->capacity = self->capacity == 0 ? 16 : self->capacity * 2;
        self->items = realloc(self->items, self->capacity * sizeof(struct open_acks *));
        if (self->items == NULL)
            abort();
    }
    struct open_acks *open = calloc(1, sizeof *open);
    if (open == NULL)
        abort();
    ackfile_init(&open->file, header);
    memmove(self->items + i + 1, self->items + i, (self->count - i) * sizeof(struct open_acks *));
    self->items[i] = open;
    self->count++;
    return open;
}

/* Null when the segment is gone or not the one the id is of. */
static struct open_acks *of_segment(acks_t *self, const struct record_id *id)
{
    size_t i = lower_bound(self, id->segno);
    if (i < self->count && self->items[i]->file.segment.segno == id->segno)
        return self->items[i];
    struct segment_header header;
    if (!table_header(&self->spool->table, id->segno, &header) ||
        segment_nonce32(header.nonce) != id->nonce32)
        return NULL;
    return insert_at(self, i, &header);
}

void acks_add(acks_t *self, const struct record_id *id, enum ack_kind kind, uint8_t rounds,
              uint32_t value, uint64_t now_ms)
{
    struct open_acks *open = of_segment(self, id);
    struct ack_entry entry = {
        .ordinal = id->ordinal, .kind = (uint8_t)kind, .rounds = rounds, .value = value};
    /* A full buffer means that the disk takes nothing: this record will be delivered once more. */
    if (open == NULL || !ackfile_add(&open->file, &entry))
        return;
    open->finals += ack_is_final(entry.kind);
    open->used_at = now_ms;
    if (open->pending_at == 0)
        open->pending_at = now_ms == 0 ? 1 : now_ms;
}

/* --- lost records ----------------------------------------------------------------------------- */

static void keep_bytes(acks_t *self, const struct record_ref *ref)
{
    struct segment *segment = table_hold(&self->spool->table, ref->id.segno);
    uint64_t len = ref->lost > 0 ? ref->body_len
                                 : record_disk_len(ref->extra_len, ref->meta_len, ref->body_len);
    struct err err;
    bool is_new;
    if (segment != NULL && len > 0 &&
        quarantine_copy(self->spool, ref->id.segno, segment->fd, ref->offset, len, &is_new, &err) ==
            -1)
        log_at(LEVEL_WARN, "spool.no_copy", NULL, LOG_TEXT("error", err.text));
    table_drop(&self->spool->table, &segment);
}

void acks_lose(acks_t *self, const struct record_ref *ref, uint64_t now_ms)
{
    keep_bytes(self, ref);
    uint32_t n = ref->lost > 0 ? ref->lost : 1;
    uint32_t lost = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct record_id id = ref->id;
        id.ordinal += i;
        if (!table_settle(&self->spool->table, id.segno, id.nonce32, id.ordinal))
            continue;
        acks_add(self, &id, ACK_LOST, 0, LOST_CORRUPT, now_ms);
        lost++;
    }
    if (lost == 0)
        return;
    metrics_add(METRIC_spool_corrupt_records, lost);
    log_at(LEVEL_ERROR, "spool.corrupt", NULL, LOG_NUM("segment", ref->id.segno),
           LOG_NUM("offset", ref->offset), LOG_NUM("first", ref->id.ordinal),
           LOG_NUM("records", lost));
}

/* --- writing ---------------------------------------------------------------------------------- */

static void on_error(acks_t *self, struct open_acks *open, const char *what, uint64_t now_ms)
{
    open->retry_at = now_ms + RETRY_AFTER_MS;
    if (self->has_failed)
        return;
    self->has_failed = true;
    log_at(LEVEL_WARN, "spool.ack_failed", NULL, LOG_TEXT("what", what),
           LOG_NUM("segment", open->file.segment.segno), LOG_TEXT("error", strerror(errno)));
}

static int write_pending(acks_t *self, struct open_acks *open, uint64_t now_ms)
{
    if (open->pending_at == 0)
        return 0;
    if (ackfile_write(&open->file, self->spool->seg_fd) == -1) {
        on_error(self, open, "write", now_ms);
        if (open->file.is_failed)
            open->pending_at = 0;
        return -1;
    }
    self->has_failed = false;
    uint64_t bytes = 0;
    if (open->file.fd != -1 && fsio_size(open->file.fd, &bytes, NULL) == 0)
        table_acked(&self->spool->table, open->file.segment.segno, open->finals, bytes);
    open->finals = 0;
    open->pending_at = 0;
    open->retry_at = 0;
    if (open->dirty_at == 0)
        open->dirty_at = now_ms == 0 ? 1 : now_ms;
    return 0;
}

static int sync_written(acks_t *self, struct open_acks *open, uint64_t now_ms)
{
    if (open->dirty_at == 0)
        return 0;
    open->dirty_at = 0;
    if (ackfile_sync(&open->file) == 0)
        return 0;
    metrics_add(METRIC_spool_write_errors, 1);
    on_error(self, open, "sync", now_ms);
    return -1;
}

int acks_flush(acks_t *self, uint64_t now_ms)
{
    int result = 0;
    for (size_t i = 0; i < self->count; i++)
        if (write_pending(self, self->items[i], now_ms) == -1 ||
            sync_written(self, self->items[i], now_ms) == -1)
            result = -1;
    return result;
}

void acks_destroy(acks_t **self_p)
{
    acks_t *self = *self_p;
    if (self == NULL)
        return;
    (void)acks_flush(self, 0);
    while (self->count > 0)
        close_at(self, self->count - 1);
    free(self->items);
    free(self);
    *self_p = NULL;
}

/* --- removal ---------------------------------------------------------------------------------- */

static int unlink_part(acks_t *self, uint64_t segno, const char *suffix)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, suffix, name);
    if (fsio_unlink(self->spool->seg_fd, name) == 0 || errno == ENOENT)
        return 0;
    log_at(LEVEL_WARN, "spool.unlink_failed", NULL, LOG_TEXT("file", name),
           LOG_TEXT("error", strerror(errno)));
    return -1;
}

/* The records go first: acks without records are harmless, records without acks come twice. */
static int remove_segment(acks_t *self, uint64_t segno)
{
    bool is_noted = gclog_add(self->spool, segno, "done") == 0;
    if (unlink_part(self, segno, ".log") == -1)
        return -1;
    size_t i = lower_bound(self, segno);
    if (i < self->count && self->items[i]->file.segment.segno == segno)
        close_at(self, i);
    (void)unlink_part(self, segno, ".ack");
    table_remove(&self->spool->table, segno);
    if (!is_noted) /* on a full disk there is room now */
        (void)gclog_add(self->spool, segno, "done");
    return 0;
}

/* A few at a time, as unlinking may take long and acks must go out. True: there are more. */
static bool remove_finished(acks_t *self, uint64_t now_ms)
{
    uint64_t segnos[REMOVE_AT_ONCE];
    if (now_ms < self->remove_at)
        return false;
    size_t n = table_finished(&self->spool->table, segnos, REMOVE_AT_ONCE);
    for (size_t i = 0; i < n; i++)
        if (remove_segment(self, segnos[i]) == -1)
            self->remove_at = now_ms + REMOVE_RETRY_MS;
    return n == REMOVE_AT_ONCE;
}

/* Milliseconds until something is due for one file; what is due is done. */
static uint64_t serve(acks_t *self, struct open_acks *open, uint64_t now_ms)
{
    if (open->pending_at != 0 && now_ms >= open->pending_at + WRITE_AFTER_MS &&
        now_ms >= open->retry_at)
        (void)write_pending(self, open, now_ms);
    if (open->dirty_at != 0 && now_ms >= open->dirty_at + SYNC_AFTER_MS)
        (void)sync_written(self, open, now_ms);
    uint64_t at = UINT64_MAX;
    if (open->pending_at != 0)
        at = open->pending_at + WRITE_AFTER_MS > open->retry_at ? open->pending_at + WRITE_AFTER_MS
                                                                : open->retry_at;
    if (open->dirty_at != 0 && open->dirty_at + SYNC_AFTER_MS < at)
        at = open->dirty_at + SYNC_AFTER_MS;
    return at == UINT64_MAX ? at : at > now_ms ? at - now_ms : 1;
}

uint64_t acks_tick(acks_t *self, uint64_t now_ms)
{
    uint64_t due = remove_finished(self, now_ms) ? 1 : UINT64_MAX;
    for (size_t i = self->count; i > 0; i--) {
        struct open_acks *open = self->items[i - 1];
        uint64_t in_ms = serve(self, open, now_ms);
        if (in_ms < due)
            due = in_ms;
        if (in_ms == UINT64_MAX && now_ms >= open->used_at + CLOSE_AFTER_MS &&
            !open->file.is_failed)
            close_at(self, i - 1);
    }
    return due;
}
