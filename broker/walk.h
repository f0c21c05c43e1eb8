// SPDX-License-Identifier: MIT
/*
 * walk: goes through the records of a file that may be damaged. A header that is none ends nothing:
 * the walk looks for the next one of the same nonce and reports the bytes between as a gap. Blocks
 * that the disk does not give (EIO) count as damaged. It only reads. One thread; blocks on the
 * disk.
 */
#ifndef MCPD_WALK_H
#define MCPD_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/segment.h"
#include "common/err.h"

struct walk {
    int fd; /* borrowed */
    uint32_t nonce32;
    uint64_t offset;  /* where the next step begins */
    uint64_t end;     /* nothing at or behind it is looked at */
    uint32_t ordinal; /* the next record's, if none is missing */
    uint64_t bytes_read;
    /* Bytes of the file at hand. */
    uint8_t *piece;
    uint64_t piece_at;
    size_t piece_len;
    size_t read_ahead;
};

enum walk_step {
    WALK_RECORD,
    WALK_GAP, /* bytes that are no record, or (len 0) missing ordinals without any; the next step is
                 the record behind, or the end */
    WALK_END, /* nothing but zeros from `offset` on, or the end */
    WALK_UNKNOWN, /* a valid header of a kind that must be understood and is not */
    WALK_ERROR    /* cannot be read; errno */
};

struct walk_item {
    struct record_header header; /* of WALK_RECORD; of WALK_GAP: of the record behind it */
    uint64_t offset;
    uint64_t len;
    bool is_last; /* of WALK_GAP: no record is behind it, header is not set */
    bool is_zero; /* of WALK_GAP: a hole */
};

/* Starts at `offset`, a place where a record is expected. */
void walk_init(struct walk *self, int fd, uint32_t nonce32, uint64_t offset, uint64_t end,
               uint32_t ordinal);
void walk_fini(struct walk *self);
enum walk_step walk_next(struct walk *self, struct walk_item *out) MUST_USE;
/* Whether extra, meta and body of the record that walk_next gave are what was written. 1, 0, or -1:
 * cannot be read. */
int walk_check(struct walk *self, const struct walk_item *item) MUST_USE;

#endif
