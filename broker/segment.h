// SPDX-License-Identifier: MIT
/*
 * segment: the bytes of the spool's files: headers of segments, records and ack files, and their
 * checksums (docs/spool-format.md). Pure functions over memory: no file is touched here. Every
 * decoder takes bytes of a disk that may be damaged: it answers "not valid", never aborts, and
 * trusts a length only behind a right checksum and within the limits given.
 */
#ifndef MCPD_SEGMENT_H
#define MCPD_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

#define SEGMENT_MAJOR           1
#define SEGMENT_MINOR           0
#define SEGMENT_HEADER_SIZE     128u
#define SEGMENT_RECORD_SIZE     48u
#define SEGMENT_ORIGIN_SIZE     32u
#define SEGMENT_NONCE_SIZE      16u
#define SEGMENT_ACK_HEADER_SIZE 64u
#define SEGMENT_ACK_SIZE        16u
#define SEGMENT_META_MAX        ((uint32_t)64 * 1024)
#define SEGMENT_EXTRA_MAX       ((uint32_t)8 * 1024)
#define SEGMENT_BODY_MAX        ((uint32_t)1 << 30)

/* What a file's header says. Magic, major version and checksum stay where they are in every
 * version. */
struct segment_header {
    uint64_t segno;
    uint8_t nonce[SEGMENT_NONCE_SIZE];
    uint64_t created_ns;
    uint64_t limit_bytes; /* planned size; a geometry is read from here, never from settings */
    /* Where the segment before ended when this one was begun; segno 0: there was none. */
    uint64_t previous_segno;
    uint64_t previous_end;     /* proven end of its records */
    uint32_t previous_batch;   /* its last durable batch */
    uint32_t previous_records; /* ordinals it had given out */
    bool is_dead;              /* a file of dead letters */
};

enum segment_validity {
    SEGMENT_VALID,
    SEGMENT_UNUSED,  /* nothing but zeros */
    SEGMENT_INVALID, /* bytes that are no header of ours */
    SEGMENT_UNKNOWN  /* a right checksum but a version or kind that is not ours */
};

/* The first 32 bits of a nonce, as records and ids carry it. */
uint32_t segment_nonce32(const uint8_t nonce[SEGMENT_NONCE_SIZE]);
void segment_header_encode(const struct segment_header *self, uint8_t out[SEGMENT_HEADER_SIZE]);
enum segment_validity segment_header_decode(struct segment_header *self,
                                            const uint8_t bytes[SEGMENT_HEADER_SIZE]);

enum record_type {
    RECORD_DATA = 1,
    RECORD_MARK = 2, /* proves the batch before it durable; carries nothing */
    RECORD_SEAL = 3, /* the last record of a segment: its counts */
    RECORD_DEAD = 4  /* in files of dead letters */
};
#define RECORD_IGNORABLE 0x80u /* bit of the type: who does not know it may step over it */

enum record_flags {
    RECORD_HAS_ORIGIN = 1, /* the extra bytes begin with a struct record_origin */
    RECORD_HAS_NOTE = 2    /* the extra bytes end with a struct record_note */
};

struct record_header {
    uint8_t type;
    uint8_t flags;
    uint16_t extra_len;   /* origin and note, in front of meta */
    uint32_t ordinal;     /* of DATA and DEAD, from 0; MARK and SEAL carry the next one's */
    uint32_t batch;       /* from 1 in each segment; all records of one sync */
    uint32_t batch_first; /* ordinal of the batch's first record: tells which batch a damaged
                             record before this one belonged to */
    uint32_t meta_len;
    uint32_t body_len;
    uint64_t enqueued_ns;
    uint32_t nonce32;
    uint32_t data_crc; /* of extra, meta, body */
};

void record_header_encode(const struct record_header *self, uint8_t out[SEGMENT_RECORD_SIZE]);
/* SEGMENT_UNUSED, SEGMENT_INVALID (also: another nonce, lengths beyond the limits), SEGMENT_UNKNOWN
 * (a type or flag that must be understood and is not) or SEGMENT_VALID. */
enum segment_validity record_header_decode(struct record_header *self, uint32_t nonce32,
                                           const uint8_t bytes[SEGMENT_RECORD_SIZE]);
/* Of a file whose own header is damaged: whether these bytes are a record header, of which nonce.
 */
bool record_peek_nonce(const uint8_t bytes[SEGMENT_RECORD_SIZE], uint32_t *nonce32);
/* First multiple of 8 below len at which a record's magic stands, or len. */
size_t record_find_magic(const uint8_t *bytes, size_t len);
/* Length on disk, padding to 8 included. */
uint64_t record_disk_len(uint64_t extra_len, uint64_t meta_len, uint64_t body_len);

/* What is remembered of a request across restarts and moves. */
struct record_history {
    uint64_t first_fail_s; /* unix seconds, 0: never failed */
    uint8_t expiries;      /* leases that ended without an outcome; stays at 255 */
    uint8_t rounds;        /* failed rounds as a suspect; stays at 255 */
    bool is_suspect;
};

/* Message id: never reused. */
struct record_id {
    uint64_t segno;
    uint32_t ordinal;
    uint32_t nonce32;
};

/* Where a record came from that was moved or put to dead/. */
struct record_origin {
    struct record_id id; /* the first it had */
    uint64_t arrival_ns;
    struct record_history history;
    uint8_t moves;
};
void record_origin_encode(const struct record_origin *self, uint8_t out[SEGMENT_ORIGIN_SIZE]);
void record_origin_decode(struct record_origin *self, const uint8_t bytes[SEGMENT_ORIGIN_SIZE]);

/* Why a record is dead. Texts are cut to the limits when written. */
#define NOTE_REASON_MAX   64
#define NOTE_UPSTREAM_MAX 1024
#define NOTE_EXCERPT_MAX  1024
struct record_note {
    uint64_t dead_ns;
    uint32_t rounds;
    uint16_t status; /* HTTP status or 0 */
    struct slice reason;
    struct slice upstream;
    struct slice excerpt;
};
int record_note_encode(const struct record_note *self, struct buf *out) MUST_USE;
int record_note_decode(struct record_note *self, struct slice bytes) MUST_USE;

/* The body of a SEAL. */
#define SEGMENT_SEAL_FIXED   48u
#define SEGMENT_SEAL_TRAILER 8u
struct segment_place {
    uint32_t ordinal;
    uint64_t offset;
};
struct segment_seal {
    uint32_t records;      /* DATA or DEAD records in the file */
    uint32_t next_ordinal; /* records and lost ones */
    uint32_t last_batch;   /* before the SEAL's own */
    uint64_t data_bytes;   /* meta and body of all records */
    uint64_t oldest_ns;
    uint64_t newest_ns;
    uint64_t end; /* offset of the SEAL record */
    /* A record's place every 256 KiB or so, for readers that look for one. */
    const struct segment_place *places;
    uint32_t place_count;
};
size_t segment_seal_len(const struct segment_seal *self);
/* out: segment_seal_len bytes, a multiple of 8; its last 8 are the trailer. */
void segment_seal_encode(const struct segment_seal *self, uint8_t *out);
/* Leaves places null. */
int segment_seal_decode(struct segment_seal *self, const uint8_t *bytes, size_t len) MUST_USE;
/* Length of the SEAL record that these last 8 bytes of a file end, or 0: they are no trailer. */
uint32_t segment_seal_trailer(const uint8_t bytes[SEGMENT_SEAL_TRAILER]);

enum ack_kind {
    ACK_DONE = 1,
    ACK_DEAD = 2,
    ACK_MOVED = 3,
    ACK_EXPIRY = 4,  /* value: number of expiries so far */
    ACK_SUSPECT = 5, /* rounds; value: first failure, unix seconds; 0 ends the suspicion */
    ACK_LOST = 6     /* no such record can be read; value: enum lost_cause */
};
enum lost_cause { LOST_TORN = 1, LOST_CORRUPT = 2 };

struct ack_entry {
    uint32_t ordinal;
    uint8_t kind;
    uint8_t rounds;
    uint32_t value;
};
/* True when the entry settles its record: it will never be delivered again. */
bool ack_is_final(uint8_t kind);

void ack_header_encode(const struct segment_header *segment, uint8_t out[SEGMENT_ACK_HEADER_SIZE]);
bool ack_header_decode(const uint8_t bytes[SEGMENT_ACK_HEADER_SIZE], uint64_t *segno,
                       uint8_t nonce[SEGMENT_NONCE_SIZE]) MUST_USE;
/* True when the bytes are the header of this segment's ack file (its nonce). */
bool ack_header_matches(const struct segment_header *segment,
                        const uint8_t bytes[SEGMENT_ACK_HEADER_SIZE]);
void ack_encode(const struct ack_entry *self, const uint8_t nonce[SEGMENT_NONCE_SIZE],
                uint8_t out[SEGMENT_ACK_SIZE]);
bool ack_decode(struct ack_entry *self, const uint8_t nonce[SEGMENT_NONCE_SIZE],
                const uint8_t bytes[SEGMENT_ACK_SIZE]);

#endif
