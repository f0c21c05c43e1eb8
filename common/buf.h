// SPDX-License-Identifier: MIT
/*
 * buf: growable bytes with a mandatory maximum, for everything whose size input decides. The limit
 * is set at birth; going over it is an error of the call, never of the process (running out of
 * memory below the limit aborts). One thread at a time.
 */
#ifndef MCPD_BUF_H
#define MCPD_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct buf {
    char *data; /* null until the first byte; not NUL-terminated unless buf_cstr was called */
    size_t len;
    size_t capacity;
    size_t max;
};

/* Borrowed bytes: valid as long as whatever they were cut from. Not NUL-terminated. */
struct slice {
    const char *data;
    size_t len;
};

#define SLICE_FORMAT      "%.*s"
#define SLICE_ARGS(slice) (int)(slice).len, (slice).data

void buf_init(struct buf *self, size_t max);
void buf_fini(struct buf *self); /* safe on a zeroed struct and twice */

/* Forgets the content, keeps the memory. */
void buf_reset(struct buf *self);

/* Returns where `len` more bytes may be written (then add to self->len), or null over the maximum.
 */
char *buf_reserve(struct buf *self, size_t len) MUST_USE;

/* 0, or -1 over the maximum; then nothing was added. */
int buf_add(struct buf *self, const void *data, size_t len) MUST_USE;
int buf_add_str(struct buf *self, const char *text) MUST_USE;
int buf_printf(struct buf *self, const char *format, ...) PRINTF_LIKE(2, 3) MUST_USE;

/* Adds a terminating NUL behind the content without counting it; null over the maximum. The pointer
 * lives until the next call on self. */
const char *buf_cstr(struct buf *self) MUST_USE;

/* Hands the memory over (malloc'd; the caller frees it) and leaves self empty. Null when empty. */
char *buf_steal(struct buf *self, size_t *len_out) MUST_USE;

struct slice slice_of(const char *text); /* null gives an empty slice */
bool slice_equals(struct slice slice, const char *text);
bool slice_equals_nocase(struct slice slice, const char *text);
/* Blanks and tabs cut from both ends. */
struct slice slice_trim(struct slice slice);
/* A malloc'd NUL-terminated copy. */
char *slice_dup(struct slice slice) MUST_USE;

#endif
