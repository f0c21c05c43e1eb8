// SPDX-License-Identifier: MIT
/*
 * Every number is little-endian, whatever the machine. The end of the data in a file is decided by
 * structure, a record header that is none, never by a checksum that happens to be zero.
 */
#include "broker/segment.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "common/crc32c.h"

#define RECORD_MAGIC 0x3152636du /* "mcR1" */

enum {
    FLAG_DEAD = 1,          /* of a segment header */
    FLAGS_TO_KNOW = 0xffff, /* upper half: may be ignored */
    RECORD_FLAGS_TO_KNOW = 0x0f,
    ORIGIN_SUSPECT = 1,
    NOTE_FIXED = 24,
};

static const uint8_t segment_magic[8] = {'m', 'c', 'p', 'd', 's', 'e', 'g', '\n'};
static const uint8_t ack_magic[8] = {'m', 'c', 'p', 'd', 'a', 'c', 'k', '\n'};

static void put16(uint8_t *out, uint16_t value)
{
    value = htole16(value);
    memcpy(out, &value, 2);
}

static void put32(uint8_t *out, uint32_t value)
{
    value = htole32(value);
    memcpy(out, &value, 4);
}

static void put64(uint8_t *out, uint64_t value)
{
    value = htole64(value);
    memcpy(out, &value, 8);
}

static uint16_t get16(const uint8_t *in)
{
    uint16_t value;
    memcpy(&value, in, 2);
    return le16toh(value);
}

static uint32_t get32(const uint8_t *in)
{
    uint32_t value;
    memcpy(&value, in, 4);
    return le32toh(value);
}

static uint64_t get64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, 8);
    return le64toh(value);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

uint32_t segment_nonce32(const uint8_t nonce[SEGMENT_NONCE_SIZE])
{
    return get32(nonce);
}

void segment_header_encode(const struct segment_header *self, uint8_t out[SEGMENT_HEADER_SIZE])
{
    memset(out, 0, SEGMENT_HEADER_SIZE);
    memcpy(out, segment_magic, 8);
    put16(out + 8, SEGMENT_MAJOR);
    put16(out + 10, SEGMENT_MINOR);
    put32(out + 12, self->is_dead ? FLAG_DEAD : 0);
    put64(out + 16, self->segno);
    memcpy(out + 24, self->nonce, SEGMENT_NONCE_SIZE);
    put64(out + 40, self->created_ns);
    put64(out + 48, self->limit_bytes);
    put64(out + 56, self->previous_segno);
    put64(out + 64, self->previous_end);
    put32(out + 72, self->previous_batch);
    put32(out + 76, self->previous_records);
    put32(out + SEGMENT_HEADER_SIZE - 4, crc32c(0, out, SEGMENT_HEADER_SIZE - 4));
}

enum segment_validity segment_header_decode(struct segment_header *self,
                                            const uint8_t bytes[SEGMENT_HEADER_SIZE])
{
    if (is_zero(bytes, SEGMENT_HEADER_SIZE))
        return SEGMENT_UNUSED;
    if (memcmp(bytes, segment_magic, 8) != 0 ||
        get32(bytes + SEGMENT_HEADER_SIZE - 4) != crc32c(0, bytes, SEGMENT_HEADER_SIZE - 4))
        return SEGMENT_INVALID;
    uint32_t flags = get32(bytes + 12);
    if (get16(bytes + 8) != SEGMENT_MAJOR || (flags & FLAGS_TO_KNOW & ~(uint32_t)FLAG_DEAD) != 0)
        return SEGMENT_UNKNOWN;
    self->is_dead = (flags & FLAG_DEAD) != 0;
    self->segno = get64(bytes + 16);
    memcpy(self->nonce, bytes + 24, SEGMENT_NONCE_SIZE);
    self->created_ns = get64(bytes + 40);
    self->limit_bytes = get64(bytes + 48);
    self->previous_segno = get64(bytes + 56);
    self->previous_end = get64(bytes + 64);
    self->previous_batch = get32(bytes + 72);
    self->previous_records = get32(bytes + 76);
    return SEGMENT_VALID;
}

void record_header_encode(const struct record_header *self, uint8_t out[SEGMENT_RECORD_SIZE])
{
    put32(out, RECORD_MAGIC);
    out[4] = self->type;
    out[5] = self->flags;
    put16(out + 6, self->extra_len);
    put32(out + 8, self->ordinal);
    put32(out + 12, self->nonce32);
    put32(out + 16, self->batch);
    put32(out + 20, self->batch_first);
    put32(out + 24, self->meta_len);
    put32(out + 28, self->body_len);
    put64(out + 32, self->enqueued_ns);
    put32(out + 40, self->data_crc);
    put32(out + 44, crc32c(0, out, 44));
}

static bool lengths_are_sane(const struct record_header *self)
{
    uint16_t least = (self->flags & RECORD_HAS_ORIGIN) ? SEGMENT_ORIGIN_SIZE : 0;
    return self->extra_len >= least && self->extra_len <= SEGMENT_EXTRA_MAX &&
           self->meta_len <= SEGMENT_META_MAX && self->body_len <= SEGMENT_BODY_MAX;
}

static bool is_known_type(uint8_t type)
{
    return type == RECORD_DATA || type == RECORD_MARK || type == RECORD_SEAL ||
           type == RECORD_DEAD || (type & RECORD_IGNORABLE) != 0;
}

enum segment_validity record_header_decode(struct record_header *self, uint32_t nonce32,
                                           const uint8_t bytes[SEGMENT_RECORD_SIZE])
{
    if (get32(bytes) != RECORD_MAGIC)
        return is_zero(bytes, SEGMENT_RECORD_SIZE) ? SEGMENT_UNUSED : SEGMENT_INVALID;
    if (get32(bytes + 12) != nonce32 || get32(bytes + 44) != crc32c(0, bytes, 44))
        return SEGMENT_INVALID;
    self->type = bytes[4];
    self->flags = bytes[5];
    self->extra_len = get16(bytes + 6);
    self->ordinal = get32(bytes + 8);
    self->nonce32 = nonce32;
    self->batch = get32(bytes + 16);
    self->batch_first = get32(bytes + 20);
    self->meta_len = get32(bytes + 24);
    self->body_len = get32(bytes + 28);
    self->enqueued_ns = get64(bytes + 32);
    self->data_crc = get32(bytes + 40);
    uint8_t known_flags = RECORD_HAS_ORIGIN | RECORD_HAS_NOTE;
    if (!is_known_type(self->type) || (self->flags & RECORD_FLAGS_TO_KNOW & ~known_flags) != 0)
        return SEGMENT_UNKNOWN;
    return lengths_are_sane(self) ? SEGMENT_VALID : SEGMENT_INVALID;
}

bool record_peek_nonce(const uint8_t bytes[SEGMENT_RECORD_SIZE], uint32_t *nonce32)
{
    struct record_header header;
    *nonce32 = get32(bytes + 12);
    return record_header_decode(&header, *nonce32, bytes) == SEGMENT_VALID;
}

size_t record_find_magic(const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + 4 <= len; at += 8)
        if (get32(bytes + at) == RECORD_MAGIC)
            return at;
    return len;
}

uint64_t record_disk_len(uint64_t extra_len, uint64_t meta_len, uint64_t body_len)
{
    return (SEGMENT_RECORD_SIZE + extra_len + meta_len + body_len + 7) & ~(uint64_t)7;
}

void record_origin_encode(const struct record_origin *self, uint8_t out[SEGMENT_ORIGIN_SIZE])
{
    put64(out, self->id.segno);
    put32(out + 8, self->id.ordinal);
    put32(out + 12, self->id.nonce32);
    put64(out + 16, self->arrival_ns);
    put32(out + 24, (uint32_t)self->history.first_fail_s);
    out[28] = self->history.expiries;
    out[29] = self->history.rounds;
    out[30] = self->history.is_suspect ? ORIGIN_SUSPECT : 0;
    out[31] = self->moves;
}

void record_origin_decode(struct record_origin *self, const uint8_t bytes[SEGMENT_ORIGIN_SIZE])
{
    self->id.segno = get64(bytes);
    self->id.ordinal = get32(bytes + 8);
    self->id.nonce32 = get32(bytes + 12);
    self->arrival_ns = get64(bytes + 16);
    self->history.first_fail_s = get32(bytes + 24);
    self->history.expiries = bytes[28];
    self->history.rounds = bytes[29];
    self->history.is_suspect = (bytes[30] & ORIGIN_SUSPECT) != 0;
    self->moves = bytes[31];
}

static struct slice cut(struct slice text, size_t max)
{
    return (struct slice){text.data, text.len < max ? text.len : max};
}

int record_note_encode(const struct record_note *self, struct buf *out)
{
    struct slice reason = cut(self->reason, NOTE_REASON_MAX);
    struct slice upstream = cut(self->upstream, NOTE_UPSTREAM_MAX);
    struct slice excerpt = cut(self->excerpt, NOTE_EXCERPT_MAX);
    uint8_t fixed[NOTE_FIXED] = {0};
    put64(fixed, self->dead_ns);
    put32(fixed + 8, self->rounds);
    put16(fixed + 12, self->status);
    put16(fixed + 14, (uint16_t)reason.len);
    put16(fixed + 16, (uint16_t)upstream.len);
    put16(fixed + 18, (uint16_t)excerpt.len);
    if (buf_add(out, fixed, sizeof fixed) == -1 || buf_add(out, reason.data, reason.len) == -1 ||
        buf_add(out, upstream.data, upstream.len) == -1)
        return -1;
    return buf_add(out, excerpt.data, excerpt.len);
}

int record_note_decode(struct record_note *self, struct slice bytes)
{
    if (bytes.len < NOTE_FIXED)
        return -1;
    const uint8_t *fixed = (const uint8_t *)bytes.data;
    size_t reason_len = get16(fixed + 14);
    size_t upstream_len = get16(fixed + 16);
    size_t excerpt_len = get16(fixed + 18);
    if (NOTE_FIXED + reason_len + upstream_len + excerpt_len > bytes.len)
        return -1;
    self->dead_ns = get64(fixed);
    self->rounds = get32(fixed + 8);
    self->status = get16(fixed + 12);
    const char *text = bytes.data + NOTE_FIXED;
    self->reason = (struct slice){text, reason_len};
    self->upstream = (struct slice){text + reason_len, upstream_len};
    self->excerpt = (struct slice){text + reason_len + upstream_len, excerpt_len};
    return 0;
}

/* Fixed part, places (ordinal, offset / 8) and the trailer by which a reader that comes from the
 * end of the file finds the record. */
#define SEAL_MAGIC 0x315a636du /* "mcZ1" */

size_t segment_seal_len(const struct segment_seal *self)
{
    return SEGMENT_SEAL_FIXED + (size_t)self->place_count * 8 + SEGMENT_SEAL_TRAILER;
}

void segment_seal_encode(const struct segment_seal *self, uint8_t *out)
{
    put32(out, self->records);
    put32(out + 4, self->next_ordinal);
    put64(out + 8, self->data_bytes);
    put64(out + 16, self->oldest_ns);
    put64(out + 24, self->newest_ns);
    put64(out + 32, self->end);
    put32(out + 40, self->last_batch);
    put32(out + 44, self->place_count);
    uint8_t *at = out + SEGMENT_SEAL_FIXED;
    for (uint32_t i = 0; i < self->place_count; i++, at += 8) {
        put32(at, self->places[i].ordinal);
        put32(at + 4, (uint32_t)(self->places[i].offset / 8));
    }
    put32(at, (uint32_t)(SEGMENT_RECORD_SIZE + segment_seal_len(self)));
    put32(at + 4, SEAL_MAGIC);
}

int segment_seal_decode(struct segment_seal *self, const uint8_t *bytes, size_t len)
{
    if (len < SEGMENT_SEAL_FIXED + SEGMENT_SEAL_TRAILER)
        return -1;
    self->records = get32(bytes);
    self->next_ordinal = get32(bytes + 4);
    self->data_bytes = get64(bytes + 8);
    self->oldest_ns = get64(bytes + 16);
    self->newest_ns = get64(bytes + 24);
    self->end = get64(bytes + 32);
    self->last_batch = get32(bytes + 40);
    self->place_count = get32(bytes + 44);
    self->places = NULL;
    bool fits = self->place_count <= (len - SEGMENT_SEAL_FIXED - SEGMENT_SEAL_TRAILER) / 8;
    return fits && self->records <= self->next_ordinal ? 0 : -1;
}

uint32_t segment_seal_trailer(const uint8_t bytes[SEGMENT_SEAL_TRAILER])
{
    return get32(bytes + 4) == SEAL_MAGIC ? get32(bytes) : 0;
}

bool ack_is_final(uint8_t kind)
{
    return kind == ACK_DONE || kind == ACK_DEAD || kind == ACK_MOVED || kind == ACK_LOST;
}

void ack_header_encode(const struct segment_header *segment, uint8_t out[SEGMENT_ACK_HEADER_SIZE])
{
    memset(out, 0, SEGMENT_ACK_HEADER_SIZE);
    memcpy(out, ack_magic, 8);
    put16(out + 8, SEGMENT_MAJOR);
    put16(out + 10, SEGMENT_MINOR);
    put64(out + 16, segment->segno);
    memcpy(out + 24, segment->nonce, SEGMENT_NONCE_SIZE);
    put32(out + SEGMENT_ACK_HEADER_SIZE - 4, crc32c(0, out, SEGMENT_ACK_HEADER_SIZE - 4));
}

bool ack_header_decode(const uint8_t bytes[SEGMENT_ACK_HEADER_SIZE], uint64_t *segno,
                       uint8_t nonce[SEGMENT_NONCE_SIZE])
{
    if (memcmp(bytes, ack_magic, 8) != 0 || get16(bytes + 8) != SEGMENT_MAJOR ||
        get32(bytes + SEGMENT_ACK_HEADER_SIZE - 4) != crc32c(0, bytes, SEGMENT_ACK_HEADER_SIZE - 4))
        return false;
    *segno = get64(bytes + 16);
    memcpy(nonce, bytes + 24, SEGMENT_NONCE_SIZE);
    return true;
}

bool ack_header_matches(const struct segment_header *segment,
                        const uint8_t bytes[SEGMENT_ACK_HEADER_SIZE])
{
    uint64_t segno;
    uint8_t nonce[SEGMENT_NONCE_SIZE];
    return ack_header_decode(bytes, &segno, nonce) && segno == segment->segno &&
           memcmp(nonce, segment->nonce, SEGMENT_NONCE_SIZE) == 0;
}

static uint32_t ack_crc(const uint8_t nonce[SEGMENT_NONCE_SIZE], const uint8_t *bytes)
{
    return crc32c(crc32c(0, nonce, SEGMENT_NONCE_SIZE), bytes, SEGMENT_ACK_SIZE - 4);
}

void ack_encode(const struct ack_entry *self, const uint8_t nonce[SEGMENT_NONCE_SIZE],
                uint8_t out[SEGMENT_ACK_SIZE])
{
    put32(out, self->ordinal);
    out[4] = self->kind;
    out[5] = self->rounds;
    put16(out + 6, 0);
    put32(out + 8, self->value);
    put32(out + 12, ack_crc(nonce, out));
}

bool ack_decode(struct ack_entry *self, const uint8_t nonce[SEGMENT_NONCE_SIZE],
                const uint8_t bytes[SEGMENT_ACK_SIZE])
{
    if (get32(bytes + 12) != ack_crc(nonce, bytes))
        return false;
    self->ordinal = get32(bytes);
    self->kind = bytes[4];
    self->rounds = bytes[5];
    self->value = get32(bytes + 8);
    return true;
}
