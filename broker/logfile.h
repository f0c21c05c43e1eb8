// SPDX-License-Identifier: MIT
/*
 * logfile: the writing end of one append-only file of records: a segment of the spool or a file of
 * dead letters. It knows the order in which things become durable and nothing of limits or of what
 * to do about errors. One thread; calls block on the disk.
 *
 * logfile_create, then any number of (logfile_append ..., logfile_commit), then logfile_seal or
 * not, then logfile_fini. After any call failed with is_failed set, the file must not be written or
 * synced again: only fini.
 */
#ifndef MCPD_LOGFILE_H
#define MCPD_LOGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/segment.h"
#include "common/buf.h"
#include "common/err.h"

#define LOGFILE_NAME_SIZE 32

struct logfile {
    int fd;
    struct segment_header header;
    uint32_t nonce32;
    uint64_t offset;        /* where the next record goes */
    uint64_t allocated_end; /* space is reserved up to here */
    uint64_t step_bytes;    /* by which it is reserved; 0: not ahead of writing */
    uint32_t batch;         /* the one being written, or the next */
    uint32_t batch_first;
    uint32_t ordinal; /* the next record's */
    bool is_failed;
    /* What was committed: what a reader may trust. */
    uint64_t proven_end;
    uint32_t proven_batch;
    uint32_t proven_ordinal;
    struct segment_seal totals; /* of what was appended */
    struct segment_place *places;
    uint32_t place_capacity;
    struct buf staging; /* small pieces of a batch, copied together */
    struct iovec *parts;
    size_t part_capacity;
};

struct logfile_item {
    uint8_t type;                       /* RECORD_DATA or RECORD_DEAD */
    const struct record_origin *origin; /* may be null */
    struct slice note;                  /* encoded, or empty */
    struct slice meta;
    struct slice body;
    uint64_t enqueued_ns;
};

/* "00000000000000000042.log" */
void logfile_name(uint64_t segno, const char *suffix, char out[LOGFILE_NAME_SIZE]);
/* Whether a name is one, with this suffix. */
bool logfile_parse_name(const char *name, const char *suffix, uint64_t *segno);

enum logfile_result {
    LOGFILE_OK,
    LOGFILE_NO_SPACE, /* could not be reserved; nothing was written, the file is as it was */
    LOGFILE_FAILED,   /* is_failed */
    LOGFILE_NOT_MADE  /* from create: the file could not be created, nothing is on disk */
};

/* New file, its first step reserved, header written, file and directory synced. header->nonce and
 * created_ns are filled in. When it fails after creating, the file is unlinked again. */
enum logfile_result logfile_create(struct logfile *self, int dir_fd,
                                   const struct segment_header *header, uint64_t step_bytes,
                                   struct err *err) MUST_USE;
/* Makes one for a file that exists and was walked: nothing is read or written. It owns fd. */
void logfile_adopt(struct logfile *self, int fd, const struct segment_header *header);
/* Counts a record that is in the file already, for the seal. */
void logfile_count(struct logfile *self, const struct record_header *record, uint64_t offset);

/* Writes records behind the last, as one piece; all appends up to a commit form one batch.
 * offsets[i] is set to the i-th one's. */
enum logfile_result logfile_append(struct logfile *self, const struct logfile_item *items, size_t n,
                                   uint64_t *offsets, struct err *err) MUST_USE;
/* Syncs the batch. */
enum logfile_result logfile_commit(struct logfile *self, struct err *err) MUST_USE;
/* Reserves one more step of space, to see whether there is some. */
enum logfile_result logfile_reserve_step(struct logfile *self, struct err *err) MUST_USE;
/* A MARK as a batch of its own; synced only when asked: the next sync will do. */
enum logfile_result logfile_mark(struct logfile *self, bool and_sync, struct err *err) MUST_USE;
/* SEAL, cut to length, synced. */
enum logfile_result logfile_seal(struct logfile *self, struct err *err) MUST_USE;
/* Frees; closes the file unless keep_fd. */
void logfile_fini(struct logfile *self, bool keep_fd);

/* Bytes a seal will need. */
uint64_t logfile_seal_bytes(const struct logfile *self);

#endif
