// SPDX-License-Identifier: MIT
/*
 * Writing recurses: readers have bounded the depth of every tree before (prewalk).
 */
#include "proto/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"
#include "common/utf8.h"

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

/* Whether something stands before what is written next that needs a comma behind it. */
static bool needs_comma(const struct json_out *self)
{
    return self->buf.len > 0 && self->buf.data[self->buf.len - 1] != '{';
}

void json_out_key(struct json_out *self, const char *key)
{
    json_out_str(self, needs_comma(self) ? ",\"" : "\"");
    json_out_str(self, key);
    json_out_raw(self, "\":", 2);
}

void json_out_member(struct json_out *self, const struct value *member)
{
    if (needs_comma(self))
        json_out_raw(self, ",", 1);
    json_out_text(self, member->key);
    json_out_raw(self, ":", 1);
    json_out_value(self, member);
}

void json_out_text_member(struct json_out *self, const char *key, struct slice text)
{
    if (text.len == 0)
        return;
    json_out_key(self, key);
    json_out_text(self, text);
}

void json_out_number_member(struct json_out *self, const char *key, uint64_t number)
{
    if (number == 0)
        return;
    char text[24];
    /* Beyond int64 it becomes a text, as every number does that a reader could get wrong. */
    int len =
        snprintf(text, sizeof(text), number > INT64_MAX ? "\"%" PRIu64 "\"" : "%" PRIu64, number);
    json_out_key(self, key);
    json_out_raw(self, text, (size_t)len);
}

void json_out_map_member(struct json_out *self, const char *key, struct value *members)
{
    if (!members)
        return;
    struct value map = {.type = VALUE_MAP, .first = members};
    json_out_key(self, key);
    json_out_value(self, &map);
}

void json_out_fragment(struct json_out *self, const struct json_out *fragment)
{
    if (fragment->is_full)
        self->is_full = true;
    if (fragment->buf.len == 0)
        return;
    if (needs_comma(self))
        json_out_raw(self, ",", 1);
    json_out_raw(self, fragment->buf.data, fragment->buf.len);
}

int json_out_keep(const struct json_out *self, struct arena *arena, struct slice *out)
{
    *out = (struct slice){0};
    if (self->is_full)
        return -1;
    if (self->buf.len == 0)
        return 0;
    out->data = arena_copy(arena, self->buf.data, self->buf.len);
    out->len = self->buf.len;
    return out->data ? 0 : -1;
}
