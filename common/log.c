// SPDX-License-Identifier: MIT
/*
 * A line is built whole in a local buffer and written by one write, so that lines of many threads
 * never mix. What would make it too long is cut: first the end of values, then whole fields, so
 * that a line is well formed whatever is in it. The level and form are set once before threads
 * start and only read afterwards.
 */
#include "common/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/utf8.h"

#define LINE_MAX_BYTES 2048
/* The value of one field; the rest of a longer one is dropped. */
#define VALUE_MAX_BYTES 512

static enum log_level lowest_level = LEVEL_INFO;
static bool write_json;
static const char *process_role = "mcpd";
static _Thread_local const char *thread_role;

#define ENDING_BYTES 2 /* closing brace, line end */

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
    bool is_cut; /* something did not fit */
};

void log_open(enum log_level level, bool as_json)
{
    lowest_level = level;
    write_json = as_json;
}

void log_thread_role(const char *role)
{
    thread_role = role;
    pthread_setname_np(pthread_self(), role);
}

void log_process_role(const char *role)
{
    process_role = role;
}

static size_t room(const struct line *line)
{
    return sizeof line->text - ENDING_BYTES - line->len;
}

static void add_bytes(struct line *line, const char *bytes, size_t len)
{
    if (len > room(line)) {
        line->is_cut = true;
        return;
    }
    memcpy(line->text + line->len, bytes, len);
    line->len += len;
}

static void add(struct line *line, const char *text)
{
    add_bytes(line, text, strlen(text));
}

/* The next character of a text as it may stand between quotes; returns how many bytes of the text
 * it takes. Quotes, backslashes and control bytes are escaped, what is no UTF-8 is replaced. */
static size_t quote_next(struct slice text, char piece[8])
{
    unsigned char c = (unsigned char)*text.data;
    size_t len = utf8_sequence(text);
    if (c == '"' || c == '\\')
        snprintf(piece, 8, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
        snprintf(piece, 8, "\\u%04x", c);
    else if (len == 0)
        snprintf(piece, 8, "\\ufffd");
    else
        snprintf(piece, 8, "%.*s", (int)len, text.data);
    return len > 0 ? len : 1;
}

/* Untrusted text, inside double quotes, so that a value can neither end its field nor its line. */
static void add_quoted(struct line *line, const char *text)
{
    struct slice rest = slice_of(text);
    if (rest.len > VALUE_MAX_BYTES)
        rest.len = VALUE_MAX_BYTES;
    add(line, "\"");
    while (rest.len > 0) {
        char piece[8];
        size_t taken = quote_next(rest, piece);
        if (strlen(piece) >= room(line)) /* the closing quote must fit behind it */
            break;
        add(line, piece);
        rest.data += taken;
        rest.len -= taken;
    }
    add(line, "\"");
}

static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || strchr("\"\\=", *text) || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

static void add_number(struct line *line, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    add(line, digits);
}

static void add_text_value(struct line *line, const char *text)
{
    if (is_plain(text) && strlen(text) <= VALUE_MAX_BYTES)
        add(line, text);
    else
        add_quoted(line, text);
}

static void build_text(struct line *line, const char *const head[4], const char *rid,
                       const struct log_field *fields)
{
    for (int i = 0; i < 4; i++) {
        add(line, head[i]);
        add(line, " ");
    }
    add_text_value(line, rid ? rid : "-");
    for (; fields->key && !line->is_cut; fields++) {
        size_t before = line->len;
        add(line, " ");
        add(line, fields->key);
        add(line, "=");
        if (fields->text)
            add_text_value(line, fields->text);
        else
            add_number(line, fields->number);
        if (line->is_cut)
            line->len = before;
    }
}

static void build_json(struct line *line, const char *const head[4], const char *rid,
                       const struct log_field *fields)
{
    static const char *const keys[] = {"{\"ts\":", ",\"level\":", ",\"role\":", ",\"event\":"};
    for (int i = 0; i < 4; i++) {
        add(line, keys[i]);
        add_quoted(line, head[i]);
    }
    if (rid) {
        add(line, ",\"rid\":");
        add_quoted(line, rid);
    }
    for (; fields->key && !line->is_cut; fields++) {
        size_t before = line->len;
        add(line, ",\"");
        add(line, fields->key);
        add(line, "\":");
        if (fields->text)
            add_quoted(line, fields->text);
        else
            add_number(line, fields->number);
        if (line->is_cut)
            line->len = before;
    }
    line->text[line->len++] = '}';
}

void log_write(enum log_level level, const char *event, const char *rid,
               const struct log_field *fields)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    if (level < lowest_level)
        return;
    char ts[CLOCK_TEXT_SIZE];
    clock_text(clock_wall_ns(), ts);
    const char *const head[4] = {ts, levels[level], thread_role ? thread_role : process_role,
                                 event};
    struct line line;
    line.len = 0; /* the text is not zeroed: only len bytes of it are ever read */
    line.is_cut = false;
    if (write_json)
        build_json(&line, head, rid, fields);
    else
        build_text(&line, head, rid, fields);
    line.text[line.len++] = '\n';
    /* A log that cannot be written must not stop the work. */
    ssize_t ignored = write(STDERR_FILENO, line.text, line.len);
    (void)ignored;
}

bool log_allowed(struct log_limit *limit, uint64_t interval_ms, uint64_t now_ms)
{
    if (now_ms < limit->next_at_ms) {
        limit->swallowed++;
        return false;
    }
    limit->next_at_ms = now_ms + interval_ms;
    return true;
}
