// SPDX-License-Identifier: MIT
/*
 * table: the segments of a spool in memory, shared by its threads behind one mutex; internal to
 * the spool's own files. About 200 bytes a segment, and one bit a record in segments where some
 * record is settled. No call reads or writes a file; table_hold opens
 * one, and table_recount asks for sizes.
 */
#ifndef MCPD_TABLE_H
#define MCPD_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/segment.h"
#include "broker/settled.h"
#include "broker/spool.h"

/* Fields are the table's; a holder may read header and fd. */
struct segment {
    struct segment_header header;
    uint64_t end;
    uint32_t records; /* ordinals given out */
    uint32_t settled;
    uint32_t unwritten; /* records whose final ack is not in the ack file */
    uint32_t last_batch;
    uint64_t oldest_ns;
    uint64_t log_bytes; /* allocated */
    uint64_t ack_bytes;
    int fd; /* -1: not open */
    unsigned holds;
    bool is_pinned; /* fd must stay open: the active one, and one that failed */
    bool is_sealed;
    bool is_removed;
    uint64_t used_at;
    struct settled fates;
};

struct table {
    pthread_mutex_t mutex;
    int dir_fd;             /* seg/, borrowed */
    struct segment **items; /* by segno */
    size_t count;
    size_t capacity;
    unsigned open_fds;
    uint64_t clock; /* ticks at each use of a descriptor */
    uint64_t waiting;
    uint64_t unwritten;
    uint64_t file_bytes;  /* of logs and acks */
    uint64_t other_bytes; /* of dead/ and quarantine/ */
    uint64_t dead_bytes;
};

void table_init(struct table *self, int dir_fd);
void table_fini(struct table *self);

/* Takes over the struct's content. */
void table_add(struct table *self, const struct segment *segment);
/* The segment with its descriptor open, not to go away before table_drop; null: gone, or it cannot
 * be opened (errno; 0: gone). */
struct segment *table_hold(struct table *self, uint64_t segno);
void table_drop(struct table *self, struct segment **segment_p);

/* Intake: n more records are durable, up to `end`. */
void table_publish(struct table *self, uint64_t segno, uint32_t n, uint64_t end, uint32_t batch,
                   uint64_t oldest_ns);
void table_set_log_bytes(struct table *self, uint64_t segno, uint64_t log_bytes);
/* No more records will come. keep_fd: its descriptor must not be closed before it is removed. */
void table_seal(struct table *self, uint64_t segno, bool keep_fd);
/* n final entries went to the ack file, which has ack_bytes now. */
void table_acked(struct table *self, uint64_t segno, uint32_t n, uint64_t ack_bytes);
void table_set_other_bytes(struct table *self, uint64_t dead_bytes, uint64_t quarantine_bytes);

bool table_settle(struct table *self, uint64_t segno, uint32_t nonce32, uint32_t ordinal);
bool table_is_settled(struct table *self, uint64_t segno, uint32_t ordinal);
void table_remember(struct table *self, uint64_t segno, uint32_t ordinal,
                    const struct record_history *history);
/* False, and *out is left alone, when nothing is remembered. */
bool table_recall(struct table *self, uint64_t segno, uint32_t ordinal, struct record_history *out);
/* Drops settled refs from the array and fills in the others' history. What is left. */
int table_filter(struct table *self, uint64_t segno, struct record_ref *refs, int n);

bool table_next(struct table *self, uint64_t segno, struct segment_info *out);
bool table_info(struct table *self, uint64_t segno, struct segment_info *out);
bool table_header(struct table *self, uint64_t segno, struct segment_header *out);
/* What the next segment's header says of the one before; segno 0: there is none. */
void table_last(struct table *self, struct segment_header *next);
/* Sealed segments whose records are all settled. */
size_t table_finished(struct table *self, uint64_t *segnos, size_t max);
/* Asks the file system for the size of each segment's files again and sums up anew; the difference
 * to what was believed. Blocks on the disk. */
int64_t table_recount(struct table *self);
void table_remove(struct table *self, uint64_t segno);

/* Fills all but max, limit, is_full. */
void table_usage(struct table *self, struct spool_usage *out);

#endif
