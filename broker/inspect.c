// SPDX-License-Identifier: MIT
/*
 * The proof behind "corrupt": batch n + 1 is only written once the sync of batch n has returned.
 * So a damaged range of batch n was durable when anything of a later batch is behind it, or when
 * the next file's header, written later still, counts it in. Records of the same batch prove
 * nothing: the blocks of one write reach the disk in any order.
 */
#include "broker/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/walk.h"
#include "common/crc32c.h"
#include "common/fsio.h"

#define BEHIND_EVERYTHING UINT32_MAX

enum { SEAL_MAX = 64 << 20, SEARCH_AT_ONCE = 64 * 1024, LOOK_EVERY = 256 };

struct scan {
    struct inspection *out;
    struct walk walk;
    uint32_t last_batch;
    bool is_sealed;
};

static int cannot_read(uint64_t segno, struct err *err)
{
    return err_set(err, "read %020" PRIu64 ".log: %s", segno, strerror(errno));
}

/* --- the header ------------------------------------------------------------------------------- */

static enum segment_validity read_header(int fd, struct segment_header *out)
{
    uint8_t bytes[SEGMENT_HEADER_SIZE] = {0};
    if (fsio_pread(fd, bytes, sizeof bytes, 0) == -1)
        return SEGMENT_INVALID;
    return segment_header_decode(out, bytes);
}

enum segment_validity inspect_header(int dir_fd, uint64_t segno, struct segment_header *out)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, ".log", name);
    int fd = fsio_open(dir_fd, name, O_RDONLY);
    if (fd == -1)
        return SEGMENT_INVALID;
    enum segment_validity validity = read_header(fd, out);
    fsio_close(fd);
    return validity;
}

/* Looks for any record header, of whatever nonce. 1: found; 0: none, *is_zero tells whether there
 * is nothing but zeros behind the file's header, which may be half written; -1: cannot be read. */
static int find_nonce(int fd, uint64_t file_len, uint32_t *nonce32, bool *is_zero)
{
    uint8_t *bytes = malloc(SEARCH_AT_ONCE);
    if (bytes == NULL)
        abort();
    int result = 0;
    *is_zero = true;
    uint64_t at = 0;
    while (at < file_len && result == 0) {
        ssize_t got = fsio_pread(fd, bytes, SEARCH_AT_ONCE, at);
        if (got <= 0) {
            result = got == -1 ? -1 : 0;
            break;
        }
        size_t len = (size_t)got;
        for (size_t k = at == 0 ? SEGMENT_HEADER_SIZE : 0; k < len && *is_zero; k++)
            *is_zero = bytes[k] == 0;
        size_t i = 0;
        while (i + SEGMENT_RECORD_SIZE <= len && result == 0) {
            i += record_find_magic(bytes + i, len - i) & ~(size_t)7;
            if (i + SEGMENT_RECORD_SIZE <= len)
                result = record_peek_nonce(bytes + i, nonce32) ? 1 : 0;
            i += 8;
        }
        /* The pieces overlap, for a header across their border. */
        at += len > SEGMENT_RECORD_SIZE && len == SEARCH_AT_ONCE ? len - SEGMENT_RECORD_SIZE : len;
    }
    free(bytes);
    return result;
}

/* The whole nonce is also in the ack file, if that one is of the same segment. nonce32: its part in
 * the records, or null where none is left. */
static void nonce_from_acks(int dir_fd, struct segment_header *header, const uint32_t *nonce32)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(header->segno, ".ack", name);
    uint8_t bytes[SEGMENT_ACK_HEADER_SIZE], nonce[SEGMENT_NONCE_SIZE];
    uint64_t segno;
    int fd = fsio_open(dir_fd, name, O_RDONLY);
    if (fd != -1 && fsio_pread(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes &&
        ack_header_decode(bytes, &segno, nonce) && segno == header->segno &&
        (nonce32 == NULL || segment_nonce32(nonce) == *nonce32))
        memcpy(header->nonce, nonce, sizeof nonce);
    fsio_close(fd);
}

/* No header. What the next file vouches for was in it all the same, though none of it is left. */
static int salvage_header(struct inspection *out, int dir_fd, int fd, uint64_t segno,
                          const struct vouch *vouch, struct err *err)
{
    uint32_t nonce32;
    bool is_zero;
    int found = find_nonce(fd, out->file_len, &nonce32, &is_zero);
    if (found == -1)
        return cannot_read(segno, err);
    if (found == 0 && (!is_zero || vouch->records == 0)) {
        out->kind = is_zero ? INSPECT_UNUSED : INSPECT_RUBBISH;
        return 0;
    }
    out->is_header_damaged = true;
    out->header = (struct segment_header){
        .segno = segno, .limit_bytes = out->file_len > vouch->end ? out->file_len : vouch->end};
    for (int i = 0; i < 4 && found == 1; i++)
        out->header.nonce[i] = (uint8_t)(nonce32 >> (8 * i));
    nonce_from_acks(dir_fd, &out->header, found == 1 ? &nonce32 : NULL);
    return 0;
}

/* --- the seal --------------------------------------------------------------------------------- */

/* No file has more ordinals than headers fit into what it was planned or grew to be. */
static uint64_t most_records(const struct inspection *out)
{
    uint64_t bytes =
        out->file_len > out->header.limit_bytes ? out->file_len : out->header.limit_bytes;
    return bytes / SEGMENT_RECORD_SIZE;
}

/* True when the file ends with a whole, right seal; then out is filled from it. */
static bool read_seal(struct inspection *out, int fd)
{
    uint8_t trailer[SEGMENT_SEAL_TRAILER];
    if (out->file_len < SEGMENT_HEADER_SIZE + SEGMENT_RECORD_SIZE + SEGMENT_SEAL_FIXED ||
        fsio_pread(fd, trailer, sizeof trailer, out->file_len - sizeof trailer) !=
            (ssize_t)sizeof trailer)
        return false;
    uint32_t len = segment_seal_trailer(trailer);
    if (len <= SEGMENT_RECORD_SIZE || len > SEAL_MAX || len > out->file_len - SEGMENT_HEADER_SIZE)
        return false;
    uint8_t *bytes = malloc(len);
    if (bytes == NULL)
        abort();
    struct record_header header;
    struct segment_seal seal;
    uint64_t offset = out->file_len - len;
    bool is_right =
        fsio_pread(fd, bytes, len, offset) == (ssize_t)len &&
        record_header_decode(&header, segment_nonce32(out->header.nonce), bytes) == SEGMENT_VALID &&
        header.type == RECORD_SEAL && header.body_len == len - SEGMENT_RECORD_SIZE &&
        header.data_crc == crc32c(0, bytes + SEGMENT_RECORD_SIZE, header.body_len) &&
        segment_seal_decode(&seal, bytes + SEGMENT_RECORD_SIZE, header.body_len) == 0 &&
        seal.end == offset && seal.next_ordinal <= most_records(out);
    free(bytes);
    out->bytes_read += len;
    if (!is_right)
        return false;
    out->end = seal.end;
    out->records = seal.next_ordinal;
    out->last_batch = seal.last_batch;
    out->oldest_ns = seal.oldest_ns;
    return true;
}

/* --- the walk --------------------------------------------------------------------------------- */

static void add_bad(struct inspection *out, const struct bad_range *range)
{
    if ((out->bad_count & (out->bad_count - 1)) == 0) {
        size_t capacity = out->bad_count == 0 ? 1 : out->bad_count * 2;
        out->bad = realloc(out->bad, capacity * sizeof *out->bad);
        if (out->bad == NULL)
            abort();
    }
    out->bad[out->bad_count++] = *range;
}

/* Ordinals [from, next->ordinal) are missing before `next`; those of its own batch and those of
 * earlier ones are told apart by where its batch began. bytes: what lies in between. */
static void add_missing(struct inspection *out, uint32_t from, const struct record_header *next,
                        struct bad_range bytes)
{
    uint32_t border = next->batch_first;
    if (border < from)
        border = from;
    if (border > next->ordinal)
        border = next->ordinal;
    bytes.ordinal = from;
    bytes.lost = border - from;
    bytes.batch = next->batch - 1;
    bool is_own = border < next->ordinal;
    if (bytes.lost > 0 || (bytes.len > 0 && !is_own)) {
        add_bad(out, &bytes);
        bytes.len = 0;
    }
    if (!is_own)
        return;
    bytes.ordinal = border;
    bytes.lost = next->ordinal - border;
    bytes.batch = next->batch;
    add_bad(out, &bytes);
}

static int take_record(struct scan *self, const struct walk_item *item)
{
    struct inspection *out = self->out;
    const struct record_header *header = &item->header;
    if (header->batch > self->last_batch)
        self->last_batch = header->batch;
    int is_right = walk_check(&self->walk, item);
    if (is_right == 1) {
        self->is_sealed = header->type == RECORD_SEAL;
        if (!self->is_sealed)
            logfile_count(&out->tally, header, item->offset);
        return 0;
    }
    if (is_right == -1 && errno != EIO)
        return -1;
    bool is_record = header->type == RECORD_DATA || header->type == RECORD_DEAD;
    struct bad_range bad = {.offset = item->offset,
                            .len = item->len,
                            .ordinal = header->ordinal,
                            .lost = is_record ? 1 : 0,
                            .batch = header->batch,
                            .is_void = header->type == RECORD_SEAL};
    add_bad(out, &bad);
    return 0;
}

static void take_gap(struct scan *self, const struct walk_item *item, uint32_t expected)
{
    struct bad_range bad = {
        .offset = item->offset, .len = item->len, .is_void = item->is_zero, .ordinal = expected};
    if (item->is_last) {
        bad.batch = BEHIND_EVERYTHING;
        add_bad(self->out, &bad);
        return;
    }
    add_missing(self->out, expected, &item->header, bad);
}

static int walk_all(struct scan *self, bool (*must_stop)(void), struct err *err)
{
    uint64_t segno = self->out->header.segno;
    for (uint32_t step = 0; !self->is_sealed; step++) {
        if (must_stop != NULL && step % LOOK_EVERY == 0 && must_stop())
            return err_set(err, "told to stop");
        struct walk_item item;
        uint32_t expected = self->walk.ordinal;
        enum walk_step found = walk_next(&self->walk, &item);
        if (found == WALK_END)
            break;
        if (found == WALK_ERROR)
            return cannot_read(segno, err);
        if (found == WALK_UNKNOWN) {
            self->out->kind = INSPECT_UNKNOWN;
            break;
        }
        if (found == WALK_GAP)
            take_gap(self, &item, expected);
        else if (take_record(self, &item) == -1)
            return cannot_read(segno, err);
    }
    return 0;
}

/* What lies behind the end that the next file vouches for was refused: nothing of it is a record of
 * ours any more, unless it is just the seal. */
static int walk_refused(struct scan *self, uint64_t from, struct err *err)
{
    struct inspection *out = self->out;
    struct bad_range rest = {.offset = from, .batch = BEHIND_EVERYTHING};
    struct walk walk;
    walk_init(&walk, self->walk.fd, self->walk.nonce32, from, out->file_len, 0);
    enum walk_step step;
    struct walk_item item;
    while ((step = walk_next(&walk, &item)) == WALK_RECORD || step == WALK_GAP) {
        if (step == WALK_RECORD && item.header.type == RECORD_SEAL)
            break;
        rest.len = item.offset + item.len - from;
    }
    out->bytes_read += walk.bytes_read;
    walk_fini(&walk);
    if (rest.len > 0)
        add_bad(out, &rest);
    return step == WALK_ERROR ? cannot_read(out->header.segno, err) : 0;
}

/* Decides torn or corrupt for each range, and how many ordinals the file has given out. */
static void classify(struct scan *self, const struct vouch *vouch)
{
    struct inspection *out = self->out;
    uint32_t records = out->tally.ordinal;
    for (size_t i = 0; i < out->bad_count; i++) {
        struct bad_range *bad = &out->bad[i];
        bool is_vouched = bad->len > 0 && bad->offset < vouch->end;
        bad->is_corrupt =
            is_vouched || (bad->batch != BEHIND_EVERYTHING && bad->batch < self->last_batch);
        if (bad->is_corrupt && bad->lost > 0 && bad->ordinal + bad->lost > records)
            records = bad->ordinal + bad->lost;
    }
    if (vouch->records > records && vouch->records <= most_records(out)) {
        struct bad_range rest = {.offset = out->tally.offset,
                                 .ordinal = records,
                                 .lost = vouch->records - records,
                                 .is_corrupt = true};
        add_bad(out, &rest);
        records = vouch->records;
    }
    out->records = records;
    out->tally.ordinal = records;
    out->end = out->tally.offset;
    out->last_batch = self->last_batch;
    out->oldest_ns = out->tally.totals.oldest_ns;
}

static int walk_file(struct inspection *out, int fd, const struct vouch *vouch,
                     bool (*must_stop)(void), struct err *err)
{
    struct scan scan = {.out = out};
    logfile_adopt(&out->tally, -1, &out->header);
    bool is_bounded = vouch->end > 0 && vouch->end < out->file_len;
    walk_init(&scan.walk, fd, segment_nonce32(out->header.nonce), SEGMENT_HEADER_SIZE,
              is_bounded ? vouch->end : out->file_len, 0);
    int result = walk_all(&scan, must_stop, err);
    if (result == 0 && is_bounded && out->kind == INSPECT_OPEN && !scan.is_sealed)
        result = walk_refused(&scan, vouch->end, err);
    if (result == 0)
        classify(&scan, vouch);
    out->bytes_read += scan.walk.bytes_read;
    walk_fini(&scan.walk);
    return result;
}

int inspect_file(struct inspection *out, int dir_fd, uint64_t segno, const struct vouch *vouch,
                 bool (*must_stop)(void), struct err *err)
{
    *out = (struct inspection){.kind = INSPECT_OPEN, .tally = {.fd = -1}};
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, ".log", name);
    int result = -1;
    int fd = fsio_open(dir_fd, name, O_RDONLY);
    if (fd == -1 || fsio_size(fd, &out->file_bytes, &out->file_len) == -1) {
        cannot_read(segno, err);
        goto out;
    }
    enum segment_validity validity = read_header(fd, &out->header);
    result = 0;
    if (validity == SEGMENT_UNKNOWN)
        out->kind = INSPECT_UNKNOWN;
    else if (validity != SEGMENT_VALID)
        result = salvage_header(out, dir_fd, fd, segno, vouch, err);
    out->header.segno = segno;
    if (result == -1 || out->kind != INSPECT_OPEN)
        goto out;
    if (read_seal(out, fd))
        out->kind = INSPECT_SEALED;
    else
        result = walk_file(out, fd, vouch, must_stop, err);
out:
    fsio_close(fd);
    return result;
}

void inspect_fini(struct inspection *self)
{
    free(self->bad);
    self->bad = NULL;
    logfile_fini(&self->tally, true);
}
