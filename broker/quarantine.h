// SPDX-License-Identifier: MIT
/*
 * quarantine: bytes that do not read back as written are kept in quarantine/<segno>-<offset>.bin
 * for whoever wants to look. Making such a copy twice makes one file. Above its share (5 % of the
 * spool) the oldest is dropped. One thread at a time; blocks on the disk.
 */
#ifndef MCPD_QUARANTINE_H
#define MCPD_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/spool.h"

/* Copies [offset, offset + len) of a segment, synced. 0: the copy is durable (or the range cannot
 * be read, or is larger than the share: as much as there is). *is_new: it was not there before.
 * -1: no copy; leave the source as it is. */
int quarantine_copy(spool_t *spool, uint64_t segno, int fd, uint64_t offset, uint64_t len,
                    bool *is_new, struct err *err) MUST_USE;
/* Moves a whole segment file there. */
int quarantine_move(spool_t *spool, uint64_t segno, struct err *err) MUST_USE;

#endif
