// SPDX-License-Identifier: MIT
/* One row a first byte; the four ranges that carry a value or a length in it come first. */
#include "proto/msgpack_head.h"

#include <string.h>

/* What follows the first byte, as a number of `width` bytes. */
struct row {
    unsigned char first;
    unsigned char kind;
    unsigned char width;
    bool is_signed;
};

static const struct row rows[] = {
    {0xc0, MSGPACK_NIL, 0, false},   {0xc4, MSGPACK_BIN, 1, false},
    {0xc5, MSGPACK_BIN, 2, false},   {0xc6, MSGPACK_BIN, 4, false},
    {0xc7, MSGPACK_EXT, 1, false},   {0xc8, MSGPACK_EXT, 2, false},
    {0xc9, MSGPACK_EXT, 4, false},   {0xca, MSGPACK_FLOAT, 4, false},
    {0xcb, MSGPACK_FLOAT, 8, false}, {0xcc, MSGPACK_INT, 1, false},
    {0xcd, MSGPACK_INT, 2, false},   {0xce, MSGPACK_INT, 4, false},
    {0xcf, MSGPACK_INT, 8, false},   {0xd0, MSGPACK_INT, 1, true},
    {0xd1, MSGPACK_INT, 2, true},    {0xd2, MSGPACK_INT, 4, true},
    {0xd3, MSGPACK_INT, 8, true},    {0xd9, MSGPACK_STR, 1, false},
    {0xda, MSGPACK_STR, 2, false},   {0xdb, MSGPACK_STR, 4, false},
    {0xdc, MSGPACK_ARRAY, 2, false}, {0xdd, MSGPACK_ARRAY, 4, false},
    {0xde, MSGPACK_MAP, 2, false},   {0xdf, MSGPACK_MAP, 4, false},
};

static uint64_t big_endian(const unsigned char *bytes, size_t width)
{
    uint64_t number = 0;
    for (size_t i = 0; i < width; i++)
        number = number << 8 | bytes[i];
    return number;
}

static double read_float(uint64_t bits, size_t width)
{
    if (width == 4) {
        uint32_t narrow = (uint32_t)bits;
        float number;
        memcpy(&number, &narrow, sizeof(number));
        return (double)number;
    }
    double number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static int64_t sign_extend(uint64_t bits, size_t width)
{
    uint64_t sign = (uint64_t)1 << (8 * width - 1);
    return (int64_t)((bits ^ sign) - sign);
}

/* The ranges whose first byte holds all. */
static bool read_short(struct msgpack_head *self, unsigned char first)
{
    *self = (struct msgpack_head){.head_len = 1};
    if (first < 0x80 || first >= 0xe0) {
        self->kind = MSGPACK_INT;
        self->integer = (signed char)first;
    } else if (first < 0xa0) {
        self->kind = first < 0x90 ? MSGPACK_MAP : MSGPACK_ARRAY;
        self->len = first & 0x0f;
    } else if (first < 0xc0) {
        self->kind = MSGPACK_STR;
        self->len = first & 0x1f;
    } else if (first == 0xc2 || first == 0xc3) {
        self->kind = MSGPACK_BOOL;
        self->boolean = first == 0xc3;
    } else if (first >= 0xd4 && first <= 0xd8) { /* ext of 1, 2, 4, 8, 16 bytes and its type */
        self->kind = MSGPACK_EXT;
        self->len = ((size_t)1 << (first - 0xd4)) + 1;
    } else {
        return false;
    }
    return true;
}

static void read_number(struct msgpack_head *self, const struct row *row, uint64_t number)
{
    if (row->kind == MSGPACK_FLOAT)
        self->number = read_float(number, row->width);
    else if (row->kind == MSGPACK_INT && row->is_signed)
        self->integer = sign_extend(number, row->width);
    else if (row->kind == MSGPACK_INT && number <= INT64_MAX)
        self->integer = (int64_t)number;
    else if (row->kind == MSGPACK_INT) {
        self->kind = MSGPACK_UINT;
        self->beyond = number;
    } else
        self->len = (size_t)number + (row->kind == MSGPACK_EXT); /* an ext's type byte */
}

static int read_long(struct msgpack_head *self, struct slice bytes)
{
    const unsigned char *in = (const unsigned char *)bytes.data;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        if (row->first != in[0])
            continue;
        if (bytes.len < (size_t)row->width + 1)
            return -1;
        *self = (struct msgpack_head){.kind = (enum msgpack_kind)row->kind,
                                      .head_len = (size_t)row->width + 1};
        read_number(self, row, big_endian(in + 1, row->width));
        return 0;
    }
    return -1;
}

int msgpack_head_read(struct msgpack_head *self, struct slice bytes)
{
    if (bytes.len == 0)
        return -1;
    if (!read_short(self, (unsigned char)bytes.data[0]) && read_long(self, bytes) == -1)
        return -1;
    if (!msgpack_is_container(self->kind) && self->len > bytes.len - self->head_len)
        return -1;
    return 0;
}
