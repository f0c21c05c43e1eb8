// SPDX-License-Identifier: MIT
/*
 * arena: memory that is given back all at once, with a mandatory maximum, for results whose number
 * and size input decides. Cheap: a pointer moves forward in chunks. One thread at a time.
 *
 * Running over the maximum is an error of the call (null); running out of the machine's memory
 * below it aborts, as everywhere.
 */
#ifndef MCPD_ARENA_H
#define MCPD_ARENA_H

#include <stddef.h>

#include "common/buf.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *head; /* the chunk being filled; older ones hang behind it */
    size_t used_bytes;        /* of the chunk being filled */
    size_t total_bytes;       /* of all chunks */
    size_t max_bytes;         /* of all chunks */
};

void arena_init(struct arena *self, size_t max_bytes);
void arena_fini(struct arena *self); /* safe on a zeroed struct and twice */

/* Forgets everything given out and keeps one chunk, so that a loop allocates once. */
void arena_reset(struct arena *self);

/* Uninitialised bytes, aligned for any object; they live until reset or fini. A size of 0 gives a
 * valid pointer. Null over the maximum. */
void *arena_alloc(struct arena *self, size_t size) MUST_USE;
/* The same, zeroed. */
void *arena_zalloc(struct arena *self, size_t size) MUST_USE;
/* A copy of len bytes, not aligned; null over the maximum. */
char *arena_copy(struct arena *self, const void *data, size_t len) MUST_USE;

#endif
