// SPDX-License-Identifier: MIT
#include "proto/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* key is name, or name in snake_case: each capital letter an underscore and the small one. */
static bool key_matches(const struct fields_reader *reader, struct slice key, const char *name)
{
    size_t at = 0;
    for (; *name; name++) {
        char c = *name;
        if (reader->is_camel && c >= 'A' && c <= 'Z' && at < key.len && key.data[at] == '_') {
            c = (char)(c | 0x20);
            at++;
        }
        if (at == key.len || key.data[at++] != c)
            return false;
    }
    return at == key.len;
}

static const struct field *find_field(const struct fields_reader *reader, struct slice key,
                                      const struct field *fields)
{
    for (const struct field *field = fields; field->name; field++)
        if (key_matches(reader, key, field->name))
            return field;
    return NULL;
}

int fields_read(struct fields_reader *reader, struct value *map, const struct field *fields,
                void *out)
{
    if (map->type != VALUE_MAP)
        return -1;
    if (value_mark_duplicates(map->first, reader->arena) == -1) {
        reader->is_full = true;
        return -1;
    }
    for (struct value *member = map->first; member; member = member->next) {
        const struct field *field = find_field(reader, member->key, fields);
        if (!field || member->is_skipped || member->type == VALUE_NULL)
            continue;
        if (field->read(reader, member, (char *)out + field->offset) == -1) {
            if (reader->wrong.len == 0)
                reader->wrong = member->key;
            return -1;
        }
    }
    return 0;
}

int fields_read_chain(struct fields_reader *reader, struct value *array, const struct field *fields,
                      size_t size, void *first)
{
    void *next = first;
    if (array->type != VALUE_ARRAY)
        return -1;
    for (struct value *item = array->first; item; item = item->next) {
        void *made = arena_zalloc(reader->arena, size);
        if (!made) {
            reader->is_full = true;
            return -1;
        }
        if (fields_read(reader, item, fields, made) == -1)
            return -1;
        memcpy(next, &made, sizeof(made)); /* the pointers have types of their own */
        next = made;
    }
    return 0;
}

int fields_parse_u64(struct slice text, uint64_t *number)
{
    if (text.len == 0 || text.len > 20)
        return -1;
    *number = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, digit, number))
            return -1;
    }
    return 0;
}

int fields_parse_i64(struct slice text, int64_t *number)
{
    bool is_negative = text.len > 0 && text.data[0] == '-';
    uint64_t size;
    if (is_negative)
        text = (struct slice){text.data + 1, text.len - 1};
    if (fields_parse_u64(text, &size) == -1 || size > (uint64_t)INT64_MAX + is_negative)
        return -1;
    *number = (int64_t)(is_negative ? 0 - size : size);
    return 0;
}

/* A whole number that was written as a double, as 1e9 is. */
static int whole(double number, int64_t *out)
{
    const double limit = 9223372036854775808.0;
    if (!(number >= -limit && number < limit) || floor(number) != number)
        return -1;
    *out = (int64_t)number;
    return 0;
}

int field_text(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    if (value->type != VALUE_TEXT)
        return -1;
    *(struct slice *)field = value->text;
    return 0;
}

int field_i64(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    int64_t *out = field;
    if (value->type == VALUE_INT)
        *out = value->integer;
    else if (value->type == VALUE_DOUBLE)
        return whole(value->number, out);
    else
        return value->type == VALUE_TEXT ? fields_parse_i64(value->text, out) : -1;
    return 0;
}

/* What lies beyond int64 comes as a text: from a sender, or from our readers. */
int field_u64(struct fields_reader *reader, struct value *value, void *field)
{
    int64_t number;
    if (value->type == VALUE_TEXT)
        return fields_parse_u64(value->text, field);
    if (field_i64(reader, value, &number) == -1 || number < 0)
        return -1;
    *(uint64_t *)field = (uint64_t)number;
    return 0;
}

int field_u32(struct fields_reader *reader, struct value *value, void *field)
{
    if (field_u64(reader, value, field) == -1)
        return -1;
    return *(uint64_t *)field <= UINT32_MAX ? 0 : -1;
}

static int parse_double(struct slice text, double *number)
{
    char copy[64];
    char *end;
    static const struct {
        const char *name;
        double number;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_equals(text, words[i].name)) {
            *number = words[i].number;
            return 0;
        }
    }
    bool has_start =
        text.len > 0 && (text.data[0] == '-' || (text.data[0] >= '0' && text.data[0] <= '9'));
    if (!has_start || text.len >= sizeof(copy) || memchr(text.data, 'x', text.len) ||
        memchr(text.data, 'X', text.len))
        return -1;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *number = strtod(copy, &end);
    return end == copy + text.len && isfinite(*number) ? 0 : -1;
}

int field_double(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    double *out = field;
    if (value->type == VALUE_DOUBLE)
        *out = value->number;
    else if (value->type == VALUE_INT)
        *out = (double)value->integer;
    else
        return value->type == VALUE_TEXT ? parse_double(value->text, out) : -1;
    return 0;
}

int field_bool(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    if (value->type != VALUE_BOOL)
        return -1;
    *(bool *)field = value->boolean;
    return 0;
}

int field_value(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    *(struct value **)field = value;
    return 0;
}

static int read_container(struct value *value, enum value_type type, void *field)
{
    if (value->type != type)
        return -1;
    *(struct value **)field = value->first;
    return 0;
}

int field_list(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_container(value, VALUE_ARRAY, field);
}

int field_map(struct fields_reader *reader, struct value *value, void *field)
{
    (void)reader;
    return read_container(value, VALUE_MAP, field);
}
