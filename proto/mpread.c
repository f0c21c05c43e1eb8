// SPDX-License-Identifier: MIT
/*
 * Every value begins with one head: a kind and an argument (a number, a length or a count), taken
 * apart by head_read from one table. Nesting is stepped over by counting the values still owed, so
 * depth costs no stack.
 */
#include "proto/mpread.h"

enum kind {
    KIND_BAD,
    KIND_UINT,
    KIND_INT,
    KIND_BOOL,
    KIND_STR,
    KIND_BIN,
    KIND_ARRAY,
    KIND_MAP,
    KIND_OTHER
};

struct head {
    enum kind kind;
    uint64_t argument;
    const unsigned char *rest; /* behind the head */
};

/* Heads 0xc0 to 0xdf: bytes of the argument behind the first byte; fixed: bytes of payload that no
 * argument tells (floats, the type byte of an ext, fixed exts). */
static const struct {
    unsigned char kind;
    unsigned char argument_len;
    unsigned char fixed;
} heads[32] = {
    [0x00] = {KIND_OTHER, 0, 0},                             /* nil */
    [0x02] = {KIND_BOOL, 0, 0},  [0x03] = {KIND_BOOL, 0, 0}, /* false, true */
    [0x04] = {KIND_BIN, 1, 0},   [0x05] = {KIND_BIN, 2, 0},
    [0x06] = {KIND_BIN, 4, 0},   [0x07] = {KIND_OTHER, 1, 1},
    [0x08] = {KIND_OTHER, 2, 1}, [0x09] = {KIND_OTHER, 4, 1}, /* ext */
    [0x0a] = {KIND_OTHER, 0, 4}, [0x0b] = {KIND_OTHER, 0, 8}, /* floats */
    [0x0c] = {KIND_UINT, 1, 0},  [0x0d] = {KIND_UINT, 2, 0},
    [0x0e] = {KIND_UINT, 4, 0},  [0x0f] = {KIND_UINT, 8, 0},
    [0x10] = {KIND_INT, 1, 0},   [0x11] = {KIND_INT, 2, 0},
    [0x12] = {KIND_INT, 4, 0},   [0x13] = {KIND_INT, 8, 0},
    [0x14] = {KIND_OTHER, 0, 2}, [0x15] = {KIND_OTHER, 0, 3},
    [0x16] = {KIND_OTHER, 0, 5}, /* fixext */
    [0x17] = {KIND_OTHER, 0, 9}, [0x18] = {KIND_OTHER, 0, 17},
    [0x19] = {KIND_STR, 1, 0},   [0x1a] = {KIND_STR, 2, 0},
    [0x1b] = {KIND_STR, 4, 0},   [0x1c] = {KIND_ARRAY, 2, 0},
    [0x1d] = {KIND_ARRAY, 4, 0}, [0x1e] = {KIND_MAP, 2, 0},
    [0x1f] = {KIND_MAP, 4, 0},
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

static struct head bad_head(void)
{
    return (struct head){.kind = KIND_BAD};
}

/* Heads that carry their argument in the first byte. */
static struct head short_head(const struct mpread *self, unsigned char first)
{
    struct head head = {.rest = self->at + 1};
    if (first < 0x80 || first >= 0xe0) {
        head.kind = first < 0x80 ? KIND_UINT : KIND_INT;
        head.argument = first;
    } else if (first >= 0xa0) {
        head.kind = KIND_STR;
        head.argument = first & 0x1f;
    } else {
        head.kind = first >= 0x90 ? KIND_ARRAY : KIND_MAP;
        head.argument = first & 0x0f;
    }
    return head;
}

static struct head long_head(const struct mpread *self, unsigned char first)
{
    unsigned argument_len = heads[first - 0xc0].argument_len;
    struct head head = {.kind = heads[first - 0xc0].kind};
    if (head.kind == KIND_BAD || (size_t)(self->end - self->at) < 1 + (size_t)argument_len)
        return bad_head();
    head.rest = self->at + 1 + argument_len;
    head.argument = big_endian(self->at + 1, argument_len);
    if (head.kind == KIND_INT && (self->at[1] & 0x80) == 0)
        head.kind = KIND_UINT; /* some libraries write every integer as a signed one */
    if (head.kind == KIND_BOOL)
        head.argument = first & 1;
    else if (head.kind == KIND_OTHER)
        head.argument += heads[first - 0xc0].fixed;
    return head;
}

/* A head whose payload, or at least one byte for each value it promises, is there. */
static struct head head_read(const struct mpread *self)
{
    if (self->at == self->end)
        return bad_head();
    unsigned char first = *self->at;
    struct head head =
        first >= 0xc0 && first < 0xe0 ? long_head(self, first) : short_head(self, first);
    uint64_t needed = head.argument;
    if (head.kind == KIND_UINT || head.kind == KIND_INT || head.kind == KIND_BOOL)
        needed = 0;
    else if (head.kind == KIND_MAP)
        needed *= 2;
    if (head.kind != KIND_BAD && needed > (uint64_t)(self->end - head.rest))
        return bad_head();
    return head;
}

static int read_bytes(struct mpread *self, const struct head *head, struct slice *bytes)
{
    *bytes = (struct slice){.data = (const char *)head->rest, .len = head->argument};
    self->at = head->rest + head->argument;
    return 0;
}

static int read_number(struct mpread *self, enum kind kind, uint64_t *value)
{
    struct head head = head_read(self);
    if (head.kind != kind)
        return -1;
    *value = head.argument;
    self->at = head.rest;
    return 0;
}

int mpread_uint(struct mpread *self, uint64_t *value)
{
    return read_number(self, KIND_UINT, value);
}

int mpread_bool(struct mpread *self, bool *value)
{
    uint64_t number;
    if (read_number(self, KIND_BOOL, &number) == -1)
        return -1;
    *value = number != 0;
    return 0;
}

int mpread_str(struct mpread *self, struct slice *text)
{
    struct head head = head_read(self);
    return head.kind == KIND_STR ? read_bytes(self, &head, text) : -1;
}

int mpread_bin(struct mpread *self, struct slice *bytes)
{
    struct head head = head_read(self);
    return head.kind == KIND_BIN || head.kind == KIND_STR ? read_bytes(self, &head, bytes) : -1;
}

static int read_count(struct mpread *self, enum kind kind, uint32_t *count)
{
    uint64_t number;
    if (read_number(self, kind, &number) == -1)
        return -1;
    *count = (uint32_t)number;
    return 0;
}

int mpread_array(struct mpread *self, uint32_t *count)
{
    return read_count(self, KIND_ARRAY, count);
}

int mpread_map(struct mpread *self, uint32_t *count)
{
    return read_count(self, KIND_MAP, count);
}

int mpread_skip(struct mpread *self)
{
    struct mpread ahead = *self;
    for (uint64_t owed = 1; owed > 0; owed--) {
        struct head head = head_read(&ahead);
        ahead.at = head.rest;
        if (head.kind == KIND_BAD)
            return -1;
        if (head.kind == KIND_ARRAY)
            owed += head.argument;
        else if (head.kind == KIND_MAP)
            owed += 2 * head.argument;
        else if (head.kind == KIND_STR || head.kind == KIND_BIN || head.kind == KIND_OTHER)
            ahead.at += head.argument;
    }
    self->at = ahead.at;
    return 0;
}
