// SPDX-License-Identifier: MIT
/*
 * Capacity doubles up to the maximum, so adding n bytes one by one costs O(n). Invariant:
 * len <= capacity <= max + 1; the extra byte is for buf_cstr's NUL.
 */
#include "common/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIRST_CAPACITY ((size_t)64)

void buf_init(struct buf *self, size_t max)
{
    *self = (struct buf){.max = max};
}

void buf_fini(struct buf *self)
{
    free(self->data);
    *self = (struct buf){.max = self->max};
}

void buf_reset(struct buf *self)
{
    self->len = 0;
}

/* Room for len bytes and the NUL behind them. */
static void grow(struct buf *self, size_t len)
{
    size_t capacity = self->capacity ? self->capacity : FIRST_CAPACITY;
    while (capacity < len + 1)
        capacity *= 2;
    if (capacity > self->max + 1)
        capacity = self->max + 1;
    char *data = realloc(self->data, capacity);
    if (!data)
        abort();
    self->data = data;
    self->capacity = capacity;
}

char *buf_reserve(struct buf *self, size_t len)
{
    assert(self->len <= self->max);
    if (len > self->max - self->len)
        return NULL;
    if (self->len + len + 1 > self->capacity)
        grow(self, self->len + len);
    return self->data + self->len;
}

int buf_add(struct buf *self, const void *data, size_t len)
{
    char *to = buf_reserve(self, len);
    if (!to)
        return -1;
    if (len > 0)
        memcpy(to, data, len);
    self->len += len;
    return 0;
}

int buf_add_str(struct buf *self, const char *text)
{
    return buf_add(self, text, strlen(text));
}

int buf_printf(struct buf *self, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(len >= 0);
    char *to = buf_reserve(self, (size_t)len);
    if (!to)
        return -1;
    va_start(args, format);
    vsnprintf(to, (size_t)len + 1, format, args);
    va_end(args);
    self->len += (size_t)len;
    return 0;
}

const char *buf_cstr(struct buf *self)
{
    char *end = buf_reserve(self, 0);
    if (!end)
        return NULL;
    *end = 0;
    return self->data;
}

char *buf_steal(struct buf *self, size_t *len_out)
{
    char *data = self->data;
    *len_out = self->len;
    *self = (struct buf){.max = self->max};
    return data;
}

struct slice slice_of(const char *text)
{
    return (struct slice){.data = text, .len = text ? strlen(text) : 0};
}

bool slice_equals(struct slice slice, const char *text)
{
    return slice.len == strlen(text) && memcmp(slice.data, text, slice.len) == 0;
}

bool slice_equals_nocase(struct slice slice, const char *text)
{
    return slice.len == strlen(text) && strncasecmp(slice.data, text, slice.len) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice slice)
{
    while (slice.len > 0 && is_blank(slice.data[0])) {
        slice.data++;
        slice.len--;
    }
    while (slice.len > 0 && is_blank(slice.data[slice.len - 1]))
        slice.len--;
    return slice;
}

char *slice_dup(struct slice slice)
{
    char *copy = malloc(slice.len + 1);
    if (!copy)
        abort();
    if (slice.len > 0)
        memcpy(copy, slice.data, slice.len);
    copy[slice.len] = 0;
    return copy;
}
