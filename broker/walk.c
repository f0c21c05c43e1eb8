// SPDX-License-Identifier: MIT
/*
 * Reading is in pieces: large ones while records are small, so that a scan of headers costs one
 * system call for many, and small ones when a record's body would only be skipped.
 */
#include "broker/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/fsio.h"

enum {
    PIECE_SIZE = 256 * 1024,
    SMALL_PIECE = 4 * 1024,
    SMALL_RECORD = 16 * 1024, /* records up to this are read in whole pieces */
    UNREADABLE = 0xee,
};

void walk_init(struct walk *self, int fd, uint32_t nonce32, uint64_t offset, uint64_t end,
               uint32_t ordinal)
{
    *self = (struct walk){.fd = fd,
                          .nonce32 = nonce32,
                          .offset = offset,
                          .end = end,
                          .ordinal = ordinal,
                          .read_ahead = PIECE_SIZE};
    self->piece = malloc(PIECE_SIZE);
    if (self->piece == NULL)
        abort();
}

void walk_fini(struct walk *self)
{
    free(self->piece);
    self->piece = NULL;
}

/* A bad block must cost no more than what lies in it: what cannot be read as one piece is read
 * block by block, and a block that cannot be read is filled with bytes that no header has. */
static ssize_t read_piece(struct walk *self, uint64_t offset, size_t len)
{
    ssize_t got = fsio_pread(self->fd, self->piece, len, offset);
    if (got != -1 || errno != EIO)
        return got;
    size_t done = 0;
    while (done < len) {
        size_t block = SMALL_PIECE - (size_t)((offset + done) % SMALL_PIECE);
        if (block > len - done)
            block = len - done;
        got = fsio_pread(self->fd, self->piece + done, block, offset + done);
        if (got == -1 && errno != EIO)
            return -1;
        if (got == -1)
            memset(self->piece + done, UNREADABLE, block);
        else if (got == 0)
            break;
        done += got == -1 ? block : (size_t)got;
    }
    return (ssize_t)done;
}

/* Makes at least `want` bytes (at most SMALL_PIECE) at `offset` available, fewer only at the end.
 * Returns how many there are, or -1. */
static ssize_t peek(struct walk *self, uint64_t offset, size_t want, const uint8_t **bytes)
{
    if (offset >= self->end)
        return 0;
    if (want > self->end - offset)
        want = (size_t)(self->end - offset);
    bool is_at_hand = offset >= self->piece_at && offset + want <= self->piece_at + self->piece_len;
    if (!is_at_hand) {
        size_t len = want > self->read_ahead ? want : self->read_ahead;
        if (len > self->end - offset)
            len = (size_t)(self->end - offset);
        self->piece_len = 0;
        ssize_t got = read_piece(self, offset, len);
        if (got == -1)
            return -1;
        self->piece_at = offset;
        self->piece_len = (size_t)got;
        self->bytes_read += (uint64_t)got;
    }
    *bytes = self->piece + (offset - self->piece_at);
    return (ssize_t)(self->piece_at + self->piece_len - offset);
}

static bool fits(const struct walk *self, const struct record_header *header, uint64_t offset)
{
    uint64_t len = record_disk_len(header->extra_len, header->meta_len, header->body_len);
    /* Each ordinal before it took a header's bytes at least. */
    uint64_t most = (offset - SEGMENT_HEADER_SIZE) / SEGMENT_RECORD_SIZE;
    return header->ordinal >= self->ordinal && header->ordinal <= most && len <= self->end - offset;
}

static void step_over(struct walk *self, const struct walk_item *item)
{
    self->offset = item->offset + item->len;
    if (item->header.type == RECORD_DATA || item->header.type == RECORD_DEAD)
        self->ordinal = item->header.ordinal + 1;
    self->read_ahead = item->len > SMALL_RECORD ? SMALL_PIECE : PIECE_SIZE;
}

/* Length of the bytes at hand that are zero from the start, in eights. */
static size_t zero_prefix(const uint8_t *bytes, size_t len)
{
    size_t at = 0;
    uint64_t word = 0;
    while (at + 8 <= len) {
        memcpy(&word, bytes + at, 8);
        if (word != 0)
            break;
        at += 8;
    }
    return at;
}

/* Looks behind a place where no record is for the next one. *nonzero_end: behind the last byte that
 * is not zero. 1: found at *found; 0: none; -1: cannot be read. */
static int resync(struct walk *self, struct record_header *header, uint64_t *found,
                  uint64_t *nonzero_end)
{
    uint64_t at = self->offset;
    *nonzero_end = at;
    self->read_ahead = PIECE_SIZE;
    while (at + SEGMENT_RECORD_SIZE <= self->end) {
        const uint8_t *bytes;
        ssize_t got = peek(self, at, SEGMENT_RECORD_SIZE, &bytes);
        if (got < (ssize_t)SEGMENT_RECORD_SIZE)
            return got == -1 ? -1 : 0;
        size_t len = (size_t)got & ~(size_t)7;
        size_t skip = zero_prefix(bytes, len);
        if (skip > 0) {
            at += skip;
            continue;
        }
        skip = record_find_magic(bytes, len);
        if (skip > 0) {
            *nonzero_end = at + skip;
            at += skip;
            continue;
        }
        if (at != self->offset &&
            record_header_decode(header, self->nonce32, bytes) == SEGMENT_VALID &&
            fits(self, header, at)) {
            *found = at;
            return 1;
        }
        at += 8;
        *nonzero_end = at;
    }
    return 0;
}

static enum walk_step gap(struct walk *self, struct walk_item *out)
{
    uint64_t found, nonzero_end;
    int result = resync(self, &out->header, &found, &nonzero_end);
    if (result == -1)
        return WALK_ERROR;
    out->offset = self->offset;
    out->is_last = result == 0;
    out->is_zero = nonzero_end == self->offset;
    if (out->is_last && out->is_zero)
        return WALK_END;
    out->len = (out->is_last ? nonzero_end : found) - self->offset;
    self->offset = out->is_last ? self->end : found;
    if (!out->is_last)
        self->ordinal = out->header.ordinal;
    return WALK_GAP;
}

enum walk_step walk_next(struct walk *self, struct walk_item *out)
{
    *out = (struct walk_item){.offset = self->offset};
    if (self->offset + SEGMENT_RECORD_SIZE > self->end)
        return WALK_END;
    const uint8_t *bytes;
    ssize_t got = peek(self, self->offset, SEGMENT_RECORD_SIZE, &bytes);
    if (got == -1)
        return WALK_ERROR;
    if (got < (ssize_t)SEGMENT_RECORD_SIZE)
        return WALK_END;
    enum segment_validity validity = record_header_decode(&out->header, self->nonce32, bytes);
    if (validity == SEGMENT_UNKNOWN)
        return WALK_UNKNOWN;
    if (validity != SEGMENT_VALID || !fits(self, &out->header, self->offset))
        return gap(self, out);
    const struct record_header *header = &out->header;
    if (header->ordinal > self->ordinal) { /* a gap of no bytes */
        self->ordinal = header->ordinal;
        return WALK_GAP;
    }
    out->len = record_disk_len(header->extra_len, header->meta_len, header->body_len);
    step_over(self, out);
    return WALK_RECORD;
}

int walk_check(struct walk *self, const struct walk_item *item)
{
    const struct record_header *header = &item->header;
    uint64_t at = item->offset + SEGMENT_RECORD_SIZE;
    uint64_t left = (uint64_t)header->extra_len + header->meta_len + header->body_len;
    uint32_t crc = 0;
    self->read_ahead = PIECE_SIZE;
    while (left > 0) {
        const uint8_t *bytes;
        ssize_t got = peek(self, at, 1, &bytes);
        if (got <= 0)
            return got == -1 ? -1 : 0;
        size_t n = (uint64_t)got < left ? (size_t)got : (size_t)left;
        crc = crc32c(crc, bytes, n);
        at += n;
        left -= n;
    }
    return crc == header->data_crc;
}
