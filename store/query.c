// SPDX-License-Identifier: MIT
/*
 * Each parameter that every list has is a row: its name and what takes its value. The others are
 * the listing's filters. Values are decoded into one buffer, which never grows beyond what the
 * query itself needs, so pointers into it stay.
 */
#include "store/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/utf8.h"
#include "proto/codec.h"

#define NS_PER_S        1000000000
#define FRACTION_DIGITS 9
#define TRACE_ID_BYTES  16
/* A cursor is hex of: the key's type, the time, the key. */
#define CURSOR_HEAD     (1 + 8)
#define SEPARATORS_ROOM (LISTING_FILTERS_MAX + 16)
/* Of a refusal: the names there are, and how much of the wrong one. */
#define NAMES_MAX      1024
#define NAME_SHOWN_MAX 64

typedef int take_fn(struct parsed_query *self, const char *value);

struct parameter {
    const char *name;
    take_fn *take;
    const char *allowed;
};

static int64_t digits(const char *text, size_t len)
{
    int64_t number = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

/* The fraction of a second behind the point, in nanoseconds, and where it ends; -1 for none. */
static int64_t fraction_ns(const char *text, const char **end)
{
    int64_t ns = 0;
    size_t len = strspn(text, "0123456789");
    if (len == 0 || len > FRACTION_DIGITS)
        return -1;
    ns = digits(text, len);
    for (size_t i = len; i < FRACTION_DIGITS; i++)
        ns *= 10;
    *end = text + len;
    return ns;
}

/* "2026-01-02T03:04:05", every digit in its place, into numbers; -1 for anything else. */
static int read_calendar(const char *text, int64_t numbers[6])
{
    static const char layout[] = "dddd-dd-ddTdd:dd:dd";
    static const struct {
        size_t at, len;
    } parts[6] = {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}};
    for (size_t i = 0; layout[i]; i++)
        if (!text[i] || (layout[i] != 'd' && text[i] != layout[i]))
            return -1;
    for (size_t i = 0; i < 6; i++) {
        numbers[i] = digits(text + parts[i].at, parts[i].len);
        if (numbers[i] == -1)
            return -1;
    }
    return 0;
}

/* No 31st of a month that has none: timegm would take it for a day of the next. */
static bool is_day(const int64_t numbers[6])
{
    struct tm tm = {.tm_year = (int)numbers[0] - 1900,
                    .tm_mon = (int)numbers[1] - 1,
                    .tm_mday = (int)numbers[2]};
    timegm(&tm);
    return tm.tm_mday == numbers[2];
}

static int calendar_time(const char *text, int64_t *ns)
{
    enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND };
    static const int64_t least[6] = {1970, 1, 1, 0, 0, 0};
    static const int64_t most[6] = {2200, 12, 31, 23, 59, 60};
    int64_t numbers[6];
    int64_t fraction = 0;
    if (read_calendar(text, numbers) == -1)
        return -1;
    for (size_t i = 0; i < 6; i++)
        if (numbers[i] < least[i] || numbers[i] > most[i])
            return -1;
    if (!is_day(numbers))
        return -1;
    const char *rest = text + strlen("2026-01-02T03:04:05");
    if (*rest == '.')
        fraction = fraction_ns(rest + 1, &rest);
    if (fraction == -1 || strcmp(rest, "Z") != 0)
        return -1;
    struct tm tm = {.tm_year = (int)numbers[YEAR] - 1900,
                    .tm_mon = (int)numbers[MONTH] - 1,
                    .tm_mday = (int)numbers[DAY],
                    .tm_hour = (int)numbers[HOUR],
                    .tm_min = (int)numbers[MINUTE],
                    .tm_sec = (int)numbers[SECOND]};
    *ns = (int64_t)timegm(&tm) * NS_PER_S + fraction;
    return 0;
}

int query_time(const char *text, int64_t *ns)
{
    size_t len = strspn(text, "0123456789");
    if (len == 0 || text[len])
        return calendar_time(text, ns);
    errno = 0;
    *ns = strtoll(text, NULL, 10);
    return errno ? -1 : 0;
}

static uint64_t read_number(const uint8_t *bytes, size_t len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++)
        number = number << 8 | bytes[i];
    return number;
}

static void write_number(uint64_t number, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(number >> (8 * (len - 1 - i)));
}

static int take_from(struct parsed_query *self, const char *value)
{
    return query_time(value, &self->list.from_ns);
}

static int take_to(struct parsed_query *self, const char *value)
{
    return query_time(value, &self->list.to_ns);
}

static int take_number(const char *value, int64_t max, int64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoll(value, &end, 10);
    return *value < '0' || *value > '9' || *end || errno || *number > max ? -1 : 0;
}

static int take_limit(struct parsed_query *self, const char *value)
{
    int64_t limit;
    if (take_number(value, QUERY_LIMIT_MAX, &limit) == -1 || limit < 1)
        return -1;
    self->list.limit = (int)limit;
    return 0;
}

static int take_project(struct parsed_query *self, const char *value)
{
    /* A key reads its own project, whatever it asks for. */
    return strcmp(value, self->list.project) == 0 ? 0 : -1;
}

/* Room for decoded bytes in the query's buffer. */
static uint8_t *take_hex(struct parsed_query *self, const char *value, size_t *len)
{
    *len = strlen(value) / 2;
    uint8_t *bytes = (uint8_t *)buf_reserve(&self->text, *len + 1);
    if (!bytes || *len == 0 || codec_hex_decode(slice_of(value), bytes, *len) == -1)
        return NULL;
    self->text.len += *len;
    return bytes;
}

/* Of the column that the rows of the listing are told apart by. */
static enum list_type cursor_type(const struct listing *listing)
{
    enum column_form form = listing->columns[0].form;
    return form == COLUMN_INT ? LIST_INT : form == COLUMN_ID ? LIST_BYTES : LIST_TEXT;
}

static int take_cursor(struct parsed_query *self, const char *value)
{
    size_t len;
    const uint8_t *bytes = take_hex(self, value, &len);
    if (!bytes || len <= CURSOR_HEAD)
        return -1;
    struct list_value *key = &self->list.cursor_key;
    size_t key_len = len - CURSOR_HEAD;
    *key = (struct list_value){.type = (enum list_type)bytes[0],
                               .bytes = {(const char *)bytes + CURSOR_HEAD, key_len}};
    self->list.cursor_ns = (int64_t)read_number(bytes + 1, 8);
    if (key->type != cursor_type(self->list.listing))
        return -1;
    if (key->type == LIST_INT)
        key->integer = (int64_t)read_number(bytes + CURSOR_HEAD, key_len);
    return key->type == LIST_INT    ? (key_len == 8 ? 0 : -1)
           : key->type == LIST_TEXT ? (utf8_is_clean(key->bytes) ? 0 : -1)
                                    : 0;
}

static int take_where(struct parsed_query *self, const char *value)
{
    self->where = expr_parse(value, self->list.listing, &self->reason);
    self->list.where = self->where;
    return self->where ? 0 : -1;
}

static const struct parameter parameters[] = {
    {"from", take_from, "a time, as 2026-01-02T03:04:05Z or in nanoseconds"},
    {"to", take_to, "a time, as 2026-01-02T03:04:05Z or in nanoseconds"},
    {"limit", take_limit, "1 to 200"},
    {"cursor", take_cursor, "a next_cursor of an earlier answer"},
    {"project", take_project, "the key's own project"},
    {"where", take_where, "a condition"},
};
#define PARAMETER_COUNT (sizeof parameters / sizeof *parameters)

static const char *const filter_allowed[] = {
    [MATCH_TEXT] = "a text",
    [MATCH_TRACE_ID] = "32 hex digits",
    [MATCH_AT_LEAST] = "a number",
    [MATCH_MIN_MS] = "a number",
    [MATCH_HAS_ERRORS] = "ok or error",
    [MATCH_SPAN_OF_TRACE] = "a text",
};

static int take_filter(struct parsed_query *self, enum filter_match match, const char *value,
                       struct list_value *out)
{
    size_t len = 0;
    switch (match) {
    case MATCH_TEXT:
    case MATCH_SPAN_OF_TRACE:
        *out = (struct list_value){.type = LIST_TEXT, .bytes = slice_of(value)};
        return *value ? 0 : -1;
    case MATCH_TRACE_ID: {
        const char *id = (const char *)take_hex(self, value, &len);
        *out = (struct list_value){.type = LIST_BYTES, .bytes = {id, len}};
        return id && len == TRACE_ID_BYTES ? 0 : -1;
    }
    case MATCH_AT_LEAST:
    case MATCH_MIN_MS:
        out->type = LIST_INT;
        return take_number(value, INT32_MAX, &out->integer);
    case MATCH_HAS_ERRORS:
        *out = (struct list_value){.type = LIST_INT, .integer = strcmp(value, "error") == 0};
        return out->integer || strcmp(value, "ok") == 0 ? 0 : -1;
    }
    return -1;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Adds a decoded part with a NUL behind it; null where an escape is none, or the text no UTF-8. */
static const char *decode_part(struct buf *text, const char *part, size_t len)
{
    char *out = buf_reserve(text, len + 1);
    size_t written = 0;
    if (!out)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        char c = part[i] == '+' ? ' ' : part[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_digit(part[i + 1]) : -1;
            int low = high != -1 ? hex_digit(part[i + 2]) : -1;
            if (low == -1 || (high == 0 && low == 0))
                return NULL;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[written++] = c;
    }
    if (!utf8_is_clean((struct slice){out, written}))
        return NULL;
    out[written++] = '\0';
    text->len += written;
    return out;
}

/* Gives a decoded value to what takes parameters of this name; *allowed is set to what it may be,
 * or stays null where there is no such parameter. */
static int take_value(struct parsed_query *self, struct slice name, const char *value,
                      bool *is_given, const char **allowed)
{
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        if (!slice_equals(name, parameters[i].name))
            continue;
        *allowed = is_given[i] ? "given once" : parameters[i].allowed;
        if (is_given[i] || !value)
            return -1;
        is_given[i] = true;
        return parameters[i].take(self, value);
    }
    const struct filter *filters = self->list.listing->filters;
    for (size_t i = 0; filters[i].name; i++) {
        struct list_value *out = &self->list.filters[i];
        if (!slice_equals(name, filters[i].name))
            continue;
        *allowed = out->type != LIST_NULL ? "given once" : filter_allowed[filters[i].match];
        if (out->type != LIST_NULL || !value)
            return -1;
        return take_filter(self, filters[i].match, value, out);
    }
    return -1;
}

/* "there is no parameter x, only from, to, ...": whoever mistyped one sees it. */
static int refuse_name(const struct listing *listing, struct slice name, struct err *err)
{
    struct buf names;
    buf_init(&names, NAMES_MAX);
    int failed = 0;
    for (size_t i = 0; i < PARAMETER_COUNT; i++)
        failed |= buf_printf(&names, "%s%s", i ? ", " : "", parameters[i].name);
    for (const struct filter *filter = listing->filters; filter->name; filter++)
        failed |= buf_printf(&names, ", %s", filter->name);
    int shown = name.len < NAME_SHOWN_MAX ? (int)name.len : NAME_SHOWN_MAX;
    err_set(err, "there is no parameter %.*s, only %s", shown, name.data,
            failed ? "others" : buf_cstr(&names));
    buf_fini(&names);
    return -1;
}

static int take_part(struct parsed_query *self, struct slice part, bool *is_given, struct err *err)
{
    const char *equals = memchr(part.data, '=', part.len);
    size_t name_len = equals ? (size_t)(equals - part.data) : part.len;
    size_t skip = equals ? name_len + 1 : name_len;
    struct slice name = {part.data, name_len};
    const char *allowed = NULL;
    const char *value = decode_part(&self->text, part.data + skip, part.len - skip);
    if (take_value(self, name, value, is_given, &allowed) == 0)
        return 0;
    if (!allowed)
        return refuse_name(self->list.listing, name, err);
    if (self->reason.text[0])
        return err_set(err, SLICE_FORMAT ": %s", SLICE_ARGS(name), self->reason.text);
    return err_set(err, SLICE_FORMAT " must be %s", SLICE_ARGS(name), allowed);
}

int query_parse(struct parsed_query *self, const struct listing *listing, const char *project,
                const char *query, struct err *err)
{
    bool is_given[PARAMETER_COUNT] = {false};
    self->where = NULL;
    self->reason.text[0] = '\0';
    self->list = (struct list_query){
        .listing = listing, .project = project, .to_ns = INT64_MAX, .limit = QUERY_LIMIT_DEFAULT};
    /* Twice: values as text, and ids decoded from them. */
    size_t room = 2 * (strlen(query) + SEPARATORS_ROOM);
    buf_init(&self->text, room);
    if (!buf_reserve(&self->text, room))
        return err_set(err, "the query is too long");
    while (*query) {
        struct slice part = {query, strcspn(query, "&")};
        if (part.len > 0 && take_part(self, part, is_given, err) == -1)
            return -1;
        query += part.len + (query[part.len] == '&');
    }
    return 0;
}

void query_fini(struct parsed_query *self)
{
    expr_destroy(&self->where);
    buf_fini(&self->text);
}

int query_cursor(int64_t time_ns, const struct list_value *key, struct buf *out)
{
    uint8_t bytes[CURSOR_HEAD + QUERY_KEY_MAX];
    size_t key_len = key->type == LIST_INT ? 8 : key->bytes.len;
    if (key_len > QUERY_KEY_MAX)
        return -1;
    bytes[0] = (uint8_t)key->type;
    write_number((uint64_t)time_ns, bytes + 1, 8);
    if (key->type == LIST_INT)
        write_number((uint64_t)key->integer, bytes + CURSOR_HEAD, key_len);
    else
        memcpy(bytes + CURSOR_HEAD, key->bytes.data, key_len);
    size_t len = CURSOR_HEAD + key_len;
    char *text = buf_reserve(out, 2 * len);
    if (!text)
        return -1;
    codec_hex_encode(bytes, len, text);
    out->len += 2 * len;
    return 0;
}
