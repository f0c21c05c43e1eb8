// SPDX-License-Identifier: MIT
/*
 * Writing recurses: readers have bounded the depth of every tree before (prewalk).
 */
#include "proto/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"
#include "proto/utf8.h"

/* Up to here each member is compared with each; beyond, they are sorted. */
#define DUPLICATES_BY_PAIRS 24

struct value *value_append(struct arena *arena, struct value_list *list)
{
    struct value *value = arena_zalloc(arena, sizeof(*value));
    if (!value)
        return NULL;
    if (list->last)
        list->last->next = value;
    else
        list->first = value;
    list->last = value;
    return value;
}

static bool is_container(const struct value *value)
{
    return value->type == VALUE_ARRAY || value->type == VALUE_MAP;
}

size_t value_depth(const struct value *value)
{
    if (!is_container(value))
        return 0;
    size_t deepest = 0;
    for (const struct value *child = value->first; child; child = child->next) {
        size_t depth = value_depth(child);
        if (depth > deepest)
            deepest = depth;
    }
    return deepest + 1;
}

static int compare_slices(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len > 0 ? memcmp(a.data, b.data, a.len) : 0;
}

struct place {
    struct value *value;
    size_t order;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;
    int order = compare_slices(left->value->key, right->value->key);
    if (order != 0)
        return order;
    return left->order < right->order ? -1 : 1;
}

static int mark_sorted(struct value *first, size_t count, struct arena *scratch)
{
    struct place *places = arena_alloc(scratch, count * sizeof(*places));
    if (!places)
        return -1;
    size_t order = 0;
    for (struct value *value = first; value; value = value->next, order++)
        places[order] = (struct place){value, order};
    qsort(places, count, sizeof(*places), compare_places);
    for (size_t i = 0; i + 1 < count; i++)
        if (compare_slices(places[i].value->key, places[i + 1].value->key) == 0)
            places[i].value->is_skipped = true;
    return 0;
}

int value_mark_duplicates(struct value *first, struct arena *scratch)
{
    size_t count = 0;
    for (struct value *value = first; value; value = value->next)
        count++;
    if (count > DUPLICATES_BY_PAIRS)
        return mark_sorted(first, count, scratch);
    for (struct value *value = first; value; value = value->next)
        for (struct value *later = value->next; later && !value->is_skipped; later = later->next)
            if (compare_slices(value->key, later->key) == 0)
                value->is_skipped = true;
    return 0;
}

void json_out_init(struct json_out *self, size_t max_bytes, struct arena *scratch)
{
    *self = (struct json_out){.scratch = scratch};
    buf_init(&self->buf, max_bytes);
}

void json_out_fini(struct json_out *self)
{
    buf_fini(&self->buf);
}

void json_out_reset(struct json_out *self)
{
    buf_reset(&self->buf);
    self->is_full = false;
}

void json_out_raw(struct json_out *self, const char *text, size_t len)
{
    if (self->is_full || buf_add(&self->buf, text, len) == -1)
        self->is_full = true;
}

void json_out_str(struct json_out *self, const char *text)
{
    json_out_raw(self, text, strlen(text));
}

/* Writes the character that text starts with and returns how many bytes of text it took. */
static size_t escape(struct slice text, char **out_p)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)text.data[0];
    char *out = *out_p;
    size_t len = 1;
    if (byte == '"' || byte == '\\') {
        *out++ = '\\';
        *out++ = (char)byte;
    } else if (byte >= 0x20 && byte < 0x80) {
        *out++ = (char)byte;
    } else if (byte > 0 && byte < 0x20) {
        const char escaped[] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
        memcpy(out, escaped, sizeof(escaped));
        out += sizeof(escaped);
    } else if ((len = utf8_sequence(text)) > 0) {
        memcpy(out, text.data, len);
        out += len;
    } else {
        len = 1;
        out += utf8_replacement(out);
    }
    *out_p = out;
    return len;
}

void json_out_text(struct json_out *self, struct slice text)
{
    enum { PART = 4096, GROWTH = 6 };
    json_out_raw(self, "\"", 1);
    for (size_t at = 0; at < text.len && !self->is_full;) {
        size_t part_end = text.len - at > PART ? at + PART : text.len;
        char *start = buf_reserve(&self->buf, (part_end - at) * GROWTH + 4);
        if (!start) {
            self->is_full = true;
            return;
        }
        char *out = start;
        while (at < part_end) {
            unsigned char byte = (unsigned char)text.data[at];
            if (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') {
                *out++ = (char)byte;
                at++;
            } else {
                at += escape((struct slice){text.data + at, text.len - at}, &out);
            }
        }
        self->buf.len += (size_t)(out - start);
    }
    json_out_raw(self, "\"", 1);
}

void json_out_int(struct json_out *self, int64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRId64, number);
    json_out_raw(self, text, (size_t)len);
}

/* The shortest form that reads back as the same double. */
static void write_double(struct json_out *self, double number)
{
    if (!isfinite(number)) {
        json_out_str(self, isnan(number) ? "\"NaN\""
                           : number > 0  ? "\"Infinity\""
                                         : "\"-Infinity\"");
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    json_out_str(self, text);
    if (!strpbrk(text, ".e"))
        json_out_str(self, ".0");
}

static void write_bytes(struct json_out *self, struct slice bytes)
{
    json_out_str(self, "{\"bytes\":\"");
    char *out = self->is_full ? NULL : buf_reserve(&self->buf, codec_base64_size(bytes.len));
    if (out)
        self->buf.len += codec_base64_encode(bytes, out);
    else
        self->is_full = true;
    json_out_str(self, "\"}");
}

static void write_array(struct json_out *self, const struct value *first)
{
    json_out_raw(self, "[", 1);
    for (const struct value *item = first; item; item = item->next) {
        json_out_value(self, item);
        if (item->next)
            json_out_raw(self, ",", 1);
    }
    json_out_raw(self, "]", 1);
}

void json_out_members(struct json_out *self, const struct value *first)
{
    const char *before = "{";
    for (const struct value *member = first; member; member = member->next) {
        if (member->is_skipped)
            continue;
        json_out_raw(self, before, 1);
        before = ",";
        json_out_text(self, member->key);
        json_out_raw(self, ":", 1);
        json_out_value(self, member);
    }
    json_out_str(self, *before == '{' ? "{}" : "}");
}

void json_out_value(struct json_out *self, const struct value *value)
{
    switch (value->type) {
    case VALUE_NULL:
        json_out_str(self, "null");
        break;
    case VALUE_BOOL:
        json_out_str(self, value->boolean ? "true" : "false");
        break;
    case VALUE_INT:
        json_out_int(self, value->integer);
        break;
    case VALUE_DOUBLE:
        write_double(self, value->number);
        break;
    case VALUE_TEXT:
        json_out_text(self, value->text);
        break;
    case VALUE_BYTES:
        write_bytes(self, value->text);
        break;
    case VALUE_ARRAY:
        write_array(self, value->first);
        break;
    case VALUE_MAP:
        if (value_mark_duplicates(value->first, self->scratch) == -1)
            self->is_full = true;
        json_out_members(self, value->first);
        break;
    }
}
