// SPDX-License-Identifier: MIT
/*
 * settled: what is known in memory of the records of one segment: a bit for each that is settled,
 * and the history of the few that have one. A segment in which nothing happened costs nothing.
 * Within the table's mutex.
 */
#ifndef MCPD_SETTLED_H
#define MCPD_SETTLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/segment.h"

struct settled {
    uint8_t *bits; /* null: none is settled */
    size_t bits_len;
    struct settled_memory *memories; /* by ordinal */
    size_t memory_count;
    size_t memory_capacity;
};

void settled_fini(struct settled *self); /* zeroed is ready for use */

bool settled_has(const struct settled *self, uint32_t ordinal);
/* False when it was settled before. Forgets its history. records: how many the segment has, above
 * ordinal. */
bool settled_add(struct settled *self, uint32_t ordinal, uint32_t records) MUST_USE;

/* Nothing for a settled record. */
void settled_remember(struct settled *self, uint32_t ordinal, const struct record_history *history);
/* Null: nothing is remembered. Lives until the next call that changes self. */
const struct record_history *settled_recall(const struct settled *self, uint32_t ordinal);

#endif
