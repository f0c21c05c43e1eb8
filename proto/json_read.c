// SPDX-License-Identifier: MIT
/*
 * Recursive descent; the pre-walk has bounded its depth. The text need not end in NUL: every look
 * at a byte goes through peek.
 */
#include "proto/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/prewalk.h"
#include "common/utf8.h"

struct reader {
    struct arena *arena;
    struct slice body;
    size_t at;
    enum batch_result result;
    struct err *err;
};

static int read_value(struct reader *self, struct value *out);

static int fail(struct reader *self, const char *what)
{
    self->result = BATCH_MALFORMED;
    return err_set(self->err, "JSON: %s at byte %zu", what, self->at);
}

static int fail_large(struct reader *self)
{
    self->result = BATCH_TOO_LARGE;
    return err_set(self->err, "JSON: the body takes too much memory at byte %zu", self->at);
}

/* The next byte, or 0 at the end; a U+0000 in the body is no token either. */
static char peek(const struct reader *self)
{
    return self->at < self->body.len ? self->body.data[self->at] : '\0';
}

static char peek_token(struct reader *self)
{
    char c = peek(self);
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        self->at++;
        c = peek(self);
    }
    return c;
}

static int read_hex4(struct reader *self, unsigned *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = peek(self);
        char lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *unit = *unit << 4 | (unsigned)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *unit = *unit << 4 | (unsigned)(lower - 'a' + 10);
        else
            return fail(self, "no \\u escape");
        self->at++;
    }
    return 0;
}

static bool is_high_surrogate(unsigned unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low_surrogate(unsigned unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* Behind "\u". A surrogate without its other half becomes U+FFFD. */
static int read_code_point(struct reader *self, unsigned *code_point)
{
    enum { REPLACEMENT = 0xfffd };
    if (read_hex4(self, code_point) == -1)
        return -1;
    if (is_low_surrogate(*code_point))
        *code_point = REPLACEMENT;
    if (!is_high_surrogate(*code_point))
        return 0;
    unsigned high = *code_point;
    *code_point = REPLACEMENT;
    size_t before = self->at;
    if (self->body.len - self->at < 2 || memcmp(self->body.data + self->at, "\\u", 2) != 0)
        return 0;
    self->at += 2;
    unsigned low;
    if (read_hex4(self, &low) == -1)
        return -1;
    if (is_low_surrogate(low))
        *code_point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    else
        self->at = before;
    return 0;
}

static int read_escape(struct reader *self, char **out)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char c = peek(self);
    self->at++;
    if (c == 'u') {
        unsigned code_point;
        if (read_code_point(self, &code_point) == -1)
            return -1;
        *out += utf8_encode(code_point, *out);
        return 0;
    }
    const char *letter = c ? strchr(letters, c) : NULL;
    if (!letter)
        return fail(self, "an unknown escape");
    *(*out)++ = meanings[letter - letters];
    return 0;
}

/* Where the string that starts at `at` ends, which the pre-walk has made sure of; tells whether it
 * holds escapes. */
static size_t string_end(const struct reader *self, bool *has_escapes)
{
    size_t at = self->at;
    *has_escapes = false;
    while (at < self->body.len && self->body.data[at] != '"') {
        if (self->body.data[at] == '\\') {
            *has_escapes = true;
            at++;
        }
        at++;
    }
    return at;
}

/* Behind the opening quote. No escape is shorter than what it stands for, so the source's length is
 * room enough. */
static int read_string(struct reader *self, struct slice *out)
{
    bool has_escapes;
    size_t end = string_end(self, &has_escapes);
    if (end >= self->body.len)
        return fail(self, "a string without its end");
    if (!has_escapes) {
        *out = (struct slice){self->body.data + self->at, end - self->at};
        self->at = end + 1;
        return 0;
    }
    char *text = arena_alloc(self->arena, end - self->at);
    if (!text)
        return fail_large(self);
    char *to = text;
    while (self->at < end) {
        char c = self->body.data[self->at++];
        if (c != '\\')
            *to++ = c;
        else if (read_escape(self, &to) == -1)
            return -1;
    }
    self->at = end + 1;
    *out = (struct slice){text, (size_t)(to - text)};
    return 0;
}

static size_t count_digits(const struct reader *self, size_t at)
{
    size_t start = at;
    while (at < self->body.len && self->body.data[at] >= '0' && self->body.data[at] <= '9')
        at++;
    return at - start;
}

/* The length of the number that starts at `at` by JSON's grammar, or 0. */
static size_t number_length(const struct reader *self, bool *is_real)
{
    const char *data = self->body.data;
    size_t at = self->at;
    *is_real = false;
    if (at < self->body.len && data[at] == '-')
        at++;
    size_t digits = count_digits(self, at);
    if (digits == 0 || (digits > 1 && data[at] == '0'))
        return 0;
    at += digits;
    if (at < self->body.len && data[at] == '.') {
        *is_real = true;
        digits = count_digits(self, at + 1);
        if (digits == 0)
            return 0;
        at += 1 + digits;
    }
    if (at < self->body.len && (data[at] | 0x20) == 'e') {
        *is_real = true;
        at++;
        if (at < self->body.len && (data[at] == '+' || data[at] == '-'))
            at++;
        digits = count_digits(self, at);
        if (digits == 0)
            return 0;
        at += digits;
    }
    return at - self->at;
}

/* text is a NUL-terminated JSON number. */
static bool convert_number(const char *text, bool is_real, struct value *out)
{
    char *end;
    errno = 0;
    if (!is_real) {
        out->type = VALUE_INT;
        out->integer = strtoll(text, &end, 10);
        return errno == 0;
    }
    out->type = VALUE_DOUBLE;
    out->number = strtod(text, &end);
    return isfinite(out->number) && !(errno == ERANGE && out->number == 0);
}

static int read_number(struct reader *self, struct value *out)
{
    enum { LONGEST = 400 }; /* digits; what is longer stays a text */
    bool is_real;
    char text[LONGEST + 1];
    size_t len = number_length(self, &is_real);
    if (len == 0)
        return fail(self, "no value");
    const char *source = self->body.data + self->at;
    self->at += len;
    if (len <= LONGEST) {
        memcpy(text, source, len);
        text[len] = '\0';
    }
    if (len > LONGEST || !convert_number(text, is_real, out)) {
        out->type = VALUE_TEXT;
        out->text = (struct slice){source, len};
    }
    return 0;
}

static int read_word(struct reader *self, const char *word)
{
    size_t len = strlen(word);
    if (self->body.len - self->at < len || memcmp(self->body.data + self->at, word, len) != 0)
        return fail(self, "no value");
    self->at += len;
    return 0;
}

static int read_key(struct reader *self, struct slice *key)
{
    if (peek_token(self) != '"')
        return fail(self, "no key");
    self->at++;
    if (read_string(self, key) == -1)
        return -1;
    if (peek_token(self) != ':')
        return fail(self, "no ':'");
    self->at++;
    return 0;
}

/* At the opening bracket. */
static int read_container(struct reader *self, struct value *out)
{
    size_t start = self->at++;
    bool is_map = out->type == VALUE_MAP;
    char closing = is_map ? '}' : ']';
    struct value_list list = {0};
    bool is_open = peek_token(self) != closing;
    while (is_open) {
        struct value *child = value_append(self->arena, &list);
        if (!child)
            return fail_large(self);
        if (is_map && read_key(self, &child->key) == -1)
            return -1;
        if (read_value(self, child) == -1)
            return -1;
        char c = peek_token(self);
        if (c != ',' && c != closing)
            return fail(self, "neither ',' nor the bracket's end");
        is_open = c == ',';
        self->at += is_open;
    }
    self->at++;
    out->first = list.first;
    value_set_source(out, start, self->at);
    return 0;
}

static int read_value(struct reader *self, struct value *out)
{
    switch (peek_token(self)) {
    case '{':
        out->type = VALUE_MAP;
        return read_container(self, out);
    case '[':
        out->type = VALUE_ARRAY;
        return read_container(self, out);
    case '"':
        self->at++;
        out->type = VALUE_TEXT;
        return read_string(self, &out->text);
    case 't':
        out->type = VALUE_BOOL;
        out->boolean = true;
        return read_word(self, "true");
    case 'f':
        out->type = VALUE_BOOL;
        return read_word(self, "false");
    case 'n':
        out->type = VALUE_NULL;
        return read_word(self, "null");
    default:
        return read_number(self, out);
    }
}

size_t json_tree_max(size_t body_len)
{
    enum { ALIGNING = 16, CHUNKS = 4 * 1024 * 1024 };
    return PREWALK_VALUES_MAX * (sizeof(struct value) + 2 * ALIGNING) + 2 * body_len + CHUNKS;
}

enum batch_result json_read(struct arena *arena, struct slice body, struct value *out,
                            struct err *err)
{
    enum batch_result result = prewalk_json(body, err);
    if (result != BATCH_OK)
        return result;
    struct reader reader = {.arena = arena, .body = body, .err = err};
    *out = (struct value){0};
    if (read_value(&reader, out) == -1)
        return reader.result;
    if (peek_token(&reader) != '\0' || reader.at < body.len) {
        fail(&reader, "more behind the value");
        return reader.result;
    }
    return BATCH_OK;
}
