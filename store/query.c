// SPDX-License-Identifier: MIT
/*
 * Each parameter is a row: its name and what takes its value. Values are decoded into one buffer,
 * which never grows beyond the query's own length, so pointers into it stay.
 */
#include "store/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/codec.h"

#define NS_PER_S        1000000000
#define CURSOR_BYTES    (QUERY_CURSOR_LEN / 2)
#define FRACTION_DIGITS 9

typedef int take_fn(struct trace_query *query, size_t field, const char *value);

struct parameter {
    const char *name;
    take_fn *take;
    size_t field; /* offset in struct trace_query */
    const char *allowed;
};

static int take_text(struct trace_query *query, size_t field, const char *value)
{
    *(const char **)((char *)query + field) = value;
    return *value ? 0 : -1;
}

static int take_time(struct trace_query *query, size_t field, const char *value)
{
    return query_time(value, (int64_t *)((char *)query + field));
}

static int take_limit(struct trace_query *query, size_t field, const char *value)
{
    char *end;
    long limit = strtol(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || limit < 1 || limit > QUERY_LIMIT_MAX)
        return -1;
    *(int *)((char *)query + field) = (int)limit;
    return 0;
}

static int take_status(struct trace_query *query, size_t field, const char *value)
{
    int has_errors = strcmp(value, "error") == 0 ? 1 : strcmp(value, "ok") == 0 ? 0 : -1;
    *(int *)((char *)query + field) = has_errors;
    return has_errors == -1 ? -1 : 0;
}

static int take_cursor(struct trace_query *query, size_t field, const char *value)
{
    uint8_t bytes[CURSOR_BYTES];
    (void)field;
    if (codec_hex_decode(slice_of(value), bytes, sizeof bytes) == -1)
        return -1;
    uint64_t start_ns = 0;
    for (size_t i = 0; i < sizeof start_ns; i++)
        start_ns = start_ns << 8 | bytes[i];
    query->has_cursor = true;
    query->cursor_start_ns = (int64_t)start_ns;
    memcpy(query->cursor_trace_id, bytes + sizeof start_ns, sizeof query->cursor_trace_id);
    return 0;
}

static int take_project(struct trace_query *query, size_t field, const char *value)
{
    (void)field;
    /* A key reads its own project, whatever it asks for. */
    return strcmp(value, query->project) == 0 ? 0 : -1;
}

static const struct parameter parameters[] = {
    {"from", take_time, offsetof(struct trace_query, from_ns), "a time"},
    {"to", take_time, offsetof(struct trace_query, to_ns), "a time"},
    {"session", take_text, offsetof(struct trace_query, session), "a text"},
    {"model", take_text, offsetof(struct trace_query, model), "a text"},
    {"tool", take_text, offsetof(struct trace_query, tool), "a text"},
    {"agent", take_text, offsetof(struct trace_query, agent), "a text"},
    {"status", take_status, offsetof(struct trace_query, has_errors), "ok or error"},
    {"limit", take_limit, offsetof(struct trace_query, limit), "1 to 200"},
    {"cursor", take_cursor, 0, "a next_cursor of an earlier answer"},
    {"project", take_project, 0, "the key's own project"},
};
#define PARAMETER_COUNT (sizeof parameters / sizeof *parameters)

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

static int calendar_time(const char *text, int64_t *ns)
{
    struct tm tm = {0};
    int end = 0;
    int64_t fraction = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &end) != 6 ||
        end != 19)
        return -1;
    if (tm.tm_year < 1970 || tm.tm_year > 2200 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return -1;
    const char *rest = text + end;
    if (*rest == '.')
        fraction = fraction_ns(rest + 1, &rest);
    if (fraction == -1 || strcmp(rest, "Z") != 0)
        return -1;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
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

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Adds a decoded part with a NUL behind it; null where an escape is none. */
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
    out[written++] = '\0';
    text->len += written;
    return out;
}

static int take_part(struct parsed_query *self, const char *part, size_t len, unsigned *seen,
                     struct err *err)
{
    size_t name_len = strcspn(part, "=");
    if (name_len > len)
        name_len = len;
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        const struct parameter *row = &parameters[i];
        if (!slice_equals((struct slice){part, name_len}, row->name))
            continue;
        if (*seen & 1u << i)
            return err_set(err, "%s is given twice", row->name);
        *seen |= 1u << i;
        size_t skip = name_len < len ? name_len + 1 : name_len;
        const char *value = decode_part(&self->text, part + skip, len - skip);
        if (!value || row->take(&self->traces, row->field, value) == -1)
            return err_set(err, "%s must be %s", row->name, row->allowed);
        return 0;
    }
    return err_set(err, "there is no parameter %.*s", (int)(name_len < 40 ? name_len : 40), part);
}

int query_parse(struct parsed_query *self, const char *project, const char *query, struct err *err)
{
    self->traces = (struct trace_query){
        .project = project, .to_ns = INT64_MAX, .has_errors = -1, .limit = QUERY_LIMIT_DEFAULT};
    unsigned seen = 0;
    size_t query_len = strlen(query);
    buf_init(&self->text, query_len + PARAMETER_COUNT + 1);
    if (!buf_reserve(&self->text, query_len + PARAMETER_COUNT + 1))
        return err_set(err, "the query is too long");
    while (*query) {
        size_t len = strcspn(query, "&");
        if (len > 0 && take_part(self, query, len, &seen, err) == -1)
            return -1;
        query += len + (query[len] == '&');
    }
    return 0;
}

void query_fini(struct parsed_query *self)
{
    buf_fini(&self->text);
}

void query_cursor(const struct trace_row *row, char out[QUERY_CURSOR_LEN])
{
    uint8_t bytes[CURSOR_BYTES];
    uint64_t start_ns = (uint64_t)row->start_ns;
    for (size_t i = 0; i < sizeof start_ns; i++)
        bytes[i] = (uint8_t)(start_ns >> (8 * (sizeof start_ns - 1 - i)));
    memcpy(bytes + sizeof start_ns, row->trace_id, sizeof row->trace_id);
    codec_hex_encode(bytes, sizeof bytes, out);
}
