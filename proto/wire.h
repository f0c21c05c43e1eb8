// SPDX-License-Identifier: MIT
/*
 * wire: the header frame of a message of the queue protocol, to and from a struct, by the table
 * messages.def. A header frame is one byte version, one byte type and a msgpack array of the
 * fields in the table's order. Plain functions; any thread.
 */
#ifndef MCPD_WIRE_H
#define MCPD_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/err.h"

#define WIRE_VERSION 1

/* Limits of decoding; the header frame of any message fits into WIRE_HEADER_MAX. */
#define WIRE_HEADER_MAX ((size_t)64 * 1024)
#define WIRE_TEXT_MAX   1024
#define WIRE_BYTES_MAX  4096
#define WIRE_LIST_MAX   1024

/* Limits of one SUBMIT: the bytes count meta and body; one request alone may be larger. */
#define WIRE_SUBMIT_COUNT 1024
#define WIRE_SUBMIT_BYTES ((size_t)4 * 1024 * 1024)

/* A side that heard nothing for so many heartbeats counts the other as gone. */
#define WIRE_SILENT_BEATS 5

enum wire_route { WIRE_GB = 1, WIRE_BG = 2, WIRE_CB = 4, WIRE_BC = 8 };

enum wire_body { WIRE_NONE, WIRE_ONE, WIRE_MANY };

enum wire_type {
#define MESSAGE(id, number, routes, body, help) WIRE_##id = number,
#define FIELD(message, type, name, help)
#define END(id)
#include "proto/messages.def"
#undef MESSAGE
#undef FIELD
#undef END
    WIRE_TYPE_END
};

/* The items of a LIST: to encode, an array; after decoding, raw msgpack, walked by wire_list_next.
 */
struct wire_list {
    uint32_t count;
    const struct slice *items; /* encoding only */
    struct slice raw;          /* decoding only: the values */
};

typedef uint32_t wire_field_U32;
typedef uint64_t wire_field_U64;
typedef bool wire_field_BOOL;
typedef struct slice wire_field_TEXT;
typedef struct slice wire_field_BYTES;
typedef struct wire_list wire_field_LIST;

/* One struct a message: struct wire_HELLO and so on. */
#define MESSAGE(id, number, routes, body, help) struct wire_##id {
#define FIELD(message, type, name, help)        wire_field_##type name;
#define END(id) \
    }           \
    ;
#include "proto/messages.def"
#undef MESSAGE
#undef FIELD
#undef END

struct wire_message {
    enum wire_type type;
    union {
#define MESSAGE(id, number, routes, body, help) struct wire_##id id;
#define FIELD(message, type, name, help)
#define END(id)
#include "proto/messages.def"
#undef MESSAGE
#undef FIELD
#undef END
    };
};

/* Writes the header frame in place of what buf held. -1 when it would be over buf's maximum. */
int wire_encode(const struct wire_message *self, struct buf *frame) MUST_USE;

enum wire_result {
    WIRE_OK,
    WIRE_BAD, /* not a message, or one that this route does not have */
    WIRE_VERSION_DIFFERS,
};

/* Reads a header frame that came over the route. TEXT, BYTES and LIST point into frame. More fields
 * than the table has are stepped over (a later minor version); fewer are an error. err has the
 * reason unless the result is WIRE_OK. */
enum wire_result wire_decode(struct wire_message *self, enum wire_route route, struct slice frame,
                             struct err *err) MUST_USE;

/* Takes the next item off a decoded list; false at its end. */
bool wire_list_next(struct wire_list *self, struct slice *item);

/* "HELLO"; "?" for an unknown type. */
const char *wire_name(enum wire_type type);
/* How many request frame pairs a type has behind its header. */
enum wire_body wire_body_of(enum wire_type type);

/* The tables of messages for docs/protocol.md. */
void wire_markdown(FILE *out);

#endif
