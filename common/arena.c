// SPDX-License-Identifier: MIT
/*
 * Chunks double in size up to 1 MiB, so that a small batch costs one small malloc and a large one
 * few. An object larger than that gets a chunk of its own size.
 */
#include "common/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MIN ((size_t)8 * 1024)
#define CHUNK_MAX ((size_t)1024 * 1024)

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* of data */
    alignas(max_align_t) char data[];
};

void arena_init(struct arena *self, size_t max_bytes)
{
    *self = (struct arena){.max_bytes = max_bytes};
}

static void free_chunks(struct arena_chunk *chunk)
{
    while (chunk) {
        struct arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
}

void arena_fini(struct arena *self)
{
    free_chunks(self->head);
    arena_init(self, self->max_bytes);
}

void arena_reset(struct arena *self)
{
    self->used_bytes = 0;
    if (!self->head)
        return;
    free_chunks(self->head->older);
    self->head->older = NULL;
    self->total_bytes = self->head->size;
}

/* A fresh chunk with room for size bytes; 0, or -1 over the maximum. */
static int grow(struct arena *self, size_t size)
{
    size_t want = self->head ? self->head->size * 2 : CHUNK_MIN;
    if (want > CHUNK_MAX)
        want = CHUNK_MAX;
    if (want < size)
        want = size;
    if (want > self->max_bytes - self->total_bytes)
        want = size;
    if (want > self->max_bytes - self->total_bytes)
        return -1;
    struct arena_chunk *chunk = malloc(sizeof(*chunk) + want);
    if (!chunk)
        abort();
    chunk->older = self->head;
    chunk->size = want;
    self->head = chunk;
    self->used_bytes = 0;
    self->total_bytes += want;
    return 0;
}

static void *take(struct arena *self, size_t size, size_t align)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t start = (self->used_bytes + align - 1) / align * align;
    if (!self->head || start > self->head->size || size > self->head->size - start) {
        if (grow(self, size) == -1)
            return NULL;
        start = 0;
    }
    self->used_bytes = start + size;
    return self->head->data + start;
}

void *arena_alloc(struct arena *self, size_t size)
{
    return take(self, size, alignof(max_align_t));
}

void *arena_zalloc(struct arena *self, size_t size)
{
    void *mem = arena_alloc(self, size);
    if (mem)
        memset(mem, 0, size);
    return mem;
}

char *arena_copy(struct arena *self, const void *data, size_t len)
{
    char *mem = take(self, len, 1);
    if (mem && len > 0)
        memcpy(mem, data, len);
    return mem;
}
