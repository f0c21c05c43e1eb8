// SPDX-License-Identifier: MIT
/* Protobuf and file bytes for decoder tests. */
#ifndef MCPD_TESTS_PB_BUILD_H
#define MCPD_TESTS_PB_BUILD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

static inline void must(int rc)
{
    if (rc == -1)
        abort();
}

static inline void put(struct buf *out, const void *data, size_t len)
{
    must(buf_add(out, data, len));
}

static inline void put_varint(struct buf *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        put(out, &(unsigned char){(unsigned char)(number | 0x80)}, 1);
    put(out, &(unsigned char){(unsigned char)number}, 1);
}

static inline void put_bytes(struct buf *out, unsigned field, const void *data, size_t len)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, len);
    put(out, data, len);
}

static inline void put_text(struct buf *out, unsigned field, const char *text)
{
    put_bytes(out, field, text, strlen(text));
}

static inline void put_number(struct buf *out, unsigned field, uint64_t number)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, number);
}

static inline void put_fixed64(struct buf *out, unsigned field, uint64_t number)
{
    put_varint(out, (uint64_t)field << 3 | 1);
    put(out, &number, 8);
}

/* Makes what is in message a field of a new message, in place. */
static inline void wrap(struct buf *message, unsigned field)
{
    struct buf outer;
    buf_init(&outer, message->max);
    put_bytes(&outer, field, message->data ? message->data : "", message->len);
    buf_fini(message);
    *message = outer;
}

/* A tests/data file, malloc'd. */
static inline struct slice read_data(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "tests/data/%s", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        abort();
    }
    char *data = malloc(1 << 20);
    struct slice all = {data, fread(data, 1, 1 << 20, file)};
    fclose(file);
    return all;
}

/* A copy of exactly its size, so that ASan sees the first byte read behind it. */
static inline struct slice exact_copy(struct slice bytes)
{
    char *copy = malloc(bytes.len ? bytes.len : 1);
    memcpy(copy, bytes.data, bytes.len);
    return (struct slice){copy, bytes.len};
}

#endif
