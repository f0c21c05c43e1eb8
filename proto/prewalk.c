// SPDX-License-Identifier: MIT
/*
 * Each walk keeps a stack of PREWALK_DEPTH_MAX open containers on the thread's own stack and moves
 * `at` forward only, so that its time is linear in the body.
 */
#include "proto/prewalk.h"

#include <stdbool.h>
#include <string.h>

#include "proto/mpread.h"
#include "proto/pb_wire.h"

struct walk {
    const unsigned char *bytes;
    size_t len;
    size_t at;
    size_t values;
    size_t depth; /* open containers */
    struct err *err;
};

static enum batch_result malformed(struct walk *self, const char *what)
{
    err_set(self->err, "%s at byte %zu", what, self->at);
    return BATCH_MALFORMED;
}

static enum batch_result too_deep(struct walk *self)
{
    err_set(self->err, "nested deeper than %d at byte %zu", PREWALK_DEPTH_MAX, self->at);
    return BATCH_TOO_DEEP;
}

static enum batch_result count_values(struct walk *self, size_t n)
{
    if (n > PREWALK_VALUES_MAX - self->values) {
        err_set(self->err, "more than %d values at byte %zu", PREWALK_VALUES_MAX, self->at);
        return BATCH_TOO_MANY_VALUES;
    }
    self->values += n;
    return BATCH_OK;
}

/* Protobuf */

struct open_message {
    const ProtobufCMessageDescriptor *schema;
    size_t end;
};

/* Elements of a packed field. */
static size_t count_packed(ProtobufCType type, struct slice payload)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return payload.len / 8;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return payload.len / 4;
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_STRING:
        return 1;
    default:
        break;
    }
    size_t count = 0;
    for (size_t i = 0; i < payload.len; i++)
        count += (unsigned char)payload.data[i] < 0x80;
    return count;
}

/* Steps into a message and over anything else. A single field that is no message takes no memory of
 * its own; all others count, the unknown ones too, as the decoder keeps them. */
static enum batch_result walk_field(struct walk *self, struct open_message *stack)
{
    const struct open_message *open = &stack[self->depth - 1];
    struct pb_field wire;
    if (pb_field_read((struct slice){(const char *)self->bytes, open->end}, &self->at, &wire) == -1)
        return malformed(self, "no protobuf field, or one cut short,");
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(open->schema, wire.number);
    if (!field)
        return count_values(self, 1);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (wire.type != PB_BYTES)
            return malformed(self, "a message field of another wire type");
        if (self->depth == PREWALK_DEPTH_MAX)
            return too_deep(self);
        stack[self->depth++] = (struct open_message){field->descriptor, self->at};
        self->at -= wire.bytes.len;
        return count_values(self, 1);
    }
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return BATCH_OK;
    return count_values(self, wire.type == PB_BYTES ? count_packed(field->type, wire.bytes) : 1);
}

enum batch_result prewalk_protobuf(const ProtobufCMessageDescriptor *schema, struct slice body,
                                   struct err *err)
{
    struct open_message stack[PREWALK_DEPTH_MAX];
    struct walk walk = {
        .bytes = (const unsigned char *)body.data, .len = body.len, .depth = 1, .err = err};
    stack[0] = (struct open_message){schema, body.len};
    while (walk.depth > 0) {
        if (walk.at == stack[walk.depth - 1].end) {
            walk.depth--;
            continue;
        }
        enum batch_result result = walk_field(&walk, stack);
        if (result != BATCH_OK)
            return result;
    }
    return BATCH_OK;
}

/* JSON */

/* self->at is behind the opening quote; moves behind the closing one. */
static enum batch_result skip_string(struct walk *self)
{
    while (self->at < self->len) {
        unsigned char byte = self->bytes[self->at++];
        if (byte == '"')
            return BATCH_OK;
        if (byte == '\\' && self->at < self->len)
            self->at++;
    }
    return malformed(self, "a string without its end");
}

static enum batch_result open_bracket(struct walk *self, char *stack, unsigned char bracket)
{
    if (self->depth == PREWALK_DEPTH_MAX)
        return too_deep(self);
    stack[self->depth++] = bracket == '[' ? ']' : '}';
    return count_values(self, 1);
}

static enum batch_result walk_json_byte(struct walk *self, char *stack)
{
    unsigned char byte = self->bytes[self->at++];
    switch (byte) {
    case '"':
        return skip_string(self);
    case '[':
    case '{':
        return open_bracket(self, stack, byte);
    case ']':
    case '}':
        if (self->depth == 0 || stack[--self->depth] != (char)byte)
            return malformed(self, "a bracket that does not fit");
        return BATCH_OK;
    case ',':
        return count_values(self, 1);
    default:
        return BATCH_OK;
    }
}

enum batch_result prewalk_json(struct slice body, struct err *err)
{
    char stack[PREWALK_DEPTH_MAX];
    struct walk walk = {.bytes = (const unsigned char *)body.data, .len = body.len, .err = err};
    while (walk.at < walk.len) {
        enum batch_result result = walk_json_byte(&walk, stack);
        if (result != BATCH_OK)
            return result;
    }
    return walk.depth == 0 ? BATCH_OK : malformed(&walk, "a bracket without its end");
}

/* msgpack */

enum batch_result prewalk_msgpack(struct slice body, struct err *err)
{
    uint64_t left[PREWALK_DEPTH_MAX + 1] = {1}; /* values still to come; [0]: the body's own one */
    struct walk walk = {.bytes = (const unsigned char *)body.data, .len = body.len, .err = err};
    struct mpread reader;
    mpread_init(&reader, body);
    for (;;) {
        while (walk.depth > 0 && left[walk.depth] == 0)
            walk.depth--;
        if (left[walk.depth] == 0)
            break;
        left[walk.depth]--;
        struct mpread_value value;
        walk.at = (size_t)(reader.at - walk.bytes);
        if (mpread_any(&reader, &value) == -1)
            return malformed(&walk, "no msgpack value, or one longer than the bytes left,");
        if (value.kind != MPREAD_ARRAY && value.kind != MPREAD_MAP)
            continue;
        enum batch_result result = count_values(&walk, (size_t)value.count + 1);
        if (result != BATCH_OK)
            return result;
        if (walk.depth == PREWALK_DEPTH_MAX)
            return too_deep(&walk);
        left[++walk.depth] = value.kind == MPREAD_MAP ? 2 * (uint64_t)value.count : value.count;
    }
    walk.at = (size_t)(reader.at - walk.bytes);
    return mpread_at_end(&reader) ? BATCH_OK : malformed(&walk, "bytes behind the value");
}
