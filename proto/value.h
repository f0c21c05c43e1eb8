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
    bool is_skipped; /* value_write_members leaves it out: a later one has its key, or it is content
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
            size_t source_len;   /* bytes it took in the body, where the reader knows */
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

/* How many containers lie inside each other, the value itself included: 0 for a scalar. */
size_t value_depth(const struct value *value);

/* Marks all but the last of the members with equal keys as skipped. -1 over the arena's maximum. */
int value_mark_duplicates(struct value *first, struct arena *scratch) MUST_USE;

/*
 * JSON text written into a buffer; the first overflow sticks and is asked for once, at the end.
 * Bytes become {"bytes":"<base64>"}; NaN and infinities the texts "NaN", "Infinity", "-Infinity".
 */
struct json_out {
    struct buf buf;
    bool is_full;
    struct arena *scratch; /* for finding duplicate keys; may be reset by its owner between calls */
};

void json_out_init(struct json_out *self, size_t max_bytes, struct arena *scratch);
void json_out_fini(struct json_out *self);
void json_out_reset(struct json_out *self);

void json_out_raw(struct json_out *self, const char *text, size_t len);
void json_out_str(struct json_out *self, const char *text);   /* raw, as it stands */
void json_out_text(struct json_out *self, struct slice text); /* quoted, escaped, cleaned */
void json_out_int(struct json_out *self, int64_t number);
void json_out_value(struct json_out *self, const struct value *value);
/* {"key":value,...} of the members that are not skipped. */
void json_out_members(struct json_out *self, const struct value *first);

#endif
