// SPDX-License-Identifier: MIT
/*
 * One descriptor row an option, from options.def; everything else walks the rows. A value's text is
 * checked by its type's parser and its range where it comes in, whichever of default, environment
 * and flag it came from, and the message names that source.
 */
#include "common/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/option_rows.h"

#define SECRET_FILE_MAX ((size_t)64 * 1024)

static const struct option_row rows[] = {
#define OPTION(type, field, flag, roles, standard, min, max, help) \
    {OPTION_##type, offsetof(struct options, field), flag, roles, standard, min, max, help},
#include "common/options.def"
#undef OPTION
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

const struct option_row *option_rows(size_t *count)
{
    *count = ROW_COUNT;
    return rows;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static int parse_with_units(const char *text, const struct unit *units, uint64_t *value)
{
    if (!isdigit((unsigned char)text[0]))
        return -1;
    char *end;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno == ERANGE)
        return -1;
    for (; units->name; units++)
        if (strcmp(end, units->name) == 0)
            return __builtin_mul_overflow(number, units->factor, value) ? -1 : 0;
    return -1;
}

int options_parse_size(const char *text, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"KiB", 1ull << 10},
        {"MiB", 1ull << 20},
        {"GiB", 1ull << 30},
        {"TiB", 1ull << 40},
        {"kB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {NULL, 0},
    };
    return parse_with_units(text, units, bytes);
}

int options_parse_ms(const char *text, uint64_t *ms)
{
    static const struct unit units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
    return parse_with_units(text, units, ms);
}

static void *field_of(const struct options *self, const struct option_row *row)
{
    return (char *)self + row->offset;
}

static char *copy_text(const char *text)
{
    return slice_dup(slice_of(text));
}

static void list_add(struct text_list *list, const char *text)
{
    list->items = realloc(list->items, (list->count + 1) * sizeof *list->items);
    if (!list->items)
        abort();
    list->items[list->count++] = copy_text(text);
}

static void wipe(char *text)
{
    explicit_bzero(text, strlen(text));
}

static void list_clear(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        wipe(list->items[i]);
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct text_list){0};
}

bool option_is_list(const struct option_row *row)
{
    return row->type == OPTION_LIST || row->type == OPTION_SECRETS;
}

bool option_is_secret(const struct option_row *row)
{
    return row->type == OPTION_SECRET || row->type == OPTION_SECRETS;
}

static bool is_text(const struct option_row *row)
{
    return row->type == OPTION_TEXT || row->type == OPTION_CHOICE || row->type == OPTION_SECRET;
}

void option_format(enum option_type type, uint64_t value, char out[32])
{
    static const struct unit sizes[] = {
        {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"", 1}};
    static const struct unit times[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    static const struct unit plain[] = {{"", 1}};
    const struct unit *unit = type == OPTION_SIZE ? sizes : type == OPTION_MS ? times : plain;
    while (unit->factor > 1 && (value % unit->factor != 0 || value == 0))
        unit++;
    snprintf(out, 32, "%" PRIu64 "%s", value / unit->factor, unit->name);
}

static int set_number(struct options *self, const struct option_row *row, const char *source,
                      const char *text, struct err *err)
{
    static const char *const examples[] = {[OPTION_SIZE] = "a size such as 512MiB",
                                           [OPTION_MS] = "a time such as 30s or 250ms",
                                           [OPTION_SECONDS] = "a number of seconds",
                                           [OPTION_COUNT] = "a whole number"};
    static const struct unit count_units[] = {{"", 1}, {NULL, 0}};
    static const struct unit second_units[] = {{"", 1}, {"s", 1}, {"m", 60}, {NULL, 0}};
    uint64_t value = 0;
    int rc = row->type == OPTION_SIZE      ? options_parse_size(text, &value)
             : row->type == OPTION_MS      ? options_parse_ms(text, &value)
             : row->type == OPTION_SECONDS ? parse_with_units(text, second_units, &value)
                                           : parse_with_units(text, count_units, &value);
    char low[32], high[32];
    option_format(row->type, row->min, low);
    option_format(row->type, row->max, high);
    if (rc == -1)
        return err_set(err, "%s: '%s' is not %s (%s to %s)", source, text, examples[row->type], low,
                       high);
    if (value < row->min || (row->max > 0 && value > row->max))
        return err_set(err, "%s: %s is out of range, allowed is %s to %s", source, text, low, high);
    *(uint64_t *)field_of(self, row) = value;
    return 0;
}

/* 1 or 0, or -1 for a word that is neither. */
static int bool_value(const char *text)
{
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return i % 2 == 1;
    return -1;
}

static int set_bool(struct options *self, const struct option_row *row, const char *source,
                    const char *text, struct err *err)
{
    int value = bool_value(text);
    if (value == -1)
        return err_set(err, "%s: '%s' is neither on nor off", source, text);
    *(bool *)field_of(self, row) = value;
    return 0;
}

static int set_choice(struct options *self, const struct option_row *row, const char *source,
                      const char *text, struct err *err)
{
    size_t len = strlen(text);
    for (const char *word = row->standard; *word;) {
        size_t word_len = strcspn(word, "|");
        if (word_len == len && strncmp(word, text, len) == 0) {
            char **field = field_of(self, row);
            free(*field);
            *field = copy_text(text);
            return 0;
        }
        word += word_len + (word[word_len] == '|');
    }
    return err_set(err, "%s: '%s' is not one of %s", source, text, row->standard);
}

static int set_value(struct options *self, const struct option_row *row, const char *source,
                     const char *text, struct err *err)
{
    if (option_is_secret(row) && !*text)
        return err_set(err, "%s: an empty value is refused; leave the option out instead", source);
    if (option_is_list(row)) {
        if (!*text)
            return err_set(err, "%s: an empty value is refused", source);
        list_add(field_of(self, row), text);
        return 0;
    }
    if (row->type == OPTION_TEXT || row->type == OPTION_SECRET) {
        char **field = field_of(self, row);
        free(*field);
        *field = copy_text(text);
        return 0;
    }
    if (row->type == OPTION_BOOL)
        return set_bool(self, row, source, text, err);
    if (row->type == OPTION_CHOICE)
        return set_choice(self, row, source, text, err);
    return set_number(self, row, source, text, err);
}

static bool begins_url(const char *text)
{
    text += strspn(text, " \t");
    return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

/* A comma ends a list's item; in a list of URLs only where another URL follows, since a URL may
 * hold commas. */
static size_t item_length(const char *text)
{
    bool is_url = begins_url(text);
    size_t len = strcspn(text, ",");
    while (is_url && text[len] && !begins_url(text + len + 1))
        len += 1 + strcspn(text + len + 1, ",");
    return len;
}

static int set_items(struct options *self, const struct option_row *row, const char *source,
                     const char *text, struct err *err)
{
    list_clear(field_of(self, row));
    for (;;) {
        size_t len = item_length(text);
        char *item = slice_dup(slice_trim((struct slice){text, len}));
        int rc = set_value(self, row, source, item, err);
        wipe(item);
        free(item);
        if (rc == -1 || !text[len])
            return rc;
        text += len + 1;
    }
}

/* A plain read that follows links, as mounted secrets are links. */
static int read_whole(const char *path, struct buf *content, struct err *err)
{
    FILE *file = fopen(path, "re");
    char *to = buf_reserve(content, SECRET_FILE_MAX);
    size_t len = file ? fread(to, 1, SECRET_FILE_MAX, file) : 0;
    int rc = 0;
    if (!file || ferror(file))
        rc = err_set(err, "cannot read %.100s: %s", path, strerror(errno));
    else if (len == SECRET_FILE_MAX)
        rc = err_set(err, "%.100s is larger than %zu bytes", path, SECRET_FILE_MAX);
    content->len = len;
    if (file)
        fclose(file);
    return rc;
}

/* Each line of the file is a key, blank lines are skipped; an option of one value has one line. */
static int set_from_file(struct options *self, const struct option_row *row, const char *source,
                         const char *path, struct err *err)
{
    struct buf content;
    buf_init(&content, SECRET_FILE_MAX);
    int rc = read_whole(path, &content, err);
    if (rc == -1) {
        struct err reason = *err;
        err_set(err, "%s: %.200s", source, reason.text);
    }
    size_t keys = 0;
    for (size_t at = 0; rc == 0 && at < content.len;) {
        const char *end = memchr(content.data + at, '\n', content.len - at);
        size_t len = end ? (size_t)(end - (content.data + at)) : content.len - at;
        size_t line_len = len > 0 && content.data[at + len - 1] == '\r' ? len - 1 : len;
        struct slice line = slice_trim((struct slice){content.data + at, line_len});
        at += len + 1;
        if (line.len == 0)
            continue;
        char *key = slice_dup(line);
        rc = ++keys > 1 && !option_is_list(row)
                 ? err_set(err, "%s: %.200s holds several lines, one is wanted", source, path)
                 : set_value(self, row, source, key, err);
        wipe(key);
        free(key);
    }
    if (rc == 0 && keys == 0)
        rc = err_set(err, "%s: %.200s is empty", source, path);
    if (content.data)
        explicit_bzero(content.data, content.len);
    buf_fini(&content);
    return rc;
}

void option_variable(const char *flag, bool plural, char out[OPTION_NAME_MAX])
{
    snprintf(out, OPTION_NAME_MAX, "MCPD_%s%s", flag, plural ? "S" : "");
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* The value of NAME in environ, or null. */
static const char *variable_value(char **environ_list, const char *name)
{
    size_t len = strlen(name);
    for (; *environ_list; environ_list++)
        if (strncmp(*environ_list, name, len) == 0 && (*environ_list)[len] == '=')
            return *environ_list + len + 1;
    return NULL;
}

static int take_variables(struct options *self, const struct option_row *row, char **environ_list,
                          struct err *err)
{
    char name[OPTION_NAME_MAX], plural[OPTION_NAME_MAX], file[OPTION_NAME_MAX + 8];
    option_variable(row->flag, false, name);
    option_variable(row->flag, true, plural);
    snprintf(file, sizeof file, "%s_FILE", name);
    const char *value = NULL;
    if (option_is_list(row) && (value = variable_value(environ_list, plural)))
        return *value ? set_items(self, row, plural, value, err) : 0;
    if ((value = variable_value(environ_list, name)) && *value)
        return option_is_list(row) ? set_items(self, row, name, value, err)
                                   : set_value(self, row, name, value, err);
    if (option_is_secret(row) && (value = variable_value(environ_list, file)) && *value) {
        if (option_is_list(row))
            list_clear(field_of(self, row));
        return set_from_file(self, row, file, value, err);
    }
    return 0;
}

/* Kubernetes gives every pod variables of that form for a service called mcpd. */
static bool is_injected(const char *name, size_t len)
{
    static const char *const marks[] = {"_SERVICE_HOST", "_SERVICE_PORT", "_PORT"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *mark = memmem(name, len, marks[i], strlen(marks[i]));
        if (!mark)
            continue;
        const char *rest = mark + strlen(marks[i]);
        if (rest == name + len || *rest == '_')
            return true;
    }
    return false;
}

static bool is_variable_of_ours(const char *name, size_t len)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char known[OPTION_NAME_MAX];
        option_variable(rows[i].flag, false, known);
        size_t known_len = strlen(known);
        if (len < known_len || strncmp(name, known, known_len) != 0)
            continue;
        struct slice rest = {name + known_len, len - known_len};
        if (rest.len == 0 || (option_is_list(&rows[i]) && slice_equals(rest, "S")) ||
            (option_is_secret(&rows[i]) && slice_equals(rest, "_FILE")))
            return true;
    }
    return false;
}

static void warn_of_unknown_variables(char **environ_list)
{
    for (; *environ_list; environ_list++) {
        const char *name = *environ_list;
        size_t len = strcspn(name, "=");
        if (strncmp(name, "MCPD_", 5) != 0 || is_variable_of_ours(name, len) ||
            is_injected(name, len) || strncmp(name, "MCPD_FSIO", 9) == 0)
            continue;
        char *text = slice_dup((struct slice){name, len});
        log_at(LEVEL_WARN, "options.unknown_variable", NULL, LOG_TEXT("name", text));
        free(text);
    }
}

static const struct option_row *find_flag(const char *flag, size_t len, bool *from_file)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        struct slice given = {flag, len};
        *from_file = false;
        if (slice_equals(given, rows[i].flag))
            return &rows[i];
        size_t flag_len = strlen(rows[i].flag);
        if (option_is_secret(&rows[i]) && len == flag_len + 5 &&
            strncmp(flag, rows[i].flag, flag_len) == 0 &&
            strncmp(flag + flag_len, "-file", 5) == 0) {
            *from_file = true;
            return &rows[i];
        }
    }
    return NULL;
}

/* Whether the argument at this place is another option, not the value of the one before it. */
static bool is_flag(int argc, char **argv, int at)
{
    bool from_file;
    return at < argc && strncmp(argv[at], "--", 2) == 0 &&
           find_flag(argv[at] + 2, strcspn(argv[at] + 2, "="), &from_file);
}

/* Takes the flag at argv[*at], and its value behind '=' or in the next argument. is_seen tells
 * which lists a flag has replaced already. */
static int take_flag(struct options *self, enum role_bits role, int argc, char **argv, int *at,
                     bool is_seen[ROW_COUNT], struct err *err)
{
    char *arg = argv[*at];
    if (strncmp(arg, "--", 2) != 0)
        return err_set(err, "'%s' is not an option; options begin with --, see --help", arg);
    size_t len = strcspn(arg + 2, "=");
    bool from_file;
    const struct option_row *row = find_flag(arg + 2, len, &from_file);
    if (!row || (row->roles & role) == 0)
        return err_set(err, "unknown option --%.*s%s; see --help for what is allowed", (int)len,
                       arg + 2, row ? " for this role" : "");
    char source[OPTION_NAME_MAX];
    snprintf(source, sizeof source, "--%.*s", (int)len, arg + 2);
    char *value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
    static char on[] = "on";
    if (!value && row->type == OPTION_BOOL && (*at + 1 == argc || bool_value(argv[*at + 1]) == -1))
        value = on;
    if (!value && (*at + 1 == argc || is_flag(argc, argv, *at + 1)))
        return err_set(err, "%s needs a value: %s", source, row->help);
    if (!value)
        value = argv[++*at];
    if (option_is_list(row) && !is_seen[row - rows])
        list_clear(field_of(self, row));
    is_seen[row - rows] = true;
    if (from_file)
        return set_from_file(self, row, source, value, err);
    int rc = set_value(self, row, source, value, err);
    if (option_is_secret(row))
        wipe(value);
    return rc;
}

int options_find_word(int argc, char **argv)
{
    for (int at = 0; at < argc; at++) {
        if (strncmp(argv[at], "--", 2) != 0)
            return at;
        size_t len = strcspn(argv[at] + 2, "=");
        bool from_file;
        const struct option_row *row = find_flag(argv[at] + 2, len, &from_file);
        bool has_value = argv[at][2 + len] == '=';
        if (row && row->type != OPTION_BOOL && !has_value)
            at += !is_flag(argc, argv, at + 1);
        else if (row && !has_value && at + 1 < argc && bool_value(argv[at + 1]) != -1)
            at++;
    }
    return -1;
}

int options_parse(struct options *self, enum role_bits role, int argc, char **argv,
                  char **variables, struct err *err)
{
    *self = (struct options){0};
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct option_row *row = &rows[i];
        char first_word[32];
        snprintf(first_word, sizeof first_word, "%.*s", (int)strcspn(row->standard, "|"),
                 row->standard);
        const char *standard = row->type == OPTION_CHOICE ? first_word : row->standard;
        int rc = 0;
        if (is_text(row) && !*standard)
            *(char **)field_of(self, row) = copy_text("");
        else if (*standard)
            rc = set_value(self, row, row->flag, standard, err);
        assert(rc == 0); /* a default in the table that its own row refuses */
        if (take_variables(self, row, variables, err) == -1)
            return -1;
    }
    warn_of_unknown_variables(variables);
    bool is_seen[ROW_COUNT] = {false};
    for (int at = 0; at < argc; at++)
        if (take_flag(self, role, argc, argv, &at, is_seen, err) == -1)
            return -1;
    return options_check(self, role, err);
}

void options_fini(struct options *self)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (option_is_list(&rows[i]))
            list_clear(field_of(self, &rows[i]));
        if (is_text(&rows[i])) {
            char **text = field_of(self, &rows[i]);
            if (*text)
                wipe(*text);
            free(*text);
        }
    }
    *self = (struct options){0};
}

const char *options_named_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

char *options_spool_path(const struct options *self)
{
    struct buf path;
    buf_init(&path, 8192);
    int rc;
    if (*self->spool_dir) {
        rc = buf_add_str(&path, self->spool_dir);
    } else {
        size_t len = strlen(self->data);
        if (len > 3 && strcmp(self->data + len - 3, ".db") == 0)
            len -= 3;
        rc = buf_add(&path, self->data, len) | buf_add_str(&path, ".spool");
    }
    rc |= buf_add_str(&path, "/relay");
    const char *text = rc == 0 ? buf_cstr(&path) : NULL;
    char *result = text ? copy_text(text) : copy_text("/path/too/long");
    buf_fini(&path);
    return result;
}
