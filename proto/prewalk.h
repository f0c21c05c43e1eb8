// SPDX-License-Identifier: MIT
/*
 * prewalk: walks over a foreign body before anything is built from it, without recursion and
 * without memory of its own, and refuses what would hurt a decoder: nesting deeper than a thread's
 * stack bears, more values than a body's size lets one expect, lengths beyond the bytes that are
 * left. It checks shape, not meaning: a body that passes may still be no batch. Any thread.
 */
#ifndef MCPD_PREWALK_H
#define MCPD_PREWALK_H

#include <protobuf-c/protobuf-c.h>

#include "proto/batch.h"

/* Containers (messages, arrays, maps) inside each other, the outermost included. */
#define PREWALK_DEPTH_MAX 32
/* Messages, array elements and map entries of one body. */
#define PREWALK_VALUES_MAX 2000000

/* BATCH_OK, BATCH_MALFORMED, BATCH_TOO_DEEP or BATCH_TOO_MANY_VALUES; all but OK with what was
 * found and at which byte. */

/* The wire format, following the message fields of schema and of what they lead to. Unknown fields
 * are stepped over. */
enum batch_result prewalk_protobuf(const ProtobufCMessageDescriptor *schema, struct slice body,
                                   struct err *err) MUST_USE;
/* Brackets and strings; between them any bytes pass. */
enum batch_result prewalk_json(struct slice body, struct err *err) MUST_USE;
/* One msgpack value and nothing behind it. */
enum batch_result prewalk_msgpack(struct slice body, struct err *err) MUST_USE;

#endif
