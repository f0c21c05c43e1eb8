// SPDX-License-Identifier: MIT
/*
 * mpread: reads msgpack value by value from bytes of a peer or of the disk. Nothing is allocated
 * and nothing is trusted: msgpack-c's own unpacker reserves memory for whatever count a header
 * claims. A struct on the caller's stack; any thread.
 */
#ifndef MCPD_MPREAD_H
#define MCPD_MPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

struct mpread {
    const unsigned char *at;
    const unsigned char *end;
};

void mpread_init(struct mpread *self, struct slice bytes);
bool mpread_at_end(const struct mpread *self);

/* Each reads one value of its kind and steps over it; -1 where the bytes are cut short or of
 * another kind, and then the reader stays where it was. */
int mpread_uint(struct mpread *self, uint64_t *value) MUST_USE; /* not negative */
int mpread_bool(struct mpread *self, bool *value) MUST_USE;
int mpread_str(struct mpread *self, struct slice *text) MUST_USE;
int mpread_bin(struct mpread *self, struct slice *bytes) MUST_USE; /* str is taken too */
/* count values (pairs for a map) follow; a count that cannot fit into the rest is an error. */
int mpread_array(struct mpread *self, uint32_t *count) MUST_USE;
int mpread_map(struct mpread *self, uint32_t *count) MUST_USE;

/* Steps over one value of any kind, with all that is nested in it. */
int mpread_skip(struct mpread *self) MUST_USE;

enum mpread_kind {
    MPREAD_NIL,
    MPREAD_BOOL,
    MPREAD_INT,  /* fits int64 */
    MPREAD_UINT, /* beyond int64 */
    MPREAD_FLOAT,
    MPREAD_STR,
    MPREAD_BIN,
    MPREAD_EXT,
    MPREAD_ARRAY,
    MPREAD_MAP,
};

struct mpread_value {
    enum mpread_kind kind;
    union {
        bool boolean;
        int64_t integer;
        uint64_t beyond;
        double number;
        struct slice bytes; /* str, bin; ext: its type byte first */
        uint32_t count;     /* array: elements; map: pairs; they follow */
    };
};

/* Reads one value of any kind; of an array or map its head only. -1 as above. */
int mpread_any(struct mpread *self, struct mpread_value *value) MUST_USE;

#endif
