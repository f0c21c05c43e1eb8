// SPDX-License-Identifier: MIT
#include "store/settings_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "proto/codec.h"
#include "store/query.h"

#define DAY_MS          86400000
#define NS_PER_S        1000000000
#define DATE_LEN        10 /* 2027-01-01 */
#define NUMBER_DIGITS   18
#define VARIABLE_MAX    128
#define LETTERS         "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define SMALL_LETTERS   "abcdefghijklmnopqrstuvwxyz"
#define DIGITS          "0123456789"
#define NAME_CHARACTERS LETTERS SMALL_LETTERS DIGITS "._-"

typedef int read_number(const char *text, uint64_t *value);

static int read_count(const char *text, uint64_t *value)
{
    size_t len = strspn(text, DIGITS);
    if (len == 0 || text[len] || len > NUMBER_DIGITS)
        return -1;
    *value = strtoull(text, NULL, 10);
    return 0;
}

static int read_days(const char *text, uint64_t *days)
{
    uint64_t ms;
    if (options_parse_ms(text, &ms) == -1 || ms % DAY_MS != 0)
        return -1;
    *days = ms / DAY_MS;
    return 0;
}

static int read_time(const char *text, uint64_t *seconds)
{
    char whole[DATE_LEN + sizeof "T00:00:00Z"];
    int64_t ns;
    if (!strchr(text, '-'))
        return -1; /* a bare number would be nanoseconds */
    if (strlen(text) == DATE_LEN) {
        snprintf(whole, sizeof whole, "%sT00:00:00Z", text);
        text = whole;
    }
    if (query_time(text, &ns) == -1 || ns < NS_PER_S)
        return -1;
    *seconds = (uint64_t)ns / NS_PER_S;
    return 0;
}

static int put_number(const struct settings_field *field, const char *text, void *to)
{
    static read_number *const readers[] = {
        [TYPE_TIME] = read_time,          [TYPE_DAYS] = read_days,   [TYPE_MS] = options_parse_ms,
        [TYPE_SIZE] = options_parse_size, [TYPE_COUNT] = read_count,
    };
    uint64_t value;
    if (readers[field->type](text, &value) == -1)
        return -1;
    if (field->max > 0 && ((double)value < field->min || (double)value > field->max))
        return -1;
    *(uint64_t *)to = value;
    return 0;
}

/* Infinite ones come from defaults alone. */
static int put_fraction(const struct settings_field *field, const char *text, void *to)
{
    char *end;
    bool is_standard = text == field->standard;
    double value = strtod(text, &end);
    if (end == text || *end)
        return -1;
    if (!is_standard && (strspn(text, DIGITS ".+-eE") != strlen(text) || !isfinite(value)))
        return -1;
    if (field->max > 0 && (value < field->min || value > field->max))
        return -1;
    *(double *)to = value;
    return 0;
}

static int put_choice(const struct settings_field *field, const char *text, void *to)
{
    unsigned number = 0;
    size_t text_len = strlen(text);
    for (const char *word = settings_field_words(field); *word; number++) {
        size_t len = strcspn(word, "|");
        if (len == text_len && strncmp(word, text, len) == 0) {
            *(unsigned *)to = number;
            return 0;
        }
        word += len + (word[len] == '|');
    }
    return -1;
}

static bool is_of(const char *text, const char *characters, size_t max)
{
    size_t len = strlen(text);
    return len > 0 && len <= max && strspn(text, characters) == len;
}

/* What follows the scheme begins with a host; a user or password in front of it would be a secret
 * in the file. */
static bool is_url(const char *text, size_t max)
{
    size_t scheme_len = strncmp(text, "https://", 8) == 0  ? 8
                        : strncmp(text, "http://", 7) == 0 ? 7
                                                           : 0;
    const char *host = text + scheme_len;
    size_t authority_len = strcspn(host, "/?#");
    if (scheme_len == 0 || strlen(text) > max || authority_len == 0 || *host == ':')
        return false;
    if (memchr(host, '@', authority_len))
        return false;
    for (; *text; text++)
        if ((unsigned char)*text <= ' ')
            return false;
    return true;
}

static bool is_text_of(const struct settings_field *field, const char *text)
{
    switch (field->type) {
    case TYPE_NAME:
        return is_of(text, NAME_CHARACTERS, SETTINGS_NAME_MAX);
    case TYPE_PROJECT:
        return is_of(text, GRANT_PROJECT_CHARACTERS, GRANT_PROJECT_MAX);
    case TYPE_VARIABLE:
        return is_of(text, LETTERS DIGITS "_", VARIABLE_MAX) && !isdigit((unsigned char)*text);
    case TYPE_URL:
        return is_url(text, (size_t)field->max);
    default:
        return *text && strlen(text) <= (size_t)field->max;
    }
}

int settings_value_read(const struct settings_field *field, const char *text, void *object)
{
    void *to = (char *)object + field->offset;
    switch (field->type) {
    case TYPE_CHOICE:
        return put_choice(field, text, to);
    case TYPE_SHA256:
        return codec_hex_decode(slice_of(text), to, SHA256_LEN);
    case TYPE_NUMBER:
        return put_fraction(field, text, to);
    case TYPE_TIME:
    case TYPE_DAYS:
    case TYPE_MS:
    case TYPE_SIZE:
    case TYPE_COUNT:
        return put_number(field, text, to);
    default:
        if (!is_text_of(field, text))
            return -1;
        *(const char **)to = text;
        return 0;
    }
}

const char *settings_value_words(const struct settings_field *field)
{
    static const char *const words[] = {
        [TYPE_TEXT] = "a text",
        [TYPE_NAME] = "a name: 1 to 64 of letters, digits, '.', '_' and '-'",
        [TYPE_PROJECT] = "a project: 1 to 40 of a-z, 0-9 and '-'",
        [TYPE_URL] = "a URL as https://host/path, without user and password",
        [TYPE_VARIABLE] = "the name of a variable: A-Z, 0-9 and '_'",
        [TYPE_SHA256] = "64 hex digits, the SHA-256 of the key",
        [TYPE_CHOICE] = "one of ",
        [TYPE_TIME] = "a date or time such as 2027-01-01 or 2027-01-01T12:00:00Z",
        [TYPE_DAYS] = "whole days such as 30d",
        [TYPE_MS] = "a time such as 30s",
        [TYPE_SIZE] = "a size such as 64KiB",
        [TYPE_COUNT] = "a whole number",
        [TYPE_NUMBER] = "a number",
        [TYPE_LIST] = "a list",
        [TYPE_TEXTS] = "a list of texts",
        [TYPE_MAP] = "a map of names",
        [TYPE_PART] = "a map",
    };
    return words[field->type];
}
