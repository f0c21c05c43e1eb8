// SPDX-License-Identifier: MIT
/*
 * rival_sqlite: the rows that the daemon's SQLite backend writes for a request, written by a plain
 * program that has them ready made: no HTTP, no decoding, no queue.
 *
 *     rival_sqlite FILE SECONDS REQUESTS FIRST
 *
 * FILE is a daemon's, with the rows of one request in it. They are read, and written again and
 * again as those of further requests, from number FIRST on, REQUESTS in a transaction: their key
 * rows, their spans, the rows of their traces. Prints the requests committed in a second.
 *
 * Why nothing faster is known: SQLite has one writer at a time, so one thread; statements are
 * prepared once and values bound without a copy; a transaction holds as many requests as wait for
 * the daemon; the file's settings are the daemon's.
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "span_rows.h"

#define COLUMNS_MAX     48
#define WARM_UP_SECONDS 1.0

struct cell {
    sqlite3_value *value; /* as stored */
    enum meaning meaning; /* what changes in it */
    size_t number;        /* of the id within the request */
};

struct table {
    const char *name;
    const char *conflict;
    size_t column_count;
    size_t row_count;
    struct cell *cells; /* row after row */
    sqlite3_stmt *insert;
};

static struct table tables[] = {
    {.name = "idem", .conflict = "ON CONFLICT DO NOTHING"},
    {.name = "spans", .conflict = "ON CONFLICT DO NOTHING"},
    {.name = "traces",
     .conflict =
         "ON CONFLICT (project, trace_id) DO UPDATE SET"
         " session = coalesce(session, excluded.session),"
         " root_name = coalesce(excluded.root_name, root_name),"
         " start_ns = min(start_ns, excluded.start_ns), end_ns = max(end_ns, excluded.end_ns),"
         " spans = spans + excluded.spans, errors = errors + excluded.errors,"
         " in_tok = in_tok + excluded.in_tok, out_tok = out_tok + excluded.out_tok,"
         " last_seen = excluded.last_seen"},
};
#define TABLE_COUNT (sizeof tables / sizeof *tables)

static sqlite3 *db;
static struct span_numbers numbers;
static int64_t newest_ns; /* time of the stored request */

static void check(int rc)
{
    if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE) {
        fprintf(stderr, "rival_sqlite: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
}

static void run(const char *sql)
{
    check(sqlite3_exec(db, sql, NULL, NULL, NULL));
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL));
    return statement;
}

static void read_numbers(void)
{
    sqlite3_stmt *ids = prepare("SELECT trace_id, span_id, end_ns FROM spans ORDER BY start_ns");
    while (sqlite3_step(ids) == SQLITE_ROW) {
        span_numbers_add(&numbers, sqlite3_column_blob(ids, 0), sqlite3_column_blob(ids, 1));
        if (sqlite3_column_int64(ids, 2) > newest_ns)
            newest_ns = sqlite3_column_int64(ids, 2);
    }
    sqlite3_finalize(ids);
}

static struct cell cell_of(const char *column, sqlite3_value *value)
{
    struct cell cell = {.value = sqlite3_value_dup(value)};
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return cell;
    cell.meaning = meaning_of(column);
    if (cell.meaning == TRACE_ID)
        cell.number = span_numbers_trace(&numbers, sqlite3_value_blob(value));
    if (cell.meaning == SPAN_ID)
        cell.number = span_numbers_span(&numbers, sqlite3_value_blob(value));
    return cell;
}

/* Its rows as they are stored, and the statement that inserts such a row. */
static void read_table(struct table *self)
{
    char text[4096];
    snprintf(text, sizeof text, "SELECT * FROM %s", self->name);
    sqlite3_stmt *rows = prepare(text);
    int first = strcmp(sqlite3_column_name(rows, 0), "seq") == 0; /* the database numbers them */
    int count = sqlite3_column_count(rows);
    self->column_count = (size_t)(count - first);
    char *sql = sqlite3_mprintf("INSERT INTO %s (", self->name);
    for (int i = first; i < count; i++)
        sql = sqlite3_mprintf("%z%s%s", sql, i > first ? "," : "", sqlite3_column_name(rows, i));
    for (int i = first; i < count; i++)
        sql = sqlite3_mprintf("%z%s", sql, i > first ? ",?" : ") VALUES (?");
    sql = sqlite3_mprintf("%z) %s", sql, self->conflict);
    self->insert = prepare(sql);
    sqlite3_free(sql);
    while (sqlite3_step(rows) == SQLITE_ROW) {
        size_t cells = ++self->row_count * self->column_count;
        self->cells = realloc(self->cells, cells * sizeof *self->cells);
        struct cell *row = self->cells + cells - self->column_count;
        for (int i = first; i < count; i++)
            row[i - first] = cell_of(sqlite3_column_name(rows, i), sqlite3_column_value(rows, i));
    }
    sqlite3_finalize(rows);
}

/* The value of another request; `room` holds an id until the row is written. */
static void bind(sqlite3_stmt *insert, int at, const struct cell *cell, uint64_t request,
                 int64_t ahead_ns, uint8_t room[16])
{
    if (cell->meaning == SAME) {
        check(sqlite3_bind_value(insert, at, cell->value));
        return;
    }
    if (cell->meaning == TIME) {
        check(sqlite3_bind_int64(insert, at, sqlite3_value_int64(cell->value) + ahead_ns));
        return;
    }
    int len = sqlite3_value_bytes(cell->value);
    memcpy(room, sqlite3_value_blob(cell->value), (size_t)len);
    if (cell->meaning == SPAN_ID)
        span_id_renew(room, request, cell->number);
    else
        trace_id_renew(room, request, cell->number);
    check(sqlite3_bind_blob(insert, at, room, len, SQLITE_STATIC));
}

static void write_request(uint64_t request)
{
    uint8_t room[COLUMNS_MAX][16];
    int64_t ahead_ns = (int64_t)bench_wall_ns() - newest_ns;
    for (struct table *table = tables; table < tables + TABLE_COUNT; table++) {
        for (size_t row = 0; row < table->row_count; row++) {
            const struct cell *cells = table->cells + row * table->column_count;
            for (size_t i = 0; i < table->column_count; i++)
                bind(table->insert, (int)i + 1, &cells[i], request, ahead_ns, room[i]);
            check(sqlite3_step(table->insert));
            check(sqlite3_reset(table->insert));
        }
    }
}

static void write_for(double seconds, uint64_t *next, unsigned long in_transaction)
{
    double end = bench_now_seconds() + seconds;
    while (bench_now_seconds() < end) {
        run("BEGIN IMMEDIATE");
        for (unsigned long i = 0; i < in_transaction; i++)
            write_request((*next)++);
        run("COMMIT");
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: rival_sqlite FILE SECONDS REQUESTS FIRST\n");
        return 2;
    }
    double seconds = strtod(argv[2], NULL);
    unsigned long in_transaction = strtoul(argv[3], NULL, 10);
    uint64_t next = strtoul(argv[4], NULL, 10);
    check(sqlite3_open(argv[1], &db));
    run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;"
        "PRAGMA cache_size = -65536;");
    read_numbers();
    for (size_t i = 0; i < TABLE_COUNT; i++)
        read_table(&tables[i]);
    write_for(WARM_UP_SECONDS, &next, in_transaction);
    uint64_t first = next;
    double began = bench_now_seconds();
    write_for(seconds, &next, in_transaction);
    printf("%.3f\n", (double)(next - first) / (bench_now_seconds() - began));
    return 0;
}
