// SPDX-License-Identifier: MIT
#include "proto/json_any.h"

#include "proto/codec.h"
#include "proto/maker.h"

static int convert_value(struct fields_reader *reader, struct value *value);

/* Takes over what another node is, keeping its own place and key. */
static void become(struct value *value, const struct value *other)
{
    struct value copy = *other;
    copy.key = value->key;
    copy.next = value->next;
    *value = copy;
}

struct pair {
    struct slice key;
    struct value *value;
};

static const struct field pair_fields[] = {
    {"key", field_text, offsetof(struct pair, key)},
    {"value", field_value, offsetof(struct pair, value)},
    {0},
};

/* An array of {key, value} objects, in place, to a list of members. */
static int convert_members(struct fields_reader *reader, struct value *first)
{
    for (struct value *member = first; member; member = member->next) {
        struct pair pair = {0};
        if (fields_read(reader, member, pair_fields, &pair) == -1)
            return -1;
        if (pair.value && convert_value(reader, pair.value) == -1)
            return -1;
        member->key = pair.key;
        become(member, pair.value ? pair.value : &(struct value){.type = VALUE_NULL});
    }
    return 0;
}

int json_any_attributes(struct fields_reader *reader, struct value *value, void *field)
{
    if (field_list(reader, value, field) == -1)
        return -1;
    return convert_members(reader, value->first);
}

/* What the one key of an AnyValue says its value is; each reader changes the value in place. */

static int any_text(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    *(struct value **)field = value;
    return value->type == VALUE_TEXT ? 0 : -1;
}

static int any_bool(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    *(struct value **)field = value;
    return value->type == VALUE_BOOL ? 0 : -1;
}

static int any_int(struct fields_reader *reader, struct value *value, void *field)
{
    int64_t number;
    if (field_i64(reader, value, &number) == -1)
        return -1;
    value->type = VALUE_INT;
    value->integer = number;
    *(struct value **)field = value;
    return 0;
}

static int any_double(struct fields_reader *reader, struct value *value, void *field)
{
    double number;
    if (field_double(reader, value, &number) == -1)
        return -1;
    value->type = VALUE_DOUBLE;
    value->number = number;
    *(struct value **)field = value;
    return 0;
}

static int any_bytes(struct fields_reader *reader, struct value *value, void *field)
{
    if (value->type != VALUE_TEXT)
        return -1;
    char *bytes = arena_alloc(reader->arena, value->text.len);
    if (!bytes) {
        reader->is_full = true;
        return -1;
    }
    long len = codec_base64_decode(value->text, bytes);
    if (len == -1)
        return -1;
    value->type = VALUE_BYTES;
    value->text = (struct slice){bytes, (size_t)len};
    *(struct value **)field = value;
    return 0;
}

static const struct field values_fields[] = {{"values", field_list, 0}, {0}};

static int any_array(struct fields_reader *reader, struct value *value, void *field)
{
    struct value *first = NULL;
    if (fields_read(reader, value, values_fields, &first) == -1)
        return -1;
    for (struct value *item = first; item; item = item->next)
        if (convert_value(reader, item) == -1)
            return -1;
    value->type = VALUE_ARRAY;
    value->first = first;
    *(struct value **)field = value;
    return 0;
}

static int any_map(struct fields_reader *reader, struct value *value, void *field)
{
    struct value *first = NULL;
    if (fields_read(reader, value, values_fields, &first) == -1 ||
        convert_members(reader, first) == -1)
        return -1;
    value->first = first;
    *(struct value **)field = value;
    return 0;
}

static const struct field any_fields[] = {
    {"stringValue", any_text, 0}, {"boolValue", any_bool, 0},
    {"intValue", any_int, 0},     {"doubleValue", any_double, 0},
    {"arrayValue", any_array, 0}, {"kvlistValue", any_map, 0},
    {"bytesValue", any_bytes, 0}, {0},
};

/* An AnyValue, in place. Without any key that we know it is a value without content. */
static int convert_value(struct fields_reader *reader, struct value *value)
{
    struct value *content = NULL;
    if (value->type == VALUE_NULL)
        return 0;
    if (fields_read(reader, value, any_fields, &content) == -1)
        return -1;
    become(value, content ? content : &(struct value){.type = VALUE_NULL});
    return 0;
}

int json_any_value(struct fields_reader *reader, struct value *value, void *field)
{
    *(struct value **)field = value;
    return convert_value(reader, value);
}

static int read_id(struct value *value, struct raw_id *id, size_t len)
{
    if (value->type != VALUE_TEXT)
        return -1;
    *id = raw_id_from_hex(value->text, len);
    return 0;
}

int json_any_trace_id(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_id(value, field, TRACE_ID_LEN);
}

int json_any_span_id(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_id(value, field, SPAN_ID_LEN);
}
