// SPDX-License-Identifier: MIT
/*
 * spool: the queue's bytes on disk, without policy. A directory of append-only segments, an ack
 * file beside each, dead/, quarantine/ and a lock. Four objects, each with one owner:
 *
 *     spool_t     shared: the table of segments, used bytes, reading.   any thread, a mutex inside
 *     appender_t  the active segment (broker/appender.h)                 intake
 *     acks_t      ack files and the removal of done segments (acks.h)    upkeep
 *     dead_t      dead letters (dead.h)                                  upkeep
 *
 * Lifecycle: spool_open (takes the lock, recovers), then the other three, which end before
 * spool_close. Records travel between threads as struct record_ref, plain data by value.
 *
 * The way of a record: appender_append returns its ref when it is durable -> intake passes the ref
 * to delivery -> spool_read (delivery) -> on DONE delivery calls spool_settle at once and tells
 * upkeep, which calls acks_add. When every record of a sealed segment is settled, acks_tick removes
 * it. Delivery that cannot hold a ref (window full) just forgets it: spool_scan finds it again.
 */
#ifndef MCPD_SPOOL_H
#define MCPD_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/segment.h"
#include "common/buf.h"
#include "common/err.h"

typedef struct spool spool_t;

struct spool_config {
    const char *path; /* made when absent, with its parents' last part */
    uint64_t max_bytes;
    uint64_t max_body_bytes;
    uint64_t segment_bytes;    /* 0: by rule, min(64 MiB, max_bytes / 16), at least 256 KiB */
    bool refuse_on_corruption; /* else go on with what reads back right */
    bool (*must_stop)(void);   /* may be null; true: recovery gives up soon, spool_open fails */
};

/* What start-up found; also summed up in the metrics. */
struct spool_report {
    uint64_t segments;
    uint64_t waiting;         /* records to deliver */
    uint64_t torn_bytes;      /* never acknowledged, of a crash: no alarm */
    uint64_t corrupt_records; /* had been durable, do not read back */
    uint64_t corrupt_headers; /* segment headers that do not read back, their records do */
    uint64_t missing_segments;
    uint64_t scanned_bytes;
    uint64_t took_ms;
};

/* Takes the lock, makes directories, recovers. Null with the reason: another process has the lock,
 * the directory cannot be written, max_bytes below 4 x (max_body_bytes + 64 KiB) (both options and
 * the smallest value named), a format that is not ours, refuse_on_corruption and damage, must_stop.
 * Blocks for as long as recovery takes. */
spool_t *spool_open(const struct spool_config *config, struct spool_report *report,
                    struct err *err) MUST_USE;
/* Gives up the lock. The other three objects are gone before. */
void spool_close(spool_t **self_p);

/* Largest body the spool takes (the config's), for WELCOME and too_large. */
uint64_t spool_max_body(const spool_t *self);

/* --- space; any thread, never blocks on the disk ------------------------------------------- */

struct spool_usage {
    uint64_t used_bytes;  /* blocks of all files, and 16 bytes for each ack not yet written */
    uint64_t max_bytes;   /* spool-max-bytes */
    uint64_t limit_bytes; /* what new requests may use: max less the reserve */
    uint64_t dead_bytes;
    uint64_t waiting;   /* records not settled */
    uint64_t oldest_ns; /* arrival of the oldest waiting record, to the accuracy of a segment's
                           oldest; 0: none. Delivery knows better for its window */
    uint32_t segments;
    bool is_full;     /* a request was refused and use has not fallen to 95 % of limit since */
    bool is_low_disk; /* spool_set_low_disk, or the file system gave no space: as good as full */
};
void spool_usage(spool_t *self, struct spool_usage *out);

/* Upkeep says whether the file system runs low; new requests are refused while it does. */
void spool_set_low_disk(spool_t *self, bool is_low);
/* Upkeep, each minute: counts the directory anew. Returns the difference found (0: right). Blocks.
 */
int64_t spool_recount(spool_t *self);

/* --- reading; delivery (and tools) ----------------------------------------------------------- */

/* A durable record, by value. */
struct record_ref {
    struct record_id id;
    uint64_t offset;     /* of the record in its segment */
    uint64_t arrival_ns; /* at the gateway; of a moved record, the first */
    uint32_t meta_len;
    uint32_t body_len;
    uint16_t extra_len;
    uint8_t moves;
    struct record_history history; /* as stored; delivery's own knowledge goes on from it */
    uint32_t lost; /* from spool_scan: not a record but a damaged range of so many ordinals from
                      id.ordinal on; tell upkeep (acks_lose). meta_len: 0, body_len: its bytes */
};

/* A segment as the table has it. */
struct segment_info {
    uint64_t segno;
    uint32_t records; /* ordinals given out */
    uint32_t settled;
    uint64_t end; /* proven: everything before it was synced */
    uint64_t oldest_ns;
    bool is_sealed;
};

/* The first segment with a number above `segno` that has unsettled records; false: none. Start with
 * 0. The active segment is among them. */
bool spool_next(spool_t *self, uint64_t segno, struct segment_info *out);
bool spool_info(spool_t *self, uint64_t segno, struct segment_info *out);

/* Start with the segno and zeros; only spool_scan changes the rest. */
struct spool_cursor {
    uint64_t segno;
    uint64_t offset;
    uint32_t ordinal;
};

/* Unsettled records from the cursor on, at most max, headers only, up to the proven end of the
 * cursor's segment; the cursor moves behind the last one. The number found: 0 = end of what is
 * proven now (or the segment is gone), -1 with the reason = it cannot be read now. Reads the disk
 * in pieces of 256 KiB; needs no memory that grows with the backlog. */
int spool_scan(spool_t *self, struct spool_cursor *cursor, struct record_ref *out, int max,
               struct err *err) MUST_USE;

enum read_result {
    READ_OK,
    READ_CORRUPT, /* does not read back as written: never send it; tell upkeep (acks_lose) */
    READ_BAD,   /* the disk does not give it (EIO), which may pass: CORRUPT only when it does not */
    READ_LATER, /* cannot be had now, for want of a descriptor */
    READ_GONE   /* its segment is no longer there */
};

/* meta and body in one allocation. Free with spool_blob_free. */
struct spool_blob {
    char *memory;
    struct slice meta;
    struct slice body;
    struct record_origin origin; /* where it came from first; history: as stored */
};
/* Reads and checks one record. Blocks on the disk; holds no lock meanwhile. */
enum read_result spool_read(spool_t *self, const struct record_ref *ref, struct spool_blob *out,
                            struct err *err) MUST_USE;
void spool_blob_free(struct spool_blob *blob);

/* --- what became of records, in memory; delivery ------------------------------------------------
 */

/* The record will not be delivered again. False when it already was settled or is unknown: then
 * nothing is to be done (no acks_add). In memory only: acks_add is what survives a restart. */
bool spool_settle(spool_t *self, const struct record_id *id);
bool spool_is_settled(spool_t *self, const struct record_id *id);
/* Kept for spool_scan to give back, so that a ref may be forgotten and found again. */
void spool_remember(spool_t *self, const struct record_id *id,
                    const struct record_history *history);

#endif
