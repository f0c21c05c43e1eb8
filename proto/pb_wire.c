// SPDX-License-Identifier: MIT
#include "proto/pb_wire.h"

static int read_varint(struct slice message, size_t *at, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70 && *at < message.len; shift += 7) {
        unsigned char byte = (unsigned char)message.data[(*at)++];
        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return -1;
}

static int skip(struct slice message, size_t *at, uint64_t len)
{
    if (len > message.len - *at)
        return -1;
    *at += len;
    return 0;
}

int pb_field_read(struct slice message, size_t *at, struct pb_field *field)
{
    uint64_t tag, value;
    if (read_varint(message, at, &tag) == -1 || tag > UINT32_MAX || tag >> 3 == 0)
        return -1;
    *field = (struct pb_field){.number = (uint32_t)(tag >> 3), .type = (enum pb_type)(tag & 7)};
    switch (field->type) {
    case PB_VARINT:
        return read_varint(message, at, &value);
    case PB_FIXED64:
        return skip(message, at, 8);
    case PB_FIXED32:
        return skip(message, at, 4);
    case PB_BYTES:
        if (read_varint(message, at, &value) == -1)
            return -1;
        field->bytes = (struct slice){message.data + *at, value};
        return skip(message, at, value);
    }
    return -1;
}
