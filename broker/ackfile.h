// SPDX-License-Identifier: MIT
/*
 * ackfile: one append-only file of ack entries beside a segment or a file of dead letters. One
 * thread; calls block on the disk.
 */
#ifndef MCPD_ACKFILE_H
#define MCPD_ACKFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/segment.h"
#include "common/buf.h"
#include "common/err.h"

struct ackfile {
    struct segment_header segment; /* whose entries these are */
    int fd;                        /* -1: not open */
    uint64_t offset;
    struct buf pending; /* encoded, not yet written */
    bool is_dirty;      /* written, not yet synced */
    bool is_failed;     /* a write or sync failed for good: nothing more goes in */
};

void ackfile_init(struct ackfile *self, const struct segment_header *segment);
/* Closes; what is pending is lost. */
void ackfile_fini(struct ackfile *self);

/* Buffers one entry; false when the buffer is full (1 MiB) or the file failed. */
bool ackfile_add(struct ackfile *self, const struct ack_entry *entry);
/* Writes what is pending, creating the file when needed; one of another segment is written over.
 * -1: errno; with ENOSPC and the like it may be tried again. */
int ackfile_write(struct ackfile *self, int dir_fd) MUST_USE;
int ackfile_sync(struct ackfile *self) MUST_USE;

/* Reads a segment's entries and gives each good one to visit. The number of bytes that are no good
 * entry (torn or damaged: ignored), or -1 when the file is absent, not this segment's, or cannot be
 * read. */
typedef void ackfile_visit(void *arg, const struct ack_entry *entry);
int64_t ackfile_load(int dir_fd, const struct segment_header *segment, ackfile_visit *visit,
                     void *arg);

#endif
