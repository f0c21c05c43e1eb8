// SPDX-License-Identifier: MIT
/*
 * The promise: what is sent twice is stored and counted once, whichever way it comes twice; and a
 * request that cannot be stored harms none beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "store/backend_sqlite.h"
#include "tests/unit/sqlite_help.h"

#define START_NS  1767323045000000000ull
#define DAY_NS    86400000000000ull
#define KEY_TTL_S 3600

struct fixture {
    char folder[HELP_FOLDER];
    char path[HELP_PATH];
    backend_store_t *store;
    backend_conn_t *writer;
    backend_conn_t *reader;
};

static int set_up(void **state)
{
    struct fixture *self = calloc(1, sizeof *self);
    struct err err;
    place_make(self->folder, self->path);
    self->store = backend_sqlite.open(self->path, &err);
    assert_non_null(self->store);
    self->writer = backend_sqlite.connect(self->store, true, &err);
    self->reader = backend_sqlite.connect(self->store, false, &err);
    assert_non_null(self->writer);
    assert_non_null(self->reader);
    *state = self;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *self = *state;
    backend_sqlite.disconnect(&self->reader);
    backend_sqlite.disconnect(&self->writer);
    backend_sqlite.close(&self->store);
    place_remove(self->folder, self->path);
    free(self);
    return 0;
}

/* Runs SQL on the file from outside, as another program would. */
static void sql(struct fixture *self, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(self->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t number(struct fixture *self, const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(self->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t result = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return result;
}

static struct backend_request *new_request(uint8_t key)
{
    struct backend_request *request = backend_request_new();
    request->project = "default";
    request->key_ttl_s = KEY_TTL_S;
    memset(request->key, key, sizeof request->key);
    memset(request->body, key, sizeof request->body);
    return request;
}

/* A closed chat span with 10 tokens in and 3 out. */
static struct span *add_span(struct backend_request *request, uint8_t trace, uint8_t id)
{
    struct event *event = batch_add(&request->batch, EVENT_SPAN);
    struct span *span = &event->span;
    memset(span->trace_id, trace, sizeof span->trace_id);
    memset(span->span_id, id, sizeof span->span_id);
    span->start_ns = START_NS + id;
    span->end_ns = START_NS + 1000 + id;
    span->name = slice_of("chat m");
    span->op = slice_of("chat");
    span->model = slice_of("m");
    span->in_tok = 10;
    span->out_tok = 3;
    span->attrs = slice_of("{}");
    return span;
}

static enum backend_status write_all(struct fixture *self, struct backend_request **requests,
                                     size_t count)
{
    struct err err = {{0}};
    enum backend_status status = backend_sqlite.write(self->writer, requests, count, &err);
    if (status == BACKEND_AWAY)
        print_message("%s\n", err.text);
    return status;
}

static void check_counts(const struct backend_request *request, uint64_t accepted,
                         uint64_t duplicate, uint64_t rejected)
{
    assert_int_equal(request->counts.accepted, accepted);
    assert_int_equal(request->counts.duplicate, duplicate);
    assert_int_equal(request->counts.rejected, rejected);
}

/* Writes one request alone, checks its counts and lets it go. */
static void write_one(struct fixture *self, struct backend_request *request, uint64_t accepted,
                      uint64_t duplicate, uint64_t rejected)
{
    assert_int_equal(write_all(self, &request, 1), BACKEND_OK);
    check_counts(request, accepted, duplicate, rejected);
    backend_request_destroy(&request);
}

static void check_trace(struct fixture *self, int64_t spans, int64_t errors, int64_t in_tok,
                        int64_t out_tok)
{
    assert_int_equal(number(self, "SELECT spans FROM traces"), spans);
    assert_int_equal(number(self, "SELECT errors FROM traces"), errors);
    assert_int_equal(number(self, "SELECT in_tok FROM traces"), in_tok);
    assert_int_equal(number(self, "SELECT out_tok FROM traces"), out_tok);
}

static struct backend_request *two_spans(uint8_t key)
{
    struct backend_request *request = new_request(key);
    add_span(request, 1, 1);
    add_span(request, 1, 2)->status = SPAN_STATUS_ERROR;
    batch_reject(&request->batch, REJECT_BAD_ID, slice_of("x"), "not an id",
                 &(struct source){SOURCE_JSON, slice_of("{}")});
    return request;
}

static void resend_is_answered_from_the_counts_of_then(void **state)
{
    struct fixture *self = *state;
    write_one(self, two_spans(1), 2, 0, 1);
    for (int i = 0; i < 2; i++) {
        struct backend_request *again = two_spans(1);
        assert_int_equal(write_all(self, &again, 1), BACKEND_OK);
        assert_true(again->is_resend);
        assert_false(again->is_mismatch);
        check_counts(again, 0, 2, 1);
        backend_request_destroy(&again);
    }
    assert_int_equal(number(self, "SELECT count(*) FROM spans"), 2);
    check_trace(self, 2, 1, 20, 6);
}

static void twins_in_one_group_are_stored_once(void **state)
{
    struct fixture *self = *state;
    struct backend_request *group[] = {two_spans(1), two_spans(1), two_spans(2)};
    assert_int_equal(write_all(self, group, 3), BACKEND_OK);
    check_counts(group[0], 2, 0, 1);
    check_counts(group[1], 0, 2, 1);
    check_counts(group[2], 0, 2, 1); /* another key, the same spans */
    assert_true(group[1]->is_resend);
    assert_false(group[2]->is_resend);
    check_trace(self, 2, 1, 20, 6);
    for (size_t i = 0; i < 3; i++)
        backend_request_destroy(&group[i]);
    /* The key row of the third has what it was told: its resend is told the same. */
    write_one(self, two_spans(2), 0, 2, 1);
}

static void known_key_with_other_spans_stores_nothing(void **state)
{
    struct fixture *self = *state;
    write_one(self, two_spans(1), 2, 0, 1);
    struct backend_request *other = new_request(1);
    memset(other->body, 9, sizeof other->body);
    add_span(other, 7, 7);
    assert_int_equal(write_all(self, &other, 1), BACKEND_OK);
    assert_true(other->is_resend);
    assert_true(other->is_mismatch);
    backend_request_destroy(&other);
    assert_int_equal(number(self, "SELECT count(*) FROM spans"), 2);
    check_trace(self, 2, 1, 20, 6);
}

static void identity_catches_what_the_key_forgot(void **state)
{
    struct fixture *self = *state;
    write_one(self, two_spans(1), 2, 0, 1);
    sql(self, "DELETE FROM idem");
    struct backend_request *again = two_spans(1);
    assert_int_equal(write_all(self, &again, 1), BACKEND_OK);
    assert_false(again->is_resend);
    check_counts(again, 0, 2, 1);
    backend_request_destroy(&again);
    assert_int_equal(number(self, "SELECT count(*) FROM spans"), 2);
    check_trace(self, 2, 1, 20, 6);
}

static void expired_key_is_no_key(void **state)
{
    struct fixture *self = *state;
    struct err err;
    write_one(self, two_spans(1), 2, 0, 1);
    sql(self, "UPDATE idem SET expires_at = unixepoch() - 1");
    struct backend_request *other = new_request(1);
    add_span(other, 7, 7);
    write_one(self, other, 1, 0, 0);
    assert_int_equal(number(self, "SELECT accepted FROM idem"), 1);
    assert_true(number(self, "SELECT expires_at - unixepoch() FROM idem") > KEY_TTL_S - 60);

    sql(self, "UPDATE idem SET expires_at = unixepoch() - 1");
    assert_int_equal(backend_sqlite.sweep(self->writer, 5000, &err), 1);
    assert_int_equal(number(self, "SELECT count(*) FROM idem"), 0);
    assert_int_equal(backend_sqlite.sweep(self->writer, 5000, &err), 0);
}

static void sweep_takes_no_more_than_asked(void **state)
{
    struct fixture *self = *state;
    struct err err;
    for (uint8_t i = 1; i <= 5; i++) {
        struct backend_request *request = new_request(i);
        add_span(request, i, i);
        write_one(self, request, 1, 0, 0);
    }
    sql(self, "UPDATE idem SET expires_at = unixepoch() - 1 WHERE accepted = 1");
    assert_int_equal(backend_sqlite.sweep(self->writer, 2, &err), 2);
    assert_int_equal(number(self, "SELECT count(*) FROM idem"), 3);
}

static void open_span_is_completed_once(void **state)
{
    struct fixture *self = *state;
    struct backend_request *request = new_request(1);
    struct span *span = add_span(request, 1, 1);
    span->end_ns = 0;
    span->in_tok = BATCH_TOKENS_NONE;
    span->out_tok = 1;
    span->agent = slice_of("helper");
    write_one(self, request, 1, 0, 0);
    check_trace(self, 1, 0, 0, 1);

    request = new_request(2);
    span = add_span(request, 1, 1); /* open again: nothing new */
    span->end_ns = 0;
    write_one(self, request, 0, 1, 0);
    check_trace(self, 1, 0, 0, 1);

    request = new_request(3);
    add_span(request, 1, 1)->status = SPAN_STATUS_ERROR;
    write_one(self, request, 1, 0, 0);
    check_trace(self, 1, 1, 10, 3);
    assert_int_equal(number(self, "SELECT end_ns FROM spans"), (int64_t)(START_NS + 1001));
    assert_int_equal(number(self, "SELECT agent = 'helper' FROM spans"), 1);
    assert_int_equal(number(self, "SELECT end_ns FROM traces"), (int64_t)(START_NS + 1001));

    request = new_request(4);
    add_span(request, 1, 1)->end_ns = START_NS + 5000; /* closed already */
    write_one(self, request, 0, 1, 0);
    check_trace(self, 1, 1, 10, 3);
    assert_int_equal(number(self, "SELECT end_ns FROM spans"), (int64_t)(START_NS + 1001));
}

/* A start and its end in one request, and both again under another key. */
static void start_and_end_in_one_body(void **state)
{
    struct fixture *self = *state;
    for (uint8_t key = 1; key <= 2; key++) {
        struct backend_request *request = new_request(key);
        add_span(request, 1, 1)->end_ns = 0;
        add_span(request, 1, 1);
        if (key == 1)
            write_one(self, request, 2, 0, 0);
        else
            write_one(self, request, 0, 2, 0);
        check_trace(self, 1, 0, 10, 3);
    }
}

static void agent_spans_do_not_count_tokens_again(void **state)
{
    struct fixture *self = *state;
    struct backend_request *request = new_request(1);
    add_span(request, 1, 1)->op = slice_of("invoke_agent");
    struct span *span = add_span(request, 1, 2);
    span->has_parent = true;
    span->name = slice_of("child");
    write_one(self, request, 2, 0, 0);
    check_trace(self, 2, 0, 10, 3);
    assert_int_equal(number(self, "SELECT root_name = 'chat m' FROM traces"), 1);
}

/* Larger than any value that the database takes. */
static struct slice huge_text(void)
{
    static char *text;
    size_t len = (size_t)65 * 1024 * 1024;
    if (!text) {
        text = malloc(len);
        assert_non_null(text);
        memset(text, 'x', len);
    }
    return (struct slice){text, len};
}

static void request_that_fails_is_left_to_run_alone(void **state)
{
    struct fixture *self = *state;
    struct backend_request *good = new_request(1);
    struct backend_request *bad = new_request(2);
    add_span(good, 1, 1);
    add_span(bad, 2, 1);
    add_span(bad, 2, 2)->attrs = huge_text();
    struct backend_request *group[] = {good, bad};
    assert_int_equal(write_all(self, group, 2), BACKEND_RERUN);
    assert_int_equal(number(self, "SELECT count(*) FROM spans"), 0);
    assert_int_equal(number(self, "SELECT count(*) FROM idem"), 0);
    assert_int_equal(number(self, "SELECT count(*) FROM traces"), 0);

    /* Alone, only the guilty event stays out. */
    assert_int_equal(write_all(self, &bad, 1), BACKEND_OK);
    check_counts(bad, 1, 0, 1);
    assert_int_equal(bad->refused_count, 1);
    assert_int_equal(bad->refused[0], 1);
    check_trace(self, 1, 0, 10, 3);
    assert_int_equal(number(self, "SELECT rejected FROM idem"), 1);
    backend_request_destroy(&good);
    backend_request_destroy(&bad);
}

static void request_refused_whole_leaves_nothing(void **state)
{
    struct fixture *self = *state;
    struct backend_request *bad = new_request(1);
    add_span(bad, 2, 2)->content = huge_text();
    write_one(self, bad, 0, 0, 1);
    assert_int_equal(number(self, "SELECT count(*) FROM spans"), 0);
    assert_int_equal(number(self, "SELECT count(*) FROM idem"), 0);
}

static void rejects_are_kept_with_their_reason(void **state)
{
    struct fixture *self = *state;
    write_one(self, two_spans(1), 2, 0, 1);
    write_one(self, two_spans(1), 0, 2, 1);
    assert_int_equal(number(self, "SELECT count(*) FROM rejects WHERE code = 'bad_id'"
                                  " AND event_id = 'x' AND position = 2"),
                     1);
}

static void only_the_newest_rejects_are_kept(void **state)
{
    struct fixture *self = *state;
    struct err err;
    sql(self, "INSERT INTO projects (name) VALUES ('a'), ('b');"
              "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10007)"
              " INSERT INTO rejects (project, key, position, code, message, created_ns, expires_at)"
              " SELECT 1 + (i % 1000 = 0), x'00', i, 'c', 'm', i, unixepoch() + 1000 FROM n");
    /* Ten are the second project's, 9,997 the first's: nothing is over. */
    assert_int_equal(backend_sqlite.sweep(self->writer, 5000, &err), 0);
    sql(self, "UPDATE rejects SET project = 1");
    assert_int_equal(backend_sqlite.sweep(self->writer, 5, &err), 5);
    assert_int_equal(backend_sqlite.sweep(self->writer, 5, &err), 2);
    assert_int_equal(number(self, "SELECT min(position) FROM rejects"), 8);
}

/* Whole days, of the projects that are named alone, and no more rows at once than asked. */
static void forgetting_keeps_to_days_and_projects(void **state)
{
    static const uint8_t ages[] = {0, 2, 3, 4, 5};
    static const struct retention kept[] = {{"shop", 3}, {"nobody", 1}};
    struct fixture *self = *state;
    struct err err = {{0}};
    uint64_t now_ns = clock_wall_ns();
    for (uint8_t i = 0; i < sizeof ages; i++) {
        struct backend_request *request = new_request(i);
        struct span *span = add_span(request, i, 1);
        span->start_ns = span->end_ns = now_ns - ages[i] * DAY_NS;
        request->project = "shop";
        write_one(self, request, 1, 0, 0);
        request = new_request(i);
        add_span(request, i, 1)->start_ns = START_NS;
        write_one(self, request, 1, 0, 0);
    }
    assert_int_equal(backend_sqlite.forget(self->writer, kept, 2, 1, &err), 1);
    assert_int_equal(backend_sqlite.forget(self->writer, kept, 2, 100, &err), 1);
    assert_int_equal(backend_sqlite.forget(self->writer, kept, 2, 100, &err), 0);
    assert_int_equal(number(self, "SELECT count(*) FROM spans"), 3 + (int)sizeof ages);
    assert_int_equal(number(self, "SELECT count(*) FROM traces"), 3 + (int)sizeof ages);
    assert_int_equal(number(self, "SELECT unixepoch() / 86400 - min(day) FROM spans"
                                  " WHERE project = (SELECT id FROM projects WHERE name = 'shop')"),
                     3);
}

/* A day is the span's own, so a resend on a later day finds it, and a trace is read over days. */
static void trace_over_midnight_is_one(void **state)
{
    struct fixture *self = *state;
    struct backend_request *request = new_request(1);
    add_span(request, 1, 1);
    struct span *span = add_span(request, 1, 2);
    span->start_ns += 3 * DAY_NS;
    span->end_ns += 3 * DAY_NS;
    write_one(self, request, 2, 0, 0);
    assert_int_equal(number(self, "SELECT max(day) - min(day) FROM spans"), 3);
    check_trace(self, 2, 0, 20, 6);
}

/* Reading. */

struct seen {
    int traces;
    int spans;
    uint8_t first_byte[16]; /* of the ids, in order */
    int64_t last_ns;
    struct list_value last_key;
    uint8_t last_id[TRACE_ID_LEN];
};

static int see_trace(void *arg, const struct list_value *values)
{
    struct seen *seen = arg;
    assert_int_equal(values[0].type, LIST_BYTES);
    assert_int_equal(values[0].bytes.len, TRACE_ID_LEN);
    memcpy(seen->last_id, values[0].bytes.data, TRACE_ID_LEN);
    seen->first_byte[seen->traces++] = seen->last_id[0];
    seen->last_ns = values[1].integer;
    seen->last_key =
        (struct list_value){.type = LIST_BYTES, .bytes = {(char *)seen->last_id, TRACE_ID_LEN}};
    return 0;
}

static int see_span(void *arg, const struct list_value *values)
{
    struct seen *seen = arg;
    const struct listing *spans = listing_row(LISTING_SPANS);
    seen->first_byte[seen->spans++] = (uint8_t)values[0].bytes.data[0];
    for (size_t i = 0; spans->columns[i].name; i++) {
        if (strcmp(spans->columns[i].name, "name") == 0)
            assert_int_equal(strncmp(values[i].bytes.data, "chat m", values[i].bytes.len), 0);
        if (strcmp(spans->columns[i].name, "in_tok") == 0)
            assert_int_equal(values[i].integer, 10);
        if (strcmp(spans->columns[i].name, "parent_id") == 0)
            assert_int_equal(values[i].type, LIST_NULL);
    }
    return 0;
}

static struct list_query any_trace(void)
{
    return (struct list_query){.listing = listing_row(LISTING_TRACES),
                               .project = "default",
                               .to_ns = INT64_MAX,
                               .limit = 10,
                               .deadline_ms = clock_mono_ms() + 10000};
}

/* Sets a filter by its parameter's name. */
static void set_filter(struct list_query *query, const char *name, struct list_value value)
{
    const struct filter *filters = query->listing->filters;
    for (size_t i = 0; filters[i].name; i++)
        if (strcmp(filters[i].name, name) == 0)
            query->filters[i] = value;
}

static struct list_value text_value(const char *text)
{
    return (struct list_value){.type = LIST_TEXT, .bytes = slice_of(text)};
}

static struct seen list(struct fixture *self, const struct list_query *query)
{
    struct seen seen = {0};
    struct err err = {{0}};
    assert_int_equal(backend_sqlite.list(self->reader, query, see_trace, &seen, &err), 0);
    return seen;
}

static void write_four_traces(struct fixture *self)
{
    struct backend_request *request = new_request(1);
    for (uint8_t trace = 1; trace <= 4; trace++) {
        struct span *span = add_span(request, trace, 1);
        span->start_ns += trace == 4 ? 2 * DAY_NS : 0; /* 1, 2, 3 start at once */
        span->end_ns += trace == 4 ? 2 * DAY_NS : 0;
    }
    request->batch.events[0].span.session = slice_of("s1");
    request->batch.events[1].span.status = SPAN_STATUS_ERROR;
    request->batch.events[2].span.tool = slice_of("grep");
    struct span *late = add_span(request, 1, 2); /* of another day than its trace's start */
    late->start_ns += DAY_NS;
    late->end_ns += DAY_NS;
    late->agent = slice_of("helper");
    late->model = slice_of("other");
    write_one(self, request, 5, 0, 0);
}

static void list_is_newest_first_in_pages(void **state)
{
    struct fixture *self = *state;
    write_four_traces(self);
    struct list_query query = any_trace();
    struct seen seen;
    uint8_t got[8];
    int count = 0;
    query.limit = 1;
    while ((seen = list(self, &query)).traces > 0) {
        assert_int_equal(seen.traces, 1);
        assert_true(count < 8);
        got[count++] = seen.first_byte[0];
        query.cursor_ns = seen.last_ns;
        query.cursor_key = seen.last_key;
        query.cursor_key.bytes.data = (char *)seen.last_id;
    }
    assert_int_equal(count, 4);
    assert_memory_equal(got, ((uint8_t[]){4, 3, 2, 1}), 4);
}

static void list_filters(void **state)
{
    struct fixture *self = *state;
    struct list_query cases[9];
    write_four_traces(self);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cases[i] = any_trace();
    set_filter(&cases[0], "session", text_value("s1"));
    set_filter(&cases[1], "status", (struct list_value){.type = LIST_INT, .integer = 1});
    set_filter(&cases[2], "tool", text_value("grep"));
    set_filter(&cases[3], "agent", text_value("helper"));
    set_filter(&cases[4], "model", text_value("other"));
    cases[5].from_ns = (int64_t)(START_NS + DAY_NS);
    cases[6].to_ns = (int64_t)(START_NS + DAY_NS);
    cases[7].project = "nobody";
    set_filter(&cases[8], "model", text_value("m"));
    static const struct {
        int rows;
        uint8_t first;
    } expected[] = {{1, 1}, {1, 2}, {1, 3}, {1, 1}, {1, 1}, {1, 4}, {3, 3}, {0, 0}, {4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct seen seen = list(self, &cases[i]);
        assert_int_equal(seen.traces, expected[i].rows);
        assert_int_equal(seen.first_byte[0], expected[i].first);
    }
}

static void trace_is_read_with_all_its_spans(void **state)
{
    struct fixture *self = *state;
    struct err err;
    write_four_traces(self);
    struct trace_key key = {.project = "default", .deadline_ms = clock_mono_ms() + 10000};
    struct seen seen = {0};
    memset(key.trace_id, 1, sizeof key.trace_id);
    assert_int_equal(
        backend_sqlite.read_trace(self->reader, &key, see_trace, see_span, &seen, &err), 0);
    assert_int_equal(seen.traces, 1);
    assert_int_equal(seen.spans, 2);
    assert_memory_equal(seen.first_byte, ((uint8_t[]){1, 2}), 2);
    memset(key.trace_id, 9, sizeof key.trace_id);
    assert_int_equal(
        backend_sqlite.read_trace(self->reader, &key, see_trace, see_span, &seen, &err), 1);
}

static void reading_stops_at_its_deadline(void **state)
{
    struct fixture *self = *state;
    struct err err;
    struct seen seen = {0};
    sql(self, "INSERT INTO projects (name) VALUES ('default');"
              "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
              " INSERT INTO traces (project, trace_id, start_ns, end_ns, spans, errors, in_tok,"
              " out_tok, last_seen) SELECT 1, randomblob(16), i, 864000000000000, 1, 0, 0, 0, 0"
              " FROM n");
    struct list_query query = any_trace();
    set_filter(&query, "model", text_value("none"));
    query.deadline_ms = clock_mono_ms() + 1;
    assert_int_equal(backend_sqlite.list(self->reader, &query, see_trace, &seen, &err), -1);
    query = any_trace();
    assert_int_equal(list(self, &query).traces, 10);
}

/* The file. */

static void second_daemon_is_refused(void **state)
{
    struct fixture *self = *state;
    struct err err;
    assert_null(backend_sqlite.open(self->path, &err));
    assert_non_null(strstr(err.text, "in use by another daemon"));
    assert_non_null(strstr(err.text, self->path));
}

static void file_is_the_owners_only(void **state)
{
    struct fixture *self = *state;
    struct stat status;
    assert_int_equal(stat(self->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void foreign_or_newer_file_is_refused(void **state)
{
    static const char *const changes[] = {"UPDATE schema_version SET version = 99",
                                          "PRAGMA application_id = 7"};
    static const char *const reasons[] = {"version 99", "another program"};
    struct fixture *self = *state;
    struct err err;
    backend_sqlite.disconnect(&self->reader);
    backend_sqlite.disconnect(&self->writer);
    backend_sqlite.close(&self->store);
    for (size_t i = 0; i < 2; i++) {
        sql(self, changes[i]);
        assert_null(backend_sqlite.open(self->path, &err));
        assert_non_null(strstr(err.text, reasons[i]));
    }
}

static void probe_answers(void **state)
{
    struct fixture *self = *state;
    struct err err;
    assert_int_equal(backend_sqlite.probe(self->writer, false, &err), 0);
    assert_int_equal(backend_sqlite.probe(self->writer, true, &err), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(resend_is_answered_from_the_counts_of_then),
        CASE(twins_in_one_group_are_stored_once),
        CASE(known_key_with_other_spans_stores_nothing),
        CASE(identity_catches_what_the_key_forgot),
        CASE(expired_key_is_no_key),
        CASE(sweep_takes_no_more_than_asked),
        CASE(forgetting_keeps_to_days_and_projects),
        CASE(open_span_is_completed_once),
        CASE(start_and_end_in_one_body),
        CASE(agent_spans_do_not_count_tokens_again),
        CASE(request_that_fails_is_left_to_run_alone),
        CASE(request_refused_whole_leaves_nothing),
        CASE(rejects_are_kept_with_their_reason),
        CASE(only_the_newest_rejects_are_kept),
        CASE(trace_over_midnight_is_one),
        CASE(list_is_newest_first_in_pages),
        CASE(list_filters),
        CASE(trace_is_read_with_all_its_spans),
        CASE(reading_stops_at_its_deadline),
        CASE(second_daemon_is_refused),
        CASE(file_is_the_owners_only),
        CASE(foreign_or_newer_file_is_refused),
        CASE(probe_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
