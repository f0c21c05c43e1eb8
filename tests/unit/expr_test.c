// SPDX-License-Identifier: MIT
/*
 * The promise: a condition says the same in memory and in SQL, whatever is missing; and one that is
 * none is refused with the place and what may stand there.
 *
 * The cases are tests/data/where/cases.txt; the system tests ask the daemon the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/native.h"
#include "store/backend_sqlite.h"
#include "store/expr.h"
#include "tests/lib/pb_build.h"
#include "tests/unit/sqlite_help.h"

#define NAMES_MAX 256
#define CASE_MAX  1024
#define ROWS_MAX  16

struct fixture {
    char folder[HELP_FOLDER];
    char path[HELP_PATH];
    backend_store_t *store;
    backend_conn_t *reader;
};

static void write_batch(backend_conn_t *writer, const char *file, uint8_t key)
{
    static const struct batch_policy policy = {.now_ns = UINT64_C(1800000000000000000),
                                               .types = EVENT_BITS_ALL};
    struct err err = {""};
    struct slice body = read_data(file);
    struct backend_request *request = backend_request_new();
    request->project = "default";
    request->key_ttl_s = 3600;
    memset(request->key, key, sizeof request->key);
    assert_int_equal(native_json(&request->batch, body, &policy, &err), BATCH_OK);
    assert_int_equal(request->batch.rejected, 0);
    assert_int_equal(backend_sqlite.write(writer, &request, 1, &err), BACKEND_OK);
    backend_request_destroy(&request);
    free((char *)body.data);
}

static int set_up(void **state)
{
    struct fixture *self = calloc(1, sizeof *self);
    struct err err;
    place_make(self->folder, self->path);
    self->store = backend_sqlite.open(self->path, &err);
    assert_non_null(self->store);
    backend_conn_t *writer = backend_sqlite.connect(self->store, true, &err);
    assert_non_null(writer);
    write_batch(writer, "where/prod.json", 1);
    write_batch(writer, "where/test.json", 2);
    backend_sqlite.disconnect(&writer);
    self->reader = backend_sqlite.connect(self->store, false, &err);
    assert_non_null(self->reader);
    *state = self;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *self = *state;
    backend_sqlite.disconnect(&self->reader);
    backend_sqlite.close(&self->store);
    place_remove(self->folder, self->path);
    free(self);
    return 0;
}

/* The names of rows, sorted, "a b c". */
struct names {
    size_t count;
    char texts[ROWS_MAX][16];
};

static int by_text(const void *one, const void *other)
{
    return strcmp(one, other);
}

static void write_names(struct names *names, char out[NAMES_MAX])
{
    size_t used = 0;
    *out = '\0';
    qsort(names->texts, names->count, sizeof *names->texts, by_text);
    for (size_t i = 0; i < names->count; i++)
        used +=
            (size_t)snprintf(out + used, NAMES_MAX - used, "%s%s", i ? " " : "", names->texts[i]);
}

static size_t column_of(const struct listing *listing, const char *name)
{
    size_t i = 0;
    while (strcmp(listing->columns[i].name, name) != 0)
        i++;
    return i;
}

static void add_name(struct names *names, const struct listing *listing,
                     const struct list_value *row)
{
    bool is_log = listing == listing_row(LISTING_LOGS);
    const struct list_value *name = &row[column_of(listing, is_log ? "event_name" : "name")];
    assert_true(names->count < ROWS_MAX);
    if (name->type == LIST_NULL)
        strcpy(names->texts[names->count++], "-");
    else
        snprintf(names->texts[names->count++], sizeof *names->texts, SLICE_FORMAT,
                 SLICE_ARGS(name->bytes));
}

/* A condition while it is asked of rows, and what it found. */
struct search {
    struct fixture *fixture;
    const struct listing *listing;
    const expr_t *expr;
    struct expr_state state;
    struct names names;
};

static int take_found(void *arg, const struct list_value *row)
{
    struct search *search = arg;
    add_name(&search->names, search->listing, row);
    return 0;
}

static int take_trace(void *arg, const struct list_value *row)
{
    struct search *search = arg;
    expr_begin(search->expr, &search->state, row);
    return 0;
}

static int take_span(void *arg, const struct list_value *row)
{
    struct search *search = arg;
    expr_add_span(search->expr, &search->state, row);
    return 0;
}

static int ask_in_memory(void *arg, const struct list_value *row)
{
    struct search *search = arg;
    struct trace_key key = {.project = "default"};
    struct err err;
    if (search->listing == listing_row(LISTING_TRACES)) {
        memcpy(key.trace_id, row[0].bytes.data, sizeof key.trace_id);
        backend_conn_t *conn = backend_sqlite.connect(search->fixture->store, false, &err);
        assert_non_null(conn);
        assert_int_equal(backend_sqlite.read_trace(conn, &key, take_trace, take_span, arg, &err),
                         0);
        backend_sqlite.disconnect(&conn);
    } else {
        expr_begin(search->expr, &search->state, row);
    }
    if (expr_holds(search->expr, &search->state))
        add_name(&search->names, search->listing, row);
    return 0;
}

static void search(struct fixture *self, const struct listing *listing, const expr_t *expr,
                   bool in_memory, char found[NAMES_MAX])
{
    struct search search = {.fixture = self, .listing = listing, .expr = expr};
    struct list_query query = {.listing = listing,
                               .project = "default",
                               .to_ns = INT64_MAX,
                               .limit = ROWS_MAX,
                               .where = in_memory ? NULL : expr};
    struct err err = {""};
    if (backend_sqlite.list(self->reader, &query, in_memory ? ask_in_memory : take_found, &search,
                            &err) == -1)
        fail_msg("%s", err.text);
    write_names(&search.names, found);
}

static void check_case(struct fixture *self, const char *list, const char *expected,
                       const char *condition)
{
    char path[32];
    char found[NAMES_MAX];
    struct err err;
    snprintf(path, sizeof path, "/v1/%s", list);
    const struct listing *listing = listing_find(path);
    assert_non_null(listing);
    expr_t *expr = expr_parse(condition, listing, &err);
    if (!expr)
        fail_msg("%s: %s", condition, err.text);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        search(self, listing, expr, in_memory, found);
        if (strcmp(found, expected) != 0)
            fail_msg("%s: %s found \"%s\", not \"%s\"", condition, in_memory ? "memory" : "SQLite",
                     found, expected);
    }
    expr_destroy(&expr);
}

/* Cuts at " | "; an empty part is "". */
static char *cut(char *text)
{
    char *bar = strstr(text, "| ");
    assert_non_null(bar);
    char *end = bar;
    while (end > text && end[-1] == ' ')
        end--;
    *end = '\0';
    return bar + 2;
}

/* '-' sorts before the letters, as here. */
static void sort_words(const char *text, char out[NAMES_MAX])
{
    struct names names = {0};
    while (*text) {
        size_t len = strcspn(text, " ");
        snprintf(names.texts[names.count++], sizeof *names.texts, "%.*s", (int)len, text);
        text += len + (text[len] == ' ');
    }
    write_names(&names, out);
}

static void memory_and_sql_find_the_same(void **state)
{
    FILE *file = fopen("tests/data/where/cases.txt", "r");
    char line[CASE_MAX];
    size_t count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char expected[NAMES_MAX];
        if (*line == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        char *found = cut(line);
        char *condition = cut(found);
        sort_words(found, expected);
        check_case(*state, line, expected, condition);
        count++;
    }
    fclose(file);
    assert_true(count > 100);
}

static void refusals_name_place_and_choice(void **state)
{
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"", "at character 1: expected a name, not or (, not the end"},
        {"duration >", "at character 11: expected a duration, as 150ms, 20s or 2h, not the end"},
        {"duration > 20", "at character 12: expected a duration, as 150ms, 20s or 2h, not 20"},
        {"errors > 20s", "at character 10: expected a number or size, as 12, 0.5 or 64KiB, not "
                         "20s"},
        {"errors contains 2", "at character 8: expected = != < <= > >= in, not contains"},
        {"name > \"a\"", "at character 6: expected = != in contains ^=, not >"},
        {"name = a", "at character 8: expected a text in double quotes, not a"},
        {"name = \"a\" an", "at character 12: expected and, or, or the end, not an"},
        {"name = \"a\" AND errors = 1", "at character 12: expected and, or, or the end, not AND"},
        {"(name = \"a\"", "at character 12: expected and, or, or ), not the end"},
        {"name in \"a\"", "at character 9: expected ( and values, not \"a\""},
        {"name in (\"a\"", "at character 13: expected , or ), not the end"},
        {"name in ()", "at character 10: expected a text in double quotes, not )"},
        {"name = \"\xc3\xa9\" ;", "at character 12: nothing begins with this character"},
        {"name = 'a'", "at character 8: texts stand in double quotes"},
        {"name = \"a", "at character 8: the text has no closing double quote"},
        {"name = \"a\\n\"", "at character 8: a backslash in a text stands before a double quote or "
                            "a backslash"},
        {"errors = 99999999999999999999999999999999999999999",
         "at character 10: this number is too long"},
        {"errors = 1e999", "at character 10: this number is too large"},
        {"errors = 1parsec", "at character 10: units are ns, us, ms, s, m, h, d, B, KB, MB, GB, "
                             "KiB, MiB and GiB"},
        {"duration = 9999999999d", "at character 12: this number is too large"},
        {"trace_id = \"12\"", "at character 12: expected 32 hex digits in double quotes, not "
                              "\"12\""},
        {"kind = \"klient\"", "at character 8: expected \"internal\", \"server\", \"client\", "
                              "\"producer\", \"consumer\" or \"unspecified\", not \"klient\""},
        {"any(status = \"bad\")", "at character 14: expected \"unset\", \"ok\" or \"error\", not "
                                  "\"bad\""},
        {"attr(zone) = 1", "at character 6: expected an attribute's key in double quotes, not "
                           "zone"},
        {"attr(\"a\\\"b\") = 1", "at character 6: expected an attribute's key in double quotes, "
                                 "not \"a\\\"b\""},
        {"attr(\"a\") contains 5", "at character 11: contains is not for a number"},
        {"attr(\"a\") < true", "at character 11: < is not for a boolean"},
        {"attr(\"a\") = yes", "at character 13: expected a text in double quotes, a number, true "
                              "or false, not yes"},
        {"attr(\"a\") in (1, \"b\")", "at character 18: expected a number or size, as 12, 0.5 or "
                                      "64KiB, not \"b\""},
        {"any(any(op = \"a\"))", "at character 5: there are no functions inside of functions"},
        {"sum(op) = 1", "at character 5: only numbers and durations have a sum, min or max"},
        {"sum(in_tok op = \"a\") = 1", "at character 12: expected , or ), not op"},
        {"count(op = \"a\")", "at character 16: expected = != < <= > >= in, not the end"},
        {"any(errors = 1)", "at character 5: spans have no name errors, but span_id, start_ns"},
        {"nam = 1", "at character 1: traces have no name nam, but trace_id, start_ns, end_ns, "
                    "name, session"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        expr_t *expr = expr_parse(rows[i].text, listing_row(LISTING_TRACES), &err);
        assert_null(expr);
        if (strncmp(err.text, rows[i].reason, strlen(rows[i].reason)) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", rows[i].text, err.text, rows[i].reason);
    }
}

static void names_that_are_not_shown_are_hinted_at(void **state)
{
    struct err err;
    (void)state;
    assert_null(expr_parse("any(errors = 1)", listing_row(LISTING_TRACES), &err));
    assert_string_equal(err.text + strlen(err.text) - strlen(", ..."), ", ...");
    assert_null(expr_parse("nam = 1", listing_row(LISTING_TRACES), &err));
    assert_string_equal(err.text + strlen(err.text) - strlen(", duration"), ", duration");
}

static void only_traces_have_spans(void **state)
{
    struct err err;
    (void)state;
    assert_null(expr_parse("count() = 1", listing_row(LISTING_LOGS), &err));
    assert_string_equal(err.text, "at character 1: only traces have spans to ask");
    assert_null(expr_parse("attr(\"a\") = 1", listing_row(LISTING_SCORES), &err));
    assert_string_equal(err.text, "at character 1: these rows have no attributes");
    assert_null(expr_parse("tool = \"a\"", listing_row(LISTING_REJECTS), &err));
    expr_t *expr = expr_parse("count > 1", listing_row(LISTING_METRICS), &err); /* a name there */
    assert_non_null(expr);
    expr_destroy(&expr);
}

/* text, so often, then an end. */
static char *repeat(const char *text, size_t times, const char *end)
{
    char *all = calloc(times * strlen(text) + strlen(end) + 1, 1);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * strlen(text), text, strlen(text));
    memcpy(all + times * strlen(text), end, strlen(end));
    return all;
}

static void parse_repeated(const char *text, size_t times, const char *end, struct err *err)
{
    char *all = repeat(text, times, end);
    expr_t *expr = expr_parse(all, listing_row(LISTING_TRACES), err);
    assert_null(expr);
    free(all);
}

static void size_is_bounded(void **state)
{
    struct err err;
    (void)state;
    parse_repeated(" ", EXPR_TEXT_MAX, "errors = 1", &err);
    assert_string_equal(err.text, "the condition is longer than 4096 bytes");
    parse_repeated("errors = 1 or ", EXPR_NODES_MAX, "errors = 1", &err);
    assert_non_null(strstr(err.text, "too many parts"));
    parse_repeated("(", EXPR_DEPTH_MAX, "errors = 1", &err);
    assert_non_null(strstr(err.text, "nested too deeply"));
    parse_repeated("not ", 1000, "errors = 1", &err);
    assert_non_null(strstr(err.text, "nested too deeply"));
    char *values = repeat("1,", EXPR_VALUES_MAX, "1)");
    char text[EXPR_TEXT_MAX];
    snprintf(text, sizeof text, "errors in (%s", values);
    assert_null(expr_parse(text, listing_row(LISTING_TRACES), &err));
    assert_non_null(strstr(err.text, "too many values"));
    free(values);
    parse_repeated("\xff", 1, " = 1", &err);
    assert_string_equal(err.text, "the condition is no UTF-8");
}

/* What passes the parser's limits, SQLite takes: its own parser has limits, too. */
static void largest_conditions_run(void **state)
{
    char *wide = repeat("model = \"m\" or ", (EXPR_NODES_MAX - 2) / 2 - 1, "attr(\"k\") = true");
    check_case(*state, "traces", "", wide);
    free(wide);
    char *deep = repeat("not (", EXPR_DEPTH_MAX / 2, "");
    char text[512];
    /* not, its operand, and the function take a level each. */
    snprintf(text, sizeof text, "%.*s(any(attr(\"zone\") in (\"c\")))%.*s", 5 * 4, deep, 4, "))))");
    check_case(*state, "traces", "t2", text);
    snprintf(text, sizeof text, "%s", "((((((((((any(attr(\"zone\") in (\"c\")))))))))))) ");
    check_case(*state, "traces", "t2", text);
    free(deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_and_sql_find_the_same, set_up, tear_down),
        cmocka_unit_test(refusals_name_place_and_choice),
        cmocka_unit_test(names_that_are_not_shown_are_hinted_at),
        cmocka_unit_test(only_traces_have_spans),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test_setup_teardown(largest_conditions_run, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
