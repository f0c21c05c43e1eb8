// SPDX-License-Identifier: MIT
/* Recursive; the pre-walk has bounded the depth and made sure that every value is there. */
#include "proto/msgpack_read.h"

#include "proto/mpread.h"
#include "proto/prewalk.h"

struct reader {
    struct arena *arena;
    struct mpread bytes;
    const unsigned char *start;
    enum batch_result result;
    struct err *err;
};

static int read_value(struct reader *self, struct value *out);

static int fail(struct reader *self, enum batch_result result, const char *what)
{
    self->result = result;
    return err_set(self->err, "msgpack: %s at byte %zu", what,
                   (size_t)(self->bytes.at - self->start));
}

static int read_key(struct reader *self, struct slice *key)
{
    if (mpread_bin(&self->bytes, key) == -1)
        return fail(self, BATCH_MALFORMED, "a key that is no text");
    return 0;
}

static int read_children(struct reader *self, uint32_t count, struct value *out)
{
    struct value_list list = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct value *child = value_append(self->arena, &list);
        if (!child)
            return fail(self, BATCH_TOO_LARGE, "the body takes too much memory");
        if (out->type == VALUE_MAP && read_key(self, &child->key) == -1)
            return -1;
        if (read_value(self, child) == -1)
            return -1;
    }
    out->first = list.first;
    return 0;
}

static int read_container(struct reader *self, const struct mpread_value *head,
                          const unsigned char *start, struct value *out)
{
    out->type = head->kind == MPREAD_MAP ? VALUE_MAP : VALUE_ARRAY;
    if (read_children(self, head->count, out) == -1)
        return -1;
    value_set_source(out, 0, (size_t)(self->bytes.at - start));
    return 0;
}

static int read_value(struct reader *self, struct value *out)
{
    const unsigned char *start = self->bytes.at;
    struct mpread_value value;
    if (mpread_any(&self->bytes, &value) == -1)
        return fail(self, BATCH_MALFORMED, "no value");
    switch (value.kind) {
    case MPREAD_NIL:
        out->type = VALUE_NULL;
        return 0;
    case MPREAD_BOOL:
        out->type = VALUE_BOOL;
        out->boolean = value.boolean;
        return 0;
    case MPREAD_INT:
        out->type = VALUE_INT;
        out->integer = value.integer;
        return 0;
    case MPREAD_UINT:
        if (value_set_uint(self->arena, out, value.beyond) == -1)
            return fail(self, BATCH_TOO_LARGE, "the body takes too much memory");
        return 0;
    case MPREAD_FLOAT:
        out->type = VALUE_DOUBLE;
        out->number = value.number;
        return 0;
    case MPREAD_STR:
    case MPREAD_BIN:
    case MPREAD_EXT:
        out->type = value.kind == MPREAD_STR ? VALUE_TEXT : VALUE_BYTES;
        out->text = value.bytes;
        return 0;
    case MPREAD_ARRAY:
    case MPREAD_MAP:
        return read_container(self, &value, start, out);
    }
    return -1;
}

enum batch_result msgpack_read(struct arena *arena, struct slice body, struct value *out,
                               struct err *err)
{
    enum batch_result result = prewalk_msgpack(body, err);
    if (result != BATCH_OK)
        return result;
    struct reader reader = {.arena = arena, .err = err};
    mpread_init(&reader.bytes, body);
    reader.start = reader.bytes.at;
    *out = (struct value){0};
    return read_value(&reader, out) == 0 ? BATCH_OK : reader.result;
}
