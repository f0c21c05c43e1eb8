// SPDX-License-Identifier: MIT
#include "broker/settled.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct settled_memory {
    uint32_t ordinal;
    struct record_history history;
};

void settled_fini(struct settled *self)
{
    free(self->bits);
    free(self->memories);
    *self = (struct settled){0};
}

bool settled_has(const struct settled *self, uint32_t ordinal)
{
    size_t byte = ordinal / 8;
    return byte < self->bits_len && (self->bits[byte] >> (ordinal % 8) & 1) != 0;
}

/* Room for all records there are, and while a segment grows, for as many again. */
static void grow(struct settled *self, uint32_t records)
{
    size_t len = records / 8 + 1;
    if (self->bits != NULL && len < self->bits_len * 2)
        len = self->bits_len * 2;
    self->bits = realloc(self->bits, len);
    if (self->bits == NULL)
        abort();
    memset(self->bits + self->bits_len, 0, len - self->bits_len);
    self->bits_len = len;
}

/* Index of the first memory with at least that ordinal. */
static size_t lower_bound(const struct settled *self, uint32_t ordinal)
{
    size_t low = 0, high = self->memory_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->memories[middle].ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct settled *self, size_t i, uint32_t ordinal)
{
    return i < self->memory_count && self->memories[i].ordinal == ordinal;
}

bool settled_add(struct settled *self, uint32_t ordinal, uint32_t records)
{
    assert(ordinal < records);
    if (settled_has(self, ordinal))
        return false;
    if (ordinal / 8 >= self->bits_len)
        grow(self, records);
    self->bits[ordinal / 8] |= (uint8_t)(1u << (ordinal % 8));
    size_t i = lower_bound(self, ordinal);
    if (is_at(self, i, ordinal)) {
        self->memory_count--;
        memmove(self->memories + i, self->memories + i + 1,
                (self->memory_count - i) * sizeof *self->memories);
    }
    return true;
}

void settled_remember(struct settled *self, uint32_t ordinal, const struct record_history *history)
{
    size_t i = lower_bound(self, ordinal);
    if (settled_has(self, ordinal))
        return;
    if (is_at(self, i, ordinal)) {
        self->memories[i].history = *history;
        return;
    }
    if (self->memory_count == self->memory_capacity) {
        self->memory_capacity = self->memory_capacity == 0 ? 8 : self->memory_capacity * 2;
        self->memories = realloc(self->memories, self->memory_capacity * sizeof *self->memories);
        if (self->memories == NULL)
            abort();
    }
    memmove(self->memories + i + 1, self->memories + i,
            (self->memory_count - i) * sizeof *self->memories);
    self->memories[i] = (struct settled_memory){ordinal, *history};
    self->memory_count++;
}

const struct record_history *settled_recall(const struct settled *self, uint32_t ordinal)
{
    size_t i = lower_bound(self, ordinal);
    return is_at(self, i, ordinal) ? &self->memories[i].history : NULL;
}
