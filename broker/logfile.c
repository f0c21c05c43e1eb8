// SPDX-License-Identifier: MIT
/*
 * A batch is one vector: small pieces are copied together into `staging` behind their headers,
 * large bodies are referred to where they lie. Space is reserved in steps before the batch that
 * needs it, so that running out of it is found out while nothing is written yet.
 */
#include "broker/logfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/crc32c.h"
#include "common/fsio.h"

enum {
    COPY_BELOW = 8 * 1024,    /* pieces up to this go into staging */
    STAGING_MAX = 64 << 20,   /* more than 1024 items can ask for */
    STAGING_KEPT = 1 << 20,   /* memory kept between batches */
    PLACE_EVERY = 256 * 1024, /* one entry of the seal's table */
    NAME_DIGITS = 20,
};

void logfile_name(uint64_t segno, const char *suffix, char out[LOGFILE_NAME_SIZE])
{
    snprintf(out, LOGFILE_NAME_SIZE, "%0*" PRIu64 "%s", NAME_DIGITS, segno, suffix);
}

bool logfile_parse_name(const char *name, const char *suffix, uint64_t *segno)
{
    if (strspn(name, "0123456789") != NAME_DIGITS || strcmp(name + NAME_DIGITS, suffix) != 0)
        return false;
    errno = 0;
    *segno = strtoull(name, NULL, 10);
    return errno == 0 && *segno > 0;
}

static bool is_no_space(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

static enum logfile_result fail(struct logfile *self, const char *what, struct err *err)
{
    self->is_failed = true;
    err_set(err, "%s of %020" PRIu64 ".log: %s", what, self->header.segno, strerror(errno));
    return LOGFILE_FAILED;
}

static enum logfile_result reserve_more(struct logfile *self, uint64_t len, struct err *err)
{
    if (fsio_allocate(self->fd, self->allocated_end, len) == -1) {
        if (!is_no_space(errno))
            return fail(self, "reserving space", err);
        err_set(err, "no space for %" PRIu64 " bytes: %s", len, strerror(errno));
        return LOGFILE_NO_SPACE;
    }
    self->allocated_end += len;
    return LOGFILE_OK;
}

/* Reserves space up to `end`, rounded up to steps. */
static enum logfile_result reserve(struct logfile *self, uint64_t end, struct err *err)
{
    if (self->step_bytes == 0 || end <= self->allocated_end)
        return LOGFILE_OK;
    uint64_t missing = end - self->allocated_end;
    uint64_t steps = (missing + self->step_bytes - 1) / self->step_bytes;
    return reserve_more(self, steps * self->step_bytes, err);
}

enum logfile_result logfile_reserve_step(struct logfile *self, struct err *err)
{
    return reserve_more(self, self->step_bytes, err);
}

static void init(struct logfile *self, int fd, const struct segment_header *header)
{
    *self = (struct logfile){.fd = fd, .header = *header, .batch = 1};
    self->nonce32 = segment_nonce32(header->nonce);
    self->offset = SEGMENT_HEADER_SIZE;
    self->proven_end = SEGMENT_HEADER_SIZE;
    buf_init(&self->staging, STAGING_MAX);
}

static enum logfile_result write_header(struct logfile *self, int dir_fd, struct err *err)
{
    enum logfile_result result = reserve(self, SEGMENT_HEADER_SIZE, err);
    if (result != LOGFILE_OK)
        return result;
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    segment_header_encode(&self->header, bytes);
    if (fsio_pwrite(self->fd, bytes, sizeof bytes, 0) == -1)
        return fail(self, "write", err);
    if (fsio_sync(self->fd) == -1)
        return fail(self, "sync", err);
    if (fsio_sync(dir_fd) == -1)
        return fail(self, "sync of the directory", err);
    return LOGFILE_OK;
}

enum logfile_result logfile_create(struct logfile *self, int dir_fd,
                                   const struct segment_header *header, uint64_t step_bytes,
                                   struct err *err)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(header->segno, ".log", name);
    init(self, -1, header);
    clock_random(self->header.nonce, SEGMENT_NONCE_SIZE);
    self->header.created_ns = clock_wall_ns();
    self->nonce32 = segment_nonce32(self->header.nonce);
    self->step_bytes = step_bytes;
    self->fd = fsio_open(dir_fd, name, O_RDWR | O_CREAT | O_EXCL);
    if (self->fd == -1) {
        err_set(err, "create %s: %s", name, strerror(errno));
        return is_no_space(errno) ? LOGFILE_NO_SPACE : LOGFILE_NOT_MADE;
    }
    enum logfile_result result = write_header(self, dir_fd, err);
    if (result != LOGFILE_OK) {
        /* Nothing refers to it; if this fails too, recovery finds a file without records. */
        (void)!fsio_unlink(dir_fd, name);
        logfile_fini(self, false);
    }
    return result;
}

void logfile_adopt(struct logfile *self, int fd, const struct segment_header *header)
{
    init(self, fd, header);
}

static void add_place(struct logfile *self, uint32_t ordinal, uint64_t offset)
{
    uint32_t count = self->totals.place_count;
    if (count > 0 && offset < self->places[count - 1].offset + PLACE_EVERY)
        return;
    if (count == self->place_capacity) {
        self->place_capacity = count == 0 ? 64 : count * 2;
        self->places = realloc(self->places, self->place_capacity * sizeof *self->places);
        if (self->places == NULL)
            abort();
    }
    self->places[self->totals.place_count++] = (struct segment_place){ordinal, offset};
}

static void add_to_totals(struct logfile *self, const struct record_header *record, uint64_t offset)
{
    struct segment_seal *totals = &self->totals;
    add_place(self, record->ordinal, offset);
    if (totals->records == 0 || record->enqueued_ns < totals->oldest_ns)
        totals->oldest_ns = record->enqueued_ns;
    if (record->enqueued_ns > totals->newest_ns)
        totals->newest_ns = record->enqueued_ns;
    totals->records++;
    totals->data_bytes += (uint64_t)record->meta_len + record->body_len;
    self->ordinal = record->ordinal + 1;
}

void logfile_count(struct logfile *self, const struct record_header *record, uint64_t offset)
{
    if (record->type == RECORD_DATA || record->type == RECORD_DEAD)
        add_to_totals(self, record, offset);
    self->offset = offset + record_disk_len(record->extra_len, record->meta_len, record->body_len);
    if (record->batch >= self->batch)
        self->batch = record->batch + 1;
    self->proven_end = self->offset;
    self->proven_ordinal = self->ordinal;
    self->proven_batch = self->batch - 1;
    self->batch_first = self->ordinal;
}

/* --- one batch as a vector -------------------------------------------------------------------- */

static bool is_copied(struct slice piece)
{
    return piece.len < COPY_BELOW;
}

static size_t staging_len(const struct logfile_item *items, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len += SEGMENT_RECORD_SIZE + SEGMENT_ORIGIN_SIZE + items[i].note.len + 8;
        len += is_copied(items[i].meta) ? items[i].meta.len : 0;
        len += is_copied(items[i].body) ? items[i].body.len : 0;
    }
    return len;
}

struct gather {
    struct logfile *file;
    size_t count;    /* of parts */
    bool is_staging; /* the last part is in staging and may grow */
};

static void add_part(struct gather *self, const char *data, size_t len, bool is_staging)
{
    struct iovec *last = self->count == 0 ? NULL : &self->file->parts[self->count - 1];
    if (is_staging && self->is_staging) {
        last->iov_len += len;
        return;
    }
    self->file->parts[self->count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    self->is_staging = is_staging;
}

/* staging never moves here: it was reserved whole. */
static void gather_copy(struct gather *self, const void *data, size_t len)
{
    struct buf *staging = &self->file->staging;
    char *at = staging->data + staging->len;
    if (len > 0)
        memcpy(at, data, len);
    staging->len += len;
    add_part(self, at, len, true);
}

static void gather_piece(struct gather *self, struct slice piece)
{
    if (is_copied(piece))
        gather_copy(self, piece.data, piece.len);
    else
        add_part(self, piece.data, piece.len, false);
}

static uint64_t gather_item(struct gather *self, const struct logfile_item *item, uint64_t offset)
{
    static const uint8_t padding[8];
    struct logfile *file = self->file;
    uint8_t origin[SEGMENT_ORIGIN_SIZE];
    struct slice extra = {(const char *)origin, 0};
    if (item->origin != NULL) {
        record_origin_encode(item->origin, origin);
        extra.len = sizeof origin;
    }
    struct record_header header = {
        .type = item->type,
        .flags = (uint8_t)((item->origin != NULL ? RECORD_HAS_ORIGIN : 0) |
                           (item->note.len > 0 ? RECORD_HAS_NOTE : 0)),
        .extra_len = (uint16_t)(extra.len + item->note.len),
        .ordinal = file->ordinal,
        .batch = file->batch,
        .batch_first = file->batch_first,
        .meta_len = (uint32_t)item->meta.len,
        .body_len = (uint32_t)item->body.len,
        .enqueued_ns = item->enqueued_ns,
        .nonce32 = file->nonce32,
    };
    uint32_t crc = crc32c(0, extra.data, extra.len);
    crc = crc32c(crc, item->note.data, item->note.len);
    crc = crc32c(crc, item->meta.data, item->meta.len);
    header.data_crc = crc32c(crc, item->body.data, item->body.len);
    uint8_t bytes[SEGMENT_RECORD_SIZE];
    record_header_encode(&header, bytes);
    gather_copy(self, bytes, sizeof bytes);
    gather_copy(self, extra.data, extra.len);
    gather_copy(self, item->note.data, item->note.len);
    gather_piece(self, item->meta);
    gather_piece(self, item->body);
    uint64_t disk_len = record_disk_len(header.extra_len, header.meta_len, header.body_len);
    uint64_t raw_len =
        SEGMENT_RECORD_SIZE + (uint64_t)header.extra_len + header.meta_len + header.body_len;
    gather_copy(self, padding, (size_t)(disk_len - raw_len));
    add_to_totals(file, &header, offset);
    return disk_len;
}

static void prepare(struct logfile *self, const struct logfile_item *items, size_t n)
{
    buf_reset(&self->staging);
    if (buf_reserve(&self->staging, staging_len(items, n)) == NULL)
        abort(); /* the limits of items times their number is below STAGING_MAX */
    size_t parts = 4 * n + 1;
    if (parts > self->part_capacity) {
        self->parts = realloc(self->parts, parts * sizeof *self->parts);
        if (self->parts == NULL)
            abort();
        self->part_capacity = parts;
    }
}

static void drop_large_staging(struct logfile *self)
{
    if (self->staging.capacity <= STAGING_KEPT)
        return;
    buf_fini(&self->staging);
    buf_init(&self->staging, STAGING_MAX);
}

static uint64_t batch_len(const struct logfile_item *items, size_t n)
{
    uint64_t len = 0;
    for (size_t i = 0; i < n; i++) {
        size_t extra = items[i].note.len + (items[i].origin != NULL ? SEGMENT_ORIGIN_SIZE : 0);
        len += record_disk_len(extra, items[i].meta.len, items[i].body.len);
    }
    return len;
}

enum logfile_result logfile_append(struct logfile *self, const struct logfile_item *items, size_t n,
                                   uint64_t *offsets, struct err *err)
{
    assert(!self->is_failed && n > 0);
    enum logfile_result result = reserve(self, self->offset + batch_len(items, n), err);
    if (result != LOGFILE_OK)
        return result;
    prepare(self, items, n);
    struct gather gather = {.file = self};
    uint64_t at = self->offset;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = at;
        at += gather_item(&gather, &items[i], at);
    }
    if (fsio_pwritev(self->fd, self->parts, (int)gather.count, self->offset) == -1)
        return fail(self, "write", err);
    self->offset = at;
    drop_large_staging(self);
    return LOGFILE_OK;
}

static void prove(struct logfile *self)
{
    self->proven_end = self->offset;
    self->proven_batch = self->batch;
    self->proven_ordinal = self->ordinal;
    self->batch++;
    self->batch_first = self->ordinal;
}

enum logfile_result logfile_commit(struct logfile *self, struct err *err)
{
    assert(!self->is_failed);
    if (fsio_sync_data(self->fd) == -1)
        return fail(self, "sync", err);
    prove(self);
    return LOGFILE_OK;
}

/* Writes a record without data of its own kind; body may be null. */
static int write_bare(struct logfile *self, uint8_t type, const uint8_t *body, uint32_t body_len)
{
    struct record_header header = {
        .type = type,
        .ordinal = self->ordinal,
        .batch = self->batch,
        .batch_first = self->ordinal,
        .body_len = body_len,
        .enqueued_ns = clock_wall_ns(),
        .nonce32 = self->nonce32,
        .data_crc = crc32c(0, body, body_len),
    };
    uint8_t bytes[SEGMENT_RECORD_SIZE];
    record_header_encode(&header, bytes);
    struct iovec parts[2] = {{.iov_base = bytes, .iov_len = sizeof bytes},
                             {.iov_base = (void *)(uintptr_t)body, .iov_len = body_len}};
    if (fsio_pwritev(self->fd, parts, body_len > 0 ? 2 : 1, self->offset) == -1)
        return -1;
    self->offset += sizeof bytes + body_len;
    return 0;
}

enum logfile_result logfile_mark(struct logfile *self, bool and_sync, struct err *err)
{
    assert(!self->is_failed);
    enum logfile_result result = reserve(self, self->offset + SEGMENT_RECORD_SIZE, err);
    if (result != LOGFILE_OK)
        return result;
    if (write_bare(self, RECORD_MARK, NULL, 0) == -1)
        return fail(self, "write", err);
    if (and_sync)
        return logfile_commit(self, err);
    /* proven_end stays: the mark itself is not proven and need not be. */
    self->batch++;
    return LOGFILE_OK;
}

uint64_t logfile_seal_bytes(const struct logfile *self)
{
    struct segment_seal seal = self->totals;
    return SEGMENT_RECORD_SIZE + segment_seal_len(&seal) + 8;
}

enum logfile_result logfile_seal(struct logfile *self, struct err *err)
{
    assert(!self->is_failed);
    struct segment_seal seal = self->totals;
    seal.next_ordinal = self->ordinal;
    seal.last_batch = self->batch - 1;
    seal.end = self->offset;
    seal.places = self->places;
    size_t len = segment_seal_len(&seal);
    uint64_t end = self->offset + SEGMENT_RECORD_SIZE + len;
    /* Only what is needed, not a step: it is cut off right behind. */
    if (self->step_bytes > 0 && end > self->allocated_end &&
        reserve_more(self, end - self->allocated_end, err) != LOGFILE_OK)
        return self->is_failed ? LOGFILE_FAILED : LOGFILE_NO_SPACE;
    uint8_t *body = malloc(len);
    if (body == NULL)
        abort();
    segment_seal_encode(&seal, body);
    int written = write_bare(self, RECORD_SEAL, body, (uint32_t)len);
    free(body);
    if (written == -1)
        return fail(self, "write", err);
    if (fsio_truncate(self->fd, self->offset) == -1)
        return fail(self, "truncate", err);
    self->allocated_end = self->offset;
    if (fsio_sync_data(self->fd) == -1)
        return fail(self, "sync", err);
    return LOGFILE_OK;
}

void logfile_fini(struct logfile *self, bool keep_fd)
{
    if (!keep_fd)
        fsio_close(self->fd);
    buf_fini(&self->staging);
    free(self->places);
    free(self->parts);
    *self = (struct logfile){.fd = -1};
}
