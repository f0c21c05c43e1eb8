// SPDX-License-Identifier: MIT
/*
 * inspect: what one file of records holds, found by reading alone. A sealed file costs its header
 * and its seal; any other is walked, every record checked, and each damaged range is told apart:
 * torn (its batch may never have been synced) or corrupt (it had been: something later vouches for
 * it). Used by recovery, by dead letters and by offline tools.
 */
#ifndef MCPD_INSPECT_H
#define MCPD_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/logfile.h"
#include "broker/segment.h"
#include "common/err.h"

struct bad_range {
    uint64_t offset;
    uint64_t len;     /* 0: only ordinals are missing */
    uint32_t ordinal; /* the first lost one */
    uint32_t lost;    /* may be 0: damage outside of records */
    uint32_t batch;   /* that it belonged to; UINT32_MAX: behind everything */
    bool is_corrupt;
    bool is_void; /* nothing in it to keep: zeros, or half a seal */
};

enum inspect_kind {
    INSPECT_SEALED,
    INSPECT_OPEN,    /* walked */
    INSPECT_UNUSED,  /* nothing was ever written into it */
    INSPECT_RUBBISH, /* bytes, but no record of ours */
    INSPECT_UNKNOWN  /* a format that is not ours: touch nothing */
};

struct inspection {
    enum inspect_kind kind;
    struct segment_header header; /* made up from its records where it was damaged */
    bool is_header_damaged;
    uint64_t file_len;
    uint64_t file_bytes; /* allocated */
    uint64_t end;        /* behind the last good record; of a sealed file, of its SEAL's */
    uint32_t records;    /* ordinals given out, lost ones included */
    uint32_t last_batch;
    uint64_t oldest_ns;
    uint64_t bytes_read;
    struct bad_range *bad; /* INSPECT_OPEN only */
    size_t bad_count;
    struct logfile tally; /* INSPECT_OPEN: what a seal would say; fd -1 */
};

/* What the next file's header vouches for; zeros when there is none or it names another. */
struct vouch {
    uint64_t end;
    uint32_t records;
};

/* segno: by its name. must_stop may be null. 0, or -1 with the reason: it cannot be read, or
 * must_stop. End
 * with inspect_fini in either case. */
int inspect_file(struct inspection *out, int dir_fd, uint64_t segno, const struct vouch *vouch,
                 bool (*must_stop)(void), struct err *err) MUST_USE;
/* Header alone, for the vouch of the file before. */
enum segment_validity inspect_header(int dir_fd, uint64_t segno, struct segment_header *out);
void inspect_fini(struct inspection *self);

#endif
