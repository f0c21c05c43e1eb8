// SPDX-License-Identifier: MIT
/* pb_wire: steps through the fields of one protobuf message without a schema. Any thread. */
#ifndef MCPD_PB_WIRE_H
#define MCPD_PB_WIRE_H

#include <stdint.h>

#include "common/buf.h"

enum pb_type { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_field {
    uint32_t number; /* never 0 */
    enum pb_type type;
    struct slice bytes; /* PB_BYTES: the payload, within the message */
};

/* Reads the field at *at and moves behind it. -1 when the bytes from there are no field: cut short,
 * a length beyond the bytes left, a group, an unknown wire type. */
int pb_field_read(struct slice message, size_t *at, struct pb_field *field) MUST_USE;

#endif
