// SPDX-License-Identifier: MIT
/*
 * One segment is active at most. The states after an error:
 *
 *     SOUND    -- a write or sync fails -->  TRIAL: that file is given up, sealed in memory at its
 *                                            last good batch; the next batch begins a new segment
 *                                            and proves it with a synced mark
 *     TRIAL    -- the new segment works -->  SOUND
 *     any      -- a second failure within a minute, or the trial fails -->  BROKEN: refuses until
 *                                            the process is ended, which it asks for after 30 s
 *     any      -- no file can be made    -->  BLOCKED: nothing was written, so nothing is doubtful;
 *                                            tried again each second, asks for the end after 30 s
 *
 * A file that could not get space (LOGFILE_NO_SPACE) is none of these: it is as good as before, and
 * requests are refused as full until space is tried again.
 */
#include "broker/appender.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "broker/logfile.h"
#include "broker/spool_impl.h"
#include "common/clock.h"
#include "common/fsio.h"
#include "common/log.h"
#include "common/metrics.h"

enum {
    BATCH_BYTES_MAX = 4 << 20,
    MARK_AFTER_MS = 100,
    SEAL_IDLE_AFTER_MS = 10 * 1000,
    ERRORS_TOO_CLOSE_MS = 60 * 1000,
    FAIL_AFTER_MS = 30 * 1000,
    TRY_FILE_EVERY_MS = 1000,
    TRY_SPACE_EVERY_MS = 5000,
    /* What a segment needs besides its records: header, mark, seal and the seal's table. */
    FRAME_BYTES = 1024,
    SEAL_PART = 16 * 1024,
};

enum state { SOUND, TRIAL, BLOCKED, BROKEN };

struct appender {
    spool_t *spool;
    bool has_active;
    struct logfile active;
    enum state state;
    uint64_t last_error_ms;     /* 0: none */
    uint64_t refusing_since_ms; /* BLOCKED, BROKEN */
    uint64_t try_at_ms;         /* BLOCKED: the next try */
    uint64_t space_at_ms;       /* out of space: until then requests are refused as full; 0: not */
    uint64_t write_errors;
    uint64_t last_batch_ms; /* 0: a mark is not due */
    uint64_t idle_since_ms;
    /* Set aside by admissions since the last append. */
    uint64_t pending_bytes;
    uint64_t pending_records;
    uint64_t used_bytes; /* as the first of them found it */
    struct logfile_item *items;
    uint64_t *offsets;
};

appender_t *appender_new(spool_t *spool)
{
    appender_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->spool = spool;
    self->items = calloc(APPEND_MAX, sizeof *self->items);
    self->offsets = calloc(APPEND_MAX, sizeof *self->offsets);
    if (self->items == NULL || self->offsets == NULL)
        abort();
    return self;
}

uint64_t appender_batch_bytes(const appender_t *self)
{
    uint64_t part = self->spool->segment_bytes / 4;
    return part < BATCH_BYTES_MAX ? part : BATCH_BYTES_MAX;
}

/* --- failures --------------------------------------------------------------------------------- */

/* The active file is not written again; what it proved goes on being read. */
static void give_up_active(appender_t *self)
{
    if (!self->has_active)
        return;
    uint64_t segno = self->active.header.segno;
    uint64_t bytes;
    if (fsio_size(self->active.fd, &bytes, NULL) == 0)
        table_set_log_bytes(&self->spool->table, segno, bytes);
    table_seal(&self->spool->table, segno, true);
    logfile_fini(&self->active, true);
    self->has_active = false;
    self->last_batch_ms = 0;
}

static void on_failure(appender_t *self, const struct err *err, uint64_t now_ms)
{
    bool is_second =
        self->state == TRIAL || self->state == BROKEN ||
        (self->last_error_ms != 0 && now_ms - self->last_error_ms < ERRORS_TOO_CLOSE_MS);
    log_at(LEVEL_ERROR, "spool.write_failed", NULL, LOG_TEXT("error", err->text),
           LOG_TEXT("then", is_second ? "refusing" : "a new segment"));
    metrics_add(METRIC_spool_write_errors, 1);
    self->write_errors++;
    self->last_error_ms = now_ms == 0 ? 1 : now_ms;
    give_up_active(self);
    if (is_second && self->state != BROKEN)
        self->refusing_since_ms = now_ms;
    self->state = is_second ? BROKEN : TRIAL;
}

static void on_not_made(appender_t *self, const struct err *err, uint64_t now_ms)
{
    if (self->state != BLOCKED) {
        log_at(LEVEL_ERROR, "spool.no_segment", NULL, LOG_TEXT("error", err->text));
        metrics_add(METRIC_spool_write_errors, 1);
        self->write_errors++;
        self->refusing_since_ms = now_ms;
    }
    self->state = BLOCKED;
    self->try_at_ms = now_ms + TRY_FILE_EVERY_MS;
}

static void on_no_space(appender_t *self, const struct err *err, uint64_t now_ms)
{
    if (self->space_at_ms == 0)
        log_at(LEVEL_WARN, "spool.no_space", NULL, LOG_TEXT("error", err->text));
    self->space_at_ms = now_ms + TRY_SPACE_EVERY_MS;
    atomic_store(&self->spool->is_out_of_space, true);
}

/* Takes note of what a call on the active file (or on a new one) came to. */
static enum append_result judge(appender_t *self, enum logfile_result result, const struct err *err,
                                uint64_t now_ms)
{
    switch (result) {
    case LOGFILE_OK:
        return APPEND_OK;
    case LOGFILE_NO_SPACE:
        on_no_space(self, err, now_ms);
        return APPEND_FULL;
    case LOGFILE_NOT_MADE:
        on_not_made(self, err, now_ms);
        return APPEND_FAILED;
    case LOGFILE_FAILED:
        break;
    }
    on_failure(self, err, now_ms);
    return APPEND_FAILED;
}

void appender_health(const appender_t *self, uint64_t now_ms, struct appender_health *out)
{
    bool is_refusing = self->state == BLOCKED || self->state == BROKEN;
    *out = (struct appender_health){
        .write_errors = self->write_errors,
        .is_refusing = is_refusing,
        .must_fail = is_refusing && now_ms >= self->refusing_since_ms + FAIL_AFTER_MS,
    };
}

/* --- segments --------------------------------------------------------------------------------- */

static void tell_size(appender_t *self)
{
    uint64_t bytes;
    if (fsio_size(self->active.fd, &bytes, NULL) == 0)
        table_set_log_bytes(&self->spool->table, self->active.header.segno, bytes);
}

/* A new active segment that can take a batch of that length. */
static enum logfile_result begin_segment(appender_t *self, uint64_t batch_bytes, struct err *err)
{
    spool_t *spool = self->spool;
    uint64_t least = batch_bytes + batch_bytes / SEAL_PART + FRAME_BYTES;
    struct segment_header header = {
        .segno = spool->next_segno,
        .limit_bytes = least > spool->segment_bytes ? least : spool->segment_bytes,
    };
    table_last(&spool->table, &header);
    enum logfile_result result =
        logfile_create(&self->active, spool->seg_fd, &header, spool->step_bytes, err);
    if (result == LOGFILE_NOT_MADE)
        return result;
    spool->next_segno++; /* whatever became of the file, its number is used */
    if (result != LOGFILE_OK)
        return result;
    self->has_active = true;
    struct segment segment = {
        .header = self->active.header,
        .end = self->active.offset,
        .fd = self->active.fd,
        .is_pinned = true,
    };
    table_add(&spool->table, &segment);
    if (self->state == TRIAL || self->state == BLOCKED) {
        result = logfile_mark(&self->active, true, err);
        if (result == LOGFILE_OK) {
            self->state = SOUND;
            log_at(LEVEL_INFO, "spool.resumed", NULL, LOG_NUM("segment", header.segno));
        }
    }
    tell_size(self);
    return result;
}

static enum logfile_result seal_active(appender_t *self, struct err *err)
{
    enum logfile_result result = logfile_seal(&self->active, err);
    if (result == LOGFILE_OK) {
        tell_size(self);
        table_seal(&self->spool->table, self->active.header.segno, false);
        logfile_fini(&self->active, true);
        self->has_active = false;
        self->last_batch_ms = 0;
    }
    return result;
}

void appender_destroy(appender_t **self_p)
{
    appender_t *self = *self_p;
    if (self == NULL)
        return;
    struct err err;
    if (self->has_active && seal_active(self, &err) != LOGFILE_OK) {
        log_at(LEVEL_WARN, "spool.not_sealed", NULL, LOG_TEXT("error", err.text));
        give_up_active(self);
    }
    free(self->items);
    free(self->offsets);
    free(self);
    *self_p = NULL;
}

/* --- admission -------------------------------------------------------------------------------- */

/* What the files will grow by for `bytes` of records: nothing while they fit into what is reserved
 * already, else whole steps. */
static uint64_t growth(const appender_t *self, uint64_t bytes)
{
    uint64_t reserved = self->has_active ? self->active.allocated_end - self->active.offset : 0;
    if (bytes <= reserved)
        return 0;
    uint64_t step = self->spool->step_bytes;
    return (bytes - reserved + step - 1) / step * step;
}

static bool has_room(appender_t *self, uint64_t disk_len, uint64_t limit)
{
    /* Once a batch: the table's mutex is shared. A refusal leaves nothing pending, so that the next
     * request looks again. */
    if (self->pending_records == 0) {
        struct spool_usage usage;
        table_usage(&self->spool->table, &usage);
        self->used_bytes = usage.used_bytes;
    }
    uint64_t need = growth(self, self->pending_bytes + disk_len) +
                    (self->pending_records + 1) * SEGMENT_ACK_SIZE;
    return self->used_bytes + need <= limit;
}

static enum admission admit(appender_t *self, size_t meta_len, size_t body_len, bool is_move)
{
    spool_t *spool = self->spool;
    if (meta_len > SEGMENT_META_MAX || body_len > spool->config.max_body_bytes ||
        body_len > SEGMENT_BODY_MAX)
        return ADMIT_TOO_LARGE;
    if (self->state == BROKEN || self->state == BLOCKED)
        return ADMIT_REFUSING;
    uint64_t disk_len = record_disk_len(is_move ? SEGMENT_ORIGIN_SIZE : 0, meta_len, body_len);
    uint64_t limit = is_move ? spool->config.max_bytes : spool->limit_bytes;
    bool is_full = atomic_load(&spool->is_full);
    if (!is_move && is_full) {
        is_full = !has_room(self, disk_len, spool_leave_full_at(spool));
    }
    bool is_out_of_space = self->space_at_ms != 0 || (!is_move && atomic_load(&spool->is_low_disk));
    is_full = is_out_of_space || is_full || !has_room(self, disk_len, limit);
    if (!is_move)
        atomic_store(&spool->is_full, is_full);
    if (is_full)
        return ADMIT_FULL;
    self->pending_bytes += disk_len;
    self->pending_records++;
    return ADMIT_OK;
}

enum admission appender_admit(appender_t *self, size_t meta_len, size_t body_len)
{
    return admit(self, meta_len, body_len, false);
}

enum admission appender_admit_move(appender_t *self, size_t meta_len, size_t body_len)
{
    return admit(self, meta_len, body_len, true);
}

static void forget_admissions(appender_t *self)
{
    self->pending_bytes = 0;
    self->pending_records = 0;
}

/* --- appending -------------------------------------------------------------------------------- */

static uint64_t to_items(appender_t *self, const struct append_item *items, size_t n)
{
    uint64_t len = 0;
    for (size_t i = 0; i < n; i++) {
        self->items[i] = (struct logfile_item){
            .type = RECORD_DATA,
            .origin = items[i].origin,
            .meta = items[i].meta,
            .body = items[i].body,
            .enqueued_ns = items[i].arrival_ns,
        };
        len += record_disk_len(items[i].origin != NULL ? SEGMENT_ORIGIN_SIZE : 0, items[i].meta.len,
                               items[i].body.len);
    }
    return len;
}

/* An active segment with room for the batch. */
static enum logfile_result make_ready(appender_t *self, uint64_t len, struct err *err)
{
    if (self->has_active) {
        struct logfile *active = &self->active;
        uint64_t full = active->offset + len + logfile_seal_bytes(active) + SEGMENT_RECORD_SIZE;
        if (active->ordinal == 0 || full <= active->header.limit_bytes)
            return LOGFILE_OK;
        enum logfile_result result = seal_active(self, err);
        if (result != LOGFILE_OK)
            return result;
    }
    return begin_segment(self, len, err);
}

static enum logfile_result write_batch(appender_t *self, size_t n, struct err *err)
{
    uint64_t began_us = clock_mono_us();
    enum logfile_result result = logfile_append(&self->active, self->items, n, self->offsets, err);
    if (result == LOGFILE_OK)
        result = logfile_commit(&self->active, err);
    metrics_observe_us(METRIC_spool_commit_seconds, clock_mono_us() - began_us);
    metrics_observe_size(METRIC_spool_batch_requests, n);
    return result;
}

static void fill_refs(appender_t *self, const struct append_item *items, size_t n,
                      struct record_ref *refs)
{
    uint32_t first = self->active.ordinal - (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const struct record_origin *origin = items[i].origin;
        refs[i] = (struct record_ref){
            .id = {self->active.header.segno, first + (uint32_t)i, self->active.nonce32},
            .offset = self->offsets[i],
            .arrival_ns = origin != NULL ? origin->arrival_ns : items[i].arrival_ns,
            .meta_len = (uint32_t)items[i].meta.len,
            .body_len = (uint32_t)items[i].body.len,
        };
        if (origin != NULL) {
            refs[i].extra_len = SEGMENT_ORIGIN_SIZE;
            refs[i].history = origin->history;
            refs[i].moves = origin->moves;
        }
    }
}

static void publish(appender_t *self, const struct record_ref *refs, size_t n,
                    uint64_t allocated_before)
{
    uint64_t oldest_ns = refs[0].arrival_ns;
    for (size_t i = 1; i < n; i++)
        if (refs[i].arrival_ns < oldest_ns)
            oldest_ns = refs[i].arrival_ns;
    const struct logfile *active = &self->active;
    table_publish(&self->spool->table, active->header.segno, (uint32_t)n, active->proven_end,
                  active->proven_batch, oldest_ns);
    if (active->allocated_end != allocated_before)
        tell_size(self);
}

enum append_result appender_append(appender_t *self, const struct append_item *items, size_t n,
                                   struct record_ref *refs, uint64_t now_ms, struct err *err)
{
    assert(n > 0 && n <= APPEND_MAX);
    forget_admissions(self);
    if (self->state == BROKEN || self->state == BLOCKED) {
        err_set(err, "refusing after a write error");
        return APPEND_FAILED;
    }
    enum logfile_result result = make_ready(self, to_items(self, items, n), err);
    uint64_t allocated_before = self->active.allocated_end;
    if (result == LOGFILE_OK)
        result = write_batch(self, n, err);
    if (result != LOGFILE_OK)
        return judge(self, result, err, now_ms);
    self->state = SOUND;
    atomic_store(&self->spool->is_out_of_space, false);
    self->last_batch_ms = now_ms == 0 ? 1 : now_ms;
    self->idle_since_ms = now_ms;
    fill_refs(self, items, n, refs);
    publish(self, refs, n, allocated_before);
    return APPEND_OK;
}

/* --- between batches -------------------------------------------------------------------------- */

static void mark_if_idle(appender_t *self, uint64_t now_ms)
{
    if (!self->has_active || self->last_batch_ms == 0 ||
        now_ms < self->last_batch_ms + MARK_AFTER_MS)
        return;
    struct err err;
    self->last_batch_ms = 0;
    (void)judge(self, logfile_mark(&self->active, false, &err), &err, now_ms);
}

static void seal_if_settled(appender_t *self, uint64_t now_ms)
{
    struct segment_info info;
    struct err err;
    if (!self->has_active || now_ms < self->idle_since_ms + SEAL_IDLE_AFTER_MS)
        return;
    self->idle_since_ms = now_ms; /* look again after as long */
    if (!table_info(&self->spool->table, self->active.header.segno, &info) ||
        info.settled < info.records)
        return;
    (void)judge(self, seal_active(self, &err), &err, now_ms);
}

/* Is space to be had by now? Found out here, not by the next request: who sends while /readyz says
 * no? */
static void try_space(appender_t *self, uint64_t now_ms)
{
    struct err err;
    enum logfile_result result = LOGFILE_OK;
    if (self->has_active)
        result = logfile_reserve_step(&self->active, &err);
    else if (self->state != BROKEN)
        result = begin_segment(self, 0, &err);
    if (self->has_active && result == LOGFILE_OK)
        tell_size(self);
    self->space_at_ms = 0;
    atomic_store(&self->spool->is_out_of_space, false);
    if (result != LOGFILE_OK)
        (void)judge(self, result, &err, now_ms);
}

/* After a failure that left nothing doubtful: is a file to be had by now? */
static void try_again(appender_t *self, uint64_t now_ms)
{
    struct err err;
    if (self->state == BLOCKED && now_ms >= self->try_at_ms) {
        self->try_at_ms = now_ms + TRY_FILE_EVERY_MS;
        (void)judge(self, begin_segment(self, 0, &err), &err, now_ms);
    }
    if (self->space_at_ms != 0 && now_ms >= self->space_at_ms)
        try_space(self, now_ms);
}

static void earlier(uint64_t *due, uint64_t at_ms, uint64_t now_ms)
{
    uint64_t in_ms = at_ms > now_ms ? at_ms - now_ms : 1;
    if (in_ms < *due)
        *due = in_ms;
}

uint64_t appender_tick(appender_t *self, uint64_t now_ms)
{
    mark_if_idle(self, now_ms);
    seal_if_settled(self, now_ms);
    try_again(self, now_ms);
    uint64_t due = UINT64_MAX;
    if (self->has_active && self->last_batch_ms != 0)
        earlier(&due, self->last_batch_ms + MARK_AFTER_MS, now_ms);
    if (self->has_active)
        earlier(&due, self->idle_since_ms + SEAL_IDLE_AFTER_MS, now_ms);
    if (self->state == BLOCKED)
        earlier(&due, self->try_at_ms, now_ms);
    if (self->space_at_ms != 0)
        earlier(&due, self->space_at_ms, now_ms);
    return due;
}
