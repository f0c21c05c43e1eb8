// SPDX-License-Identifier: MIT
/* pb_any: OTLP's attributes and values, as protobuf-c unpacks them, to values of a tree. Any
 * thread; recursion is bounded by the pre-walk. */
#ifndef MCPD_PB_ANY_H
#define MCPD_PB_ANY_H

#include "otlp.pb-c.h"
#include "proto/value.h"

/* The bytes themselves, borrowed. */
struct slice pb_slice(ProtobufCBinaryData bytes);

/* Unpacks a message into the arena, where all of it stays. Null when it cannot be decoded, or when
 * the arena is full. */
void *pb_unpack(const ProtobufCMessageDescriptor *schema, struct arena *arena,
                struct slice message) MUST_USE;

/* The texts are borrowed from the messages. -1 over the arena's maximum. from may be null. */
int pb_any_value(struct arena *arena, const Mcpd__Otlp__AnyValue *from, struct value *to) MUST_USE;
/* A list of members, null when there are none. */
int pb_any_members(struct arena *arena, Mcpd__Otlp__KeyValue **pairs, size_t count,
                   struct value **out) MUST_USE;

#endif
