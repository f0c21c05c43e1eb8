// SPDX-License-Identifier: MIT
/* msgpack_head: reads what stands before a msgpack value's content: its kind and its length. Any
 * thread. */
#ifndef MCPD_MSGPACK_HEAD_H
#define MCPD_MSGPACK_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

enum msgpack_kind {
    MSGPACK_NIL,
    MSGPACK_BOOL,
    MSGPACK_INT,   /* fits int64 */
    MSGPACK_UINT,  /* beyond int64 */
    MSGPACK_FLOAT, /* 32 or 64 bits */
    MSGPACK_STR,
    MSGPACK_BIN,
    MSGPACK_EXT,
    MSGPACK_ARRAY,
    MSGPACK_MAP,
};

struct msgpack_head {
    enum msgpack_kind kind;
    size_t head_len; /* bytes before the content */
    size_t len; /* str, bin, ext: bytes of content, which are there; array: elements; map: pairs;
                   else 0: the head holds the value */
    union {
        bool boolean;
        int64_t integer;
        uint64_t beyond; /* MSGPACK_UINT */
        double number;
    };
};

static inline bool msgpack_is_container(enum msgpack_kind kind)
{
    return kind == MSGPACK_ARRAY || kind == MSGPACK_MAP;
}

/* -1 when bytes are no value, are cut short within the head, or the content of a text (str, bin,
 * ext) is. */
int msgpack_head_read(struct msgpack_head *self, struct slice bytes) MUST_USE;

#endif
