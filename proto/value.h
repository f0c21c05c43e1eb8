// SPDX-License-Identifier: MIT
/*
 * value: a tree of foreign values, the common ground of every decoder: what a JSON, msgpack or
 * protobuf body holds, before it is mapped. Nodes live in an arena, texts point into the body or
 * the arena and are as they came (not cleaned); cleaning happens when they are written.
 *
 * Children form a list, so that a reader appends without knowing their number.
 */
#ifndef MCPD_VALUE_H
#define MCPD_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/buf.h"

enum value_type {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_DOUBLE,
    VALUE_TEXT,
    VALUE_BYTES,
    VALUE_ARRAY,
    VALUE_MAP,
};

struct value {
    enum value_type type;
    bool is_skipped;  /* json_out_members leaves it out: a later one has its key, or it is content
                       */
    struct slice key; /* in a map */
    struct value *next;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct slice text; /* VALUE_TEXT, VALUE_BYTES */
        struct {
            struct value *first; /* VALUE_ARRAY, VALUE_MAP */
            /* Where it starts in the body (JSON only) and how many bytes it took there; UINT32_MAX
             * also for more. */
            uint32_t source_at;
            uint32_t source_len;
        };
    };
};

/* A list that is appended to. Zero-initialise. */
struct value_list {
    struct value *first;
    struct value *last;
};

/* A new zeroed node at the end; null over the arena's maximum. */
struct value *value_append(struct arena *arena, struct value_list *list) MUST_USE;

/* The same with its content. */
struct value *value_append_double(struct arena *arena, struct value_list *list,
                                  double number) MUST_USE;

/* Makes value the number; beyond int64 it becomes a text of its digits. -1 over the arena's
 * maximum.
 */
int value_set_uint(struct arena *arena, struct value *value, uint64_t number) MUST_USE;

/* Of a container, for readers: what it took of the body. */
void value_set_source(struct value *value, size_t start, size_t end);

/* How many containers lie inside each other, the value itself included: 0 for a scalar. */
size_t value_depth(const struct value *value);

/* Marks all but the last of the members with equal keys as skipped. -1 over the arena's maximum. */
int value_mark_duplicates(struct value *first, struct arena *scratch) MUST_USE;

#endif
