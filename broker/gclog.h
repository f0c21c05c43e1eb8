// SPDX-License-Identifier: MIT
/*
 * gclog: gc.log, a line for each segment that was removed. It explains gaps between the numbers and
 * keeps the highest from being used again; nothing else depends on it, and it may be deleted.
 */
#ifndef MCPD_GCLOG_H
#define MCPD_GCLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/spool.h"

/* Adds a line and syncs it. -1 is no reason to stop: removing frees the space that it needs. */
int gclog_add(spool_t *spool, uint64_t segno, const char *why);

struct gclog {
    uint64_t *segnos;
    size_t count;
    uint64_t highest;
};
/* Reads gc.log and the one before it; lines that are none are ignored. */
void gclog_load(spool_t *spool, struct gclog *out);
bool gclog_has(const struct gclog *self, uint64_t segno);
void gclog_fini(struct gclog *self);

#endif
