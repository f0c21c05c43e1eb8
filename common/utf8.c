// SPDX-License-Identifier: MIT
#include "common/utf8.h"

#include <stdint.h>
#include <string.h>

static bool is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* What the first byte allows: how long the sequence is and in which range its second byte must lie,
 * which is where overlong forms, surrogates and the end of Unicode show. */
struct lead {
    unsigned char first, last;
    unsigned char len;
    unsigned char second_min, second_max;
};

size_t utf8_sequence(struct slice text)
{
    static const struct lead leads[] = {
        {0x01, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
    };
    const unsigned char *bytes = (const unsigned char *)text.data;
    for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
        const struct lead *lead = &leads[i];
        if (bytes[0] < lead->first || bytes[0] > lead->last)
            continue;
        if (lead->len == 1)
            return 1;
        if (text.len < lead->len || bytes[1] < lead->second_min || bytes[1] > lead->second_max)
            return 0;
        for (size_t k = 2; k < lead->len; k++)
            if (!is_tail(bytes[k]))
                return 0;
        return lead->len;
    }
    return 0;
}

/* How many bytes from the start are ASCII without U+0000: nearly all of most texts. */
static size_t ascii_prefix(struct slice text)
{
    size_t at = 0;
    for (; at + 8 <= text.len; at += 8) {
        uint64_t word;
        memcpy(&word, text.data + at, 8);
        bool has_zero = ((word - 0x0101010101010101u) & ~word & 0x8080808080808080u) != 0;
        if ((word & 0x8080808080808080u) || has_zero)
            break;
    }
    while (at < text.len && text.data[at] > 0)
        at++;
    return at;
}

/* How many bytes from the start can stay as they are. */
static size_t clean_prefix(struct slice text)
{
    size_t at = 0;
    while (at < text.len) {
        struct slice rest = {text.data + at, text.len - at};
        size_t ascii = ascii_prefix(rest);
        if (ascii > 0) {
            at += ascii;
            continue;
        }
        size_t len = utf8_sequence(rest);
        if (len == 0)
            break;
        at += len;
    }
    return at;
}

bool utf8_is_clean(struct slice text)
{
    return clean_prefix(text) == text.len;
}

size_t utf8_replacement(char *out)
{
    static const char replacement[UTF8_REPLACEMENT_LEN] = {'\xef', '\xbf', '\xbd'};
    memcpy(out, replacement, sizeof(replacement));
    return sizeof(replacement);
}

/* text is clean; the length of its longest part of at most max bytes that ends with a character. */
static size_t cut_length(struct slice text, size_t max)
{
    if (text.len <= max)
        return text.len;
    while (max > 0 && is_tail((unsigned char)text.data[max]))
        max--;
    return max;
}

int utf8_clean(struct arena *arena, struct slice text, size_t max_bytes, struct slice *clean)
{
    /* What lies behind the maximum need not be looked at, except for the character that crosses
     * it. */
    if (max_bytes < SIZE_MAX - 4 && text.len > max_bytes + 4)
        text.len = max_bytes + 4;
    size_t kept = clean_prefix(text);
    if (kept == text.len) {
        clean->len = cut_length(text, max_bytes);
        clean->data = arena_copy(arena, text.data, clean->len);
        return clean->data ? 0 : -1;
    }
    char *out = arena_alloc(arena, text.len * UTF8_REPLACEMENT_LEN);
    if (!out)
        return -1;
    size_t len = 0;
    for (size_t at = 0; at < text.len;) {
        struct slice rest = {text.data + at, text.len - at};
        size_t part = clean_prefix(rest);
        if (part > 0)
            memcpy(out + len, rest.data, part);
        len += part;
        at += part;
        if (at == text.len)
            break;
        len += utf8_replacement(out + len);
        at++;
    }
    *clean = (struct slice){out, len};
    clean->len = cut_length(*clean, max_bytes);
    return 0;
}

size_t utf8_encode(unsigned code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    out[0] = (char)(marks[len] | code_point);
    return len;
}
