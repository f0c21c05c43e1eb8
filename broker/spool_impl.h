// SPDX-License-Identifier: MIT
/* The inside of spool_t, for the spool's own files only. */
#ifndef MCPD_SPOOL_IMPL_H
#define MCPD_SPOOL_IMPL_H

#include <stdatomic.h>

#include "broker/spool.h"
#include "broker/table.h"

struct spool {
    struct spool_config config; /* path points to the field below */
    char *path;
    int root_fd;
    int seg_fd;
    int dead_fd;
    int quarantine_fd;
    int lock_fd;
    uint64_t segment_bytes;
    uint64_t step_bytes;  /* space of a segment is reserved by this */
    uint64_t limit_bytes; /* for new requests */
    uint64_t dead_share_bytes;
    uint64_t quarantine_share_bytes;
    struct table table;
    uint64_t next_segno; /* the appender's after spool_open */
    atomic_bool is_low_disk;
    atomic_bool is_full;         /* written by the appender */
    atomic_bool is_out_of_space; /* likewise */
    atomic_uint_fast64_t quarantine_bytes;
};

/* Sum of the allocated bytes of the files of a directory whose names end so ("": all); -1: errno.
 */
int64_t spool_dir_bytes(int dir_fd, const char *suffix);
/* The state `full` is left at so many used bytes. */
uint64_t spool_leave_full_at(const spool_t *self);
/* Counts dead/ and quarantine/ anew and tells the table. */
void spool_count_others(spool_t *self);

/* The reserve is for moves, seals, acks and dead letters. */
enum { SPOOL_RECORD_OVERHEAD = 64 * 1024 };

#endif
