// SPDX-License-Identifier: MIT
/*
 * One loop over the rows of the field table encodes, one decodes; what differs by type is a pair of
 * functions in the table of types.
 */
#include "proto/wire.h"

#include <string.h>

#include <msgpack.h>

#include "proto/mpread.h"

struct field_row {
    const char *name;
    const struct type_row *type;
    size_t offset; /* in struct wire_message */
    const char *help;
};

struct message_row {
    const char *name;
    unsigned routes;
    enum wire_body body;
    const char *help;
    unsigned first_field;
    unsigned field_count;
};

struct type_row {
    const char *name;
    int (*encode)(msgpack_packer *packer, const void *field);
    int (*decode)(struct mpread *reader, void *field);
};

static int encode_u32(msgpack_packer *packer, const void *field)
{
    return msgpack_pack_uint32(packer, *(const uint32_t *)field);
}

static int decode_u32(struct mpread *reader, void *field)
{
    uint64_t value;
    if (mpread_uint(reader, &value) == -1 || value > UINT32_MAX)
        return -1;
    *(uint32_t *)field = (uint32_t)value;
    return 0;
}

static int encode_u64(msgpack_packer *packer, const void *field)
{
    return msgpack_pack_uint64(packer, *(const uint64_t *)field);
}

static int decode_u64(struct mpread *reader, void *field)
{
    return mpread_uint(reader, field);
}

static int encode_bool(msgpack_packer *packer, const void *field)
{
    return *(const bool *)field ? msgpack_pack_true(packer) : msgpack_pack_false(packer);
}

static int decode_bool(struct mpread *reader, void *field)
{
    return mpread_bool(reader, field);
}

static int encode_text(msgpack_packer *packer, const void *field)
{
    const struct slice *text = field;
    return msgpack_pack_str_with_body(packer, text->data, text->len);
}

static int decode_text(struct mpread *reader, void *field)
{
    struct slice *text = field;
    return mpread_str(reader, text) == -1 || text->len > WIRE_TEXT_MAX ? -1 : 0;
}

static int encode_bytes(msgpack_packer *packer, const void *field)
{
    const struct slice *bytes = field;
    return msgpack_pack_bin_with_body(packer, bytes->data, bytes->len);
}

static int decode_bytes(struct mpread *reader, void *field)
{
    struct slice *bytes = field;
    return mpread_bin(reader, bytes) == -1 || bytes->len > WIRE_BYTES_MAX ? -1 : 0;
}

static int encode_list(msgpack_packer *packer, const void *field)
{
    const struct wire_list *list = field;
    int rc = msgpack_pack_array(packer, list->count);
    for (uint32_t i = 0; rc == 0 && i < list->count; i++)
        rc = encode_bytes(packer, &list->items[i]);
    return rc;
}

static int decode_list(struct mpread *reader, void *field)
{
    struct wire_list *list = field;
    if (mpread_array(reader, &list->count) == -1 || list->count > WIRE_LIST_MAX)
        return -1;
    const char *start = (const char *)reader->at;
    struct slice item;
    for (uint32_t i = 0; i < list->count; i++)
        if (decode_bytes(reader, &item) == -1)
            return -1;
    list->items = NULL;
    list->raw = (struct slice){.data = start, .len = (size_t)((const char *)reader->at - start)};
    return 0;
}

static const struct type_row type_U32 = {"U32", encode_u32, decode_u32};
static const struct type_row type_U64 = {"U64", encode_u64, decode_u64};
static const struct type_row type_BOOL = {"BOOL", encode_bool, decode_bool};
static const struct type_row type_TEXT = {"TEXT", encode_text, decode_text};
static const struct type_row type_BYTES = {"BYTES", encode_bytes, decode_bytes};
static const struct type_row type_LIST = {"LIST", encode_list, decode_list};

static const struct field_row fields[] = {
#define MESSAGE(id, number, routes, body, help)
#define FIELD(message, type, name, help) \
    {#name, &type_##type, offsetof(struct wire_message, message.name), help},
#define END(id)
#include "proto/messages.def"
#undef MESSAGE
#undef FIELD
#undef END
};

/* Where each message's fields begin in `fields`, by counting the rows. */
enum field_index {
#define MESSAGE(id, number, routes, body, help) FIRST_##id, BACK_##id = FIRST_##id - 1,
#define FIELD(message, type, name, help)        AT_##message##_##name,
#define END(id)                                 STOP_##id, BACK2_##id = STOP_##id - 1,
#include "proto/messages.def"
#undef MESSAGE
#undef FIELD
#undef END
};

#define GB WIRE_GB
#define BG WIRE_BG
#define CB WIRE_CB
#define BC WIRE_BC
static const struct message_row messages[WIRE_TYPE_END] = {
#define MESSAGE(id, number, routes, body, help) \
    [number] = {#id, routes, WIRE_##body, help, FIRST_##id, STOP_##id - FIRST_##id},
#define FIELD(message, type, name, help)
#define END(id)
#include "proto/messages.def"
#undef MESSAGE
#undef FIELD
#undef END
};
#undef GB
#undef BG
#undef CB
#undef BC

static int write_to_buf(void *arg, const char *data, size_t len)
{
    return buf_add(arg, data, len);
}

int wire_encode(const struct wire_message *self, struct buf *frame)
{
    const struct message_row *row = &messages[self->type];
    const unsigned char head[2] = {WIRE_VERSION, (unsigned char)self->type};
    msgpack_packer packer;
    msgpack_packer_init(&packer, frame, write_to_buf);
    buf_reset(frame);
    if (buf_add(frame, head, sizeof head) == -1 ||
        msgpack_pack_array(&packer, row->field_count) != 0)
        return -1;
    for (unsigned i = 0; i < row->field_count; i++) {
        const struct field_row *field = &fields[row->first_field + i];
        if (field->type->encode(&packer, (const char *)self + field->offset) != 0)
            return -1;
    }
    return 0;
}

static enum wire_result decode_fields(struct wire_message *self, const struct message_row *row,
                                      struct slice bytes, struct err *err)
{
    struct mpread reader;
    uint32_t count;
    mpread_init(&reader, bytes);
    if (mpread_array(&reader, &count) == -1 || count < row->field_count) {
        err_set(err, "%s has too few fields", row->name);
        return WIRE_BAD;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_known = i < row->field_count;
        const struct field_row *field = is_known ? &fields[row->first_field + i] : NULL;
        int rc = is_known ? field->type->decode(&reader, (char *)self + field->offset)
                          : mpread_skip(&reader);
        if (rc == -1) {
            err_set(err, "%s: bad value of %s", row->name,
                    is_known ? field->name : "an unknown field");
            return WIRE_BAD;
        }
    }
    return WIRE_OK;
}

enum wire_result wire_decode(struct wire_message *self, enum wire_route route, struct slice frame,
                             struct err *err)
{
    const unsigned char *bytes = (const unsigned char *)frame.data;
    if (frame.len < 2 || frame.len > WIRE_HEADER_MAX) {
        err_set(err, "a header frame of %zu bytes", frame.len);
        return WIRE_BAD;
    }
    if (bytes[0] != WIRE_VERSION) {
        err_set(err, "version %u of the protocol, not %u", bytes[0], WIRE_VERSION);
        return WIRE_VERSION_DIFFERS;
    }
    if (bytes[1] >= WIRE_TYPE_END || (messages[bytes[1]].routes & route) == 0) {
        err_set(err, "message type %u is unknown here", bytes[1]);
        return WIRE_BAD;
    }
    self->type = bytes[1];
    return decode_fields(self, &messages[bytes[1]],
                         (struct slice){.data = frame.data + 2, .len = frame.len - 2}, err);
}

bool wire_list_next(struct wire_list *self, struct slice *item)
{
    struct mpread reader;
    mpread_init(&reader, self->raw);
    if (self->count == 0 || mpread_bin(&reader, item) == -1)
        return false;
    self->count--;
    self->raw.len -= (size_t)((const char *)reader.at - self->raw.data);
    self->raw.data = (const char *)reader.at;
    return true;
}

const char *wire_name(enum wire_type type)
{
    return type > 0 && type < WIRE_TYPE_END ? messages[type].name : "?";
}

enum wire_body wire_body_of(enum wire_type type)
{
    return messages[type].body;
}

static void print_routes(unsigned routes, FILE *out)
{
    static const char *const names[] = {"gateway to broker", "broker to gateway",
                                        "courier to broker", "broker to courier"};
    const char *separator = "";
    for (unsigned i = 0; i < 4; i++) {
        if ((routes & 1U << i) == 0)
            continue;
        fprintf(out, "%s%s", separator, names[i]);
        separator = ", ";
    }
}

void wire_markdown(FILE *out)
{
    static const char *const bodies[] = {"none", "meta, body", "count times meta, body"};
    fprintf(out,
            "# Messages of the queue protocol, version %d\n\n"
            "Generated from `proto/messages.def`. How they are used is told in "
            "[protocol](protocol.md).\n\n",
            WIRE_VERSION);
    for (unsigned type = 1; type < WIRE_TYPE_END; type++) {
        const struct message_row *row = &messages[type];
        fprintf(out, "### %s (%u)\n\n%s.\n\n- Sent by: ", row->name, type, row->help);
        print_routes(row->routes, out);
        fprintf(out, "\n- Frames behind the header: %s\n", bodies[row->body]);
        if (row->field_count == 0)
            fprintf(out, "- Fields: none (an empty array)\n");
        else
            fprintf(out, "\n| field | type | meaning |\n|---|---|---|\n");
        for (unsigned i = 0; i < row->field_count; i++) {
            const struct field_row *field = &fields[row->first_field + i];
            fprintf(out, "| `%s` | %s | %s |\n", field->name, field->type->name, field->help);
        }
        if (type + 1 < WIRE_TYPE_END)
            fprintf(out, "\n");
    }
}
