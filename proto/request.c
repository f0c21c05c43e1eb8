// SPDX-License-Identifier: MIT
#include "proto/request.h"

#include <string.h>

#include <msgpack.h>

#include "proto/mpread.h"

#define ARRIVAL_KEY "at"

static const struct {
    const char *key;
    size_t key_len;
    size_t offset;
} rows[] = {
#define REQUEST_FIELD(key, field) {key, sizeof(key) - 1, offsetof(struct request, field)},
#include "proto/request.def"
#undef REQUEST_FIELD
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

static int write_to_buf(void *arg, const char *data, size_t len)
{
    return buf_add(arg, data, len);
}

static const struct slice *field_const(const struct request *self, unsigned row)
{
    return (const struct slice *)((const char *)self + rows[row].offset);
}

int request_encode(const struct request *self, struct buf *meta)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, meta, write_to_buf);
    size_t present = 1;
    for (unsigned i = 0; i < ROW_COUNT; i++)
        present += field_const(self, i)->len > 0;
    buf_reset(meta);
    int rc = msgpack_pack_map(&packer, present);
    for (unsigned i = 0; rc == 0 && i < ROW_COUNT; i++) {
        const struct slice *field = field_const(self, i);
        if (field->len == 0)
            continue;
        rc = msgpack_pack_str_with_body(&packer, rows[i].key, rows[i].key_len);
        if (rc == 0)
            rc = msgpack_pack_str_with_body(&packer, field->data, field->len);
    }
    if (rc == 0)
        rc = msgpack_pack_str_with_body(&packer, ARRIVAL_KEY, sizeof ARRIVAL_KEY - 1);
    if (rc == 0)
        rc = msgpack_pack_uint64(&packer, self->arrival_ns);
    return rc == 0 ? 0 : -1;
}

/* The value of one key; steps over it when the key is not one of ours. */
static int decode_value(struct request *self, struct slice key, struct mpread *reader)
{
    if (slice_equals(key, ARRIVAL_KEY))
        return mpread_uint(reader, &self->arrival_ns);
    for (unsigned i = 0; i < ROW_COUNT; i++) {
        if (key.len == rows[i].key_len && memcmp(key.data, rows[i].key, key.len) == 0)
            return mpread_bin(reader, (struct slice *)((char *)self + rows[i].offset));
    }
    return mpread_skip(reader);
}

int request_decode(struct request *self, struct slice meta, struct err *err)
{
    struct mpread reader;
    uint32_t count;
    *self = (struct request){0};
    mpread_init(&reader, meta);
    if (meta.len > REQUEST_META_MAX)
        return err_set(err, "meta of %zu bytes", meta.len);
    if (mpread_map(&reader, &count) == -1)
        return err_set(err, "meta is no map");
    for (uint32_t i = 0; i < count; i++) {
        struct slice key;
        if (mpread_str(&reader, &key) == -1)
            return err_set(err, "meta has a key that is no text");
        if (decode_value(self, key, &reader) == -1)
            return err_set(err, "meta has a bad value of '" SLICE_FORMAT "'",
                           key.len > 40 ? 40 : (int)key.len, key.data);
    }
    if (!mpread_at_end(&reader))
        return err_set(err, "meta has bytes behind its end");
    return 0;
}
