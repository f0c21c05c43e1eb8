// SPDX-License-Identifier: MIT
/*
 * Every value begins with one head: a kind and an argument (a number, a length or a count), taken
 * apart by mpread_any from one table; all other calls are made of it. Nesting is stepped over by
 * counting the values still owed, so depth costs no stack.
 */
#include "proto/mpread.h"

#include <string.h>

/* Heads 0xc0 to 0xdf: bytes of the argument behind the first byte; fixed: bytes of payload that no
 * argument tells (the type byte of an ext, fixed exts). */
struct head {
    unsigned char kind;
    unsigned char argument_len;
    unsigned char fixed;
    bool is_signed;
    bool is_known;
};

static const struct head heads[32] = {
    [0x00] = {MPREAD_NIL, 0, 0, false, true},   [0x02] = {MPREAD_BOOL, 0, 0, false, true},
    [0x03] = {MPREAD_BOOL, 0, 0, false, true},  [0x04] = {MPREAD_BIN, 1, 0, false, true},
    [0x05] = {MPREAD_BIN, 2, 0, false, true},   [0x06] = {MPREAD_BIN, 4, 0, false, true},
    [0x07] = {MPREAD_EXT, 1, 1, false, true},   [0x08] = {MPREAD_EXT, 2, 1, false, true},
    [0x09] = {MPREAD_EXT, 4, 1, false, true},   [0x0a] = {MPREAD_FLOAT, 4, 0, false, true},
    [0x0b] = {MPREAD_FLOAT, 8, 0, false, true}, [0x0c] = {MPREAD_INT, 1, 0, false, true},
    [0x0d] = {MPREAD_INT, 2, 0, false, true},   [0x0e] = {MPREAD_INT, 4, 0, false, true},
    [0x0f] = {MPREAD_INT, 8, 0, false, true},   [0x10] = {MPREAD_INT, 1, 0, true, true},
    [0x11] = {MPREAD_INT, 2, 0, true, true},    [0x12] = {MPREAD_INT, 4, 0, true, true},
    [0x13] = {MPREAD_INT, 8, 0, true, true},    [0x14] = {MPREAD_EXT, 0, 2, false, true},
    [0x15] = {MPREAD_EXT, 0, 3, false, true},   [0x16] = {MPREAD_EXT, 0, 5, false, true},
    [0x17] = {MPREAD_EXT, 0, 9, false, true},   [0x18] = {MPREAD_EXT, 0, 17, false, true},
    [0x19] = {MPREAD_STR, 1, 0, false, true},   [0x1a] = {MPREAD_STR, 2, 0, false, true},
    [0x1b] = {MPREAD_STR, 4, 0, false, true},   [0x1c] = {MPREAD_ARRAY, 2, 0, false, true},
    [0x1d] = {MPREAD_ARRAY, 4, 0, false, true}, [0x1e] = {MPREAD_MAP, 2, 0, false, true},
    [0x1f] = {MPREAD_MAP, 4, 0, false, true},
};

void mpread_init(struct mpread *self, struct slice bytes)
{
    self->at = (const unsigned char *)bytes.data;
    self->end = self->at + bytes.len;
}

bool mpread_at_end(const struct mpread *self)
{
    return self->at == self->end;
}

static uint64_t big_endian(const unsigned char *bytes, unsigned len)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < len; i++)
        value = value << 8 | bytes[i];
    return value;
}

static double to_double(uint64_t bits, unsigned len)
{
    double wide;
    float narrow;
    uint32_t narrow_bits = (uint32_t)bits;
    memcpy(&wide, &bits, sizeof(wide));
    memcpy(&narrow, &narrow_bits, sizeof(narrow));
    return len == sizeof(narrow) ? (double)narrow : wide;
}

static void set_integer(struct mpread_value *value, uint64_t bits, const struct head *head)
{
    if (head->is_signed) {
        uint64_t sign = 0x80;
        for (unsigned i = 1; i < head->argument_len; i++)
            sign <<= 8;
        value->integer = (int64_t)((bits ^ sign) - sign);
    } else if (bits <= INT64_MAX) {
        value->integer = (int64_t)bits;
    } else {
        value->kind = MPREAD_UINT;
        value->beyond = bits;
    }
}

/* Heads that carry their argument in the first byte. Returns it: a length or a count, or 0. */
static uint64_t read_short(unsigned char first, struct mpread_value *value)
{
    if (first < 0x80 || first >= 0xe0) {
        value->kind = MPREAD_INT;
        value->integer = first < 0x80 ? first : (int64_t)first - 0x100;
        return 0;
    }
    if (first >= 0xa0) {
        value->kind = MPREAD_STR;
        return first & 0x1f;
    }
    value->kind = first >= 0x90 ? MPREAD_ARRAY : MPREAD_MAP;
    return first & 0x0f;
}

/* Heads of their own byte. *rest is moved behind the head. -1 where it is none, or cut short. */
static int read_long(const struct mpread *self, struct mpread_value *value, uint64_t *argument,
                     const unsigned char **rest)
{
    const struct head *head = &heads[*self->at - 0xc0];
    if (!head->is_known || (size_t)(self->end - *rest) < head->argument_len)
        return -1;
    uint64_t bits = big_endian(*rest, head->argument_len);
    value->kind = (enum mpread_kind)head->kind;
    *argument = 0;
    *rest += head->argument_len;
    if (value->kind == MPREAD_BOOL)
        value->boolean = *self->at & 1;
    else if (value->kind == MPREAD_INT)
        set_integer(value, bits, head);
    else if (value->kind == MPREAD_FLOAT)
        value->number = to_double(bits, head->argument_len);
    else
        *argument = bits + head->fixed;
    return 0;
}

int mpread_any(struct mpread *self, struct mpread_value *value)
{
    if (self->at == self->end)
        return -1;
    const unsigned char *rest = self->at + 1;
    uint64_t argument;
    *value = (struct mpread_value){0};
    if (*self->at < 0xc0 || *self->at >= 0xe0)
        argument = read_short(*self->at, value);
    else if (read_long(self, value, &argument, &rest) == -1)
        return -1;
    /* The payload, or at least one byte for each value that is promised, must be there. */
    if ((value->kind == MPREAD_MAP ? 2 * argument : argument) > (uint64_t)(self->end - rest))
        return -1;
    if (value->kind == MPREAD_ARRAY || value->kind == MPREAD_MAP) {
        value->count = (uint32_t)argument;
    } else if (argument > 0 || value->kind == MPREAD_STR || value->kind == MPREAD_BIN) {
        value->bytes = (struct slice){(const char *)rest, argument};
        rest += argument;
    }
    self->at = rest;
    return 0;
}

/* A value of one of two kinds, or nothing read. */
static int read_kind(struct mpread *self, enum mpread_kind kind, enum mpread_kind other,
                     struct mpread_value *value)
{
    struct mpread ahead = *self;
    if (mpread_any(&ahead, value) == -1 || (value->kind != kind && value->kind != other))
        return -1;
    *self = ahead;
    return 0;
}

int mpread_uint(struct mpread *self, uint64_t *number)
{
    struct mpread ahead = *self;
    struct mpread_value value;
    if (read_kind(&ahead, MPREAD_INT, MPREAD_UINT, &value) == -1)
        return -1;
    if (value.kind == MPREAD_INT && value.integer < 0)
        return -1;
    *number = value.kind == MPREAD_INT ? (uint64_t)value.integer : value.beyond;
    *self = ahead;
    return 0;
}

int mpread_bool(struct mpread *self, bool *boolean)
{
    struct mpread_value value;
    if (read_kind(self, MPREAD_BOOL, MPREAD_BOOL, &value) == -1)
        return -1;
    *boolean = value.boolean;
    return 0;
}

int mpread_str(struct mpread *self, struct slice *text)
{
    struct mpread_value value;
    if (read_kind(self, MPREAD_STR, MPREAD_STR, &value) == -1)
        return -1;
    *text = value.bytes;
    return 0;
}

int mpread_bin(struct mpread *self, struct slice *bytes)
{
    struct mpread_value value;
    if (read_kind(self, MPREAD_BIN, MPREAD_STR, &value) == -1)
        return -1;
    *bytes = value.bytes;
    return 0;
}

int mpread_array(struct mpread *self, uint32_t *count)
{
    struct mpread_value value;
    if (read_kind(self, MPREAD_ARRAY, MPREAD_ARRAY, &value) == -1)
        return -1;
    *count = value.count;
    return 0;
}

int mpread_map(struct mpread *self, uint32_t *count)
{
    struct mpread_value value;
    if (read_kind(self, MPREAD_MAP, MPREAD_MAP, &value) == -1)
        return -1;
    *count = value.count;
    return 0;
}

int mpread_skip(struct mpread *self)
{
    struct mpread ahead = *self;
    for (uint64_t owed = 1; owed > 0; owed--) {
        struct mpread_value value;
        if (mpread_any(&ahead, &value) == -1)
            return -1;
        if (value.kind == MPREAD_ARRAY)
            owed += value.count;
        else if (value.kind == MPREAD_MAP)
            owed += 2 * (uint64_t)value.count;
    }
    *self = ahead;
    return 0;
}
