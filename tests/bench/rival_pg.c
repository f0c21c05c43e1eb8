// SPDX-License-Identifier: MIT
/*
 * rival_pg: the rows that the daemon's Postgres backend writes for a request, written by a plain
 * libpq program that has them ready made: no HTTP, no decoding, no queue, no way to tell which rows
 * were new.
 *
 *     rival_pg CONNINFO WAY SECONDS CONNECTIONS REQUESTS FIRST
 *
 * The database is a daemon's, with the rows of one request in it. They are read, and written again
 * and again as those of further requests, from number FIRST on, over CONNECTIONS connections with
 * REQUESTS in a transaction: their key rows, their spans, the rows of their traces, with the
 * daemon's unique keys. Prints the requests committed in a second.
 *
 * WAY is how spans are written; bench.py takes the one that is fastest on the day:
 *   unnest  INSERTs from arrays, of up to 500 rows each: more would not stay in memory
 *   values  INSERTs of ten rows each
 *   copy    COPY, which could not bear a span that is stored already; shown beside the others
 *
 * Why nothing faster is known: a transaction is one round trip (pipeline mode; copy cannot have
 * that), its statements are prepared once, all values are binary in the form in which they lie in
 * the database, and buffers are laid out once: only ids and times are overwritten in place.
 */
#include <endian.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "span_rows.h"

#define COLUMNS_MAX      48
#define WARM_UP_SECONDS  1.0
#define ROWS_A_STATEMENT 10  /* values */
#define ROWS_A_SLICE     500 /* unnest */

enum way { WAY_UNNEST, WAY_VALUES, WAY_COPY };
static const char *const ways[] = {"unnest", "values", "copy"};

struct column {
    char name[64];
    char type[64];
    Oid type_id;
    enum meaning meaning;
};

/* What a daemon stored for one request; shared by the threads, which only read it. */
struct table {
    const char *name;
    const char *conflict;
    struct column columns[COLUMNS_MAX];
    size_t column_count;
    size_t row_count;
    PGresult *rows; /* binary */
};

static struct table tables[] = {
    {.name = "idem", .conflict = "ON CONFLICT DO NOTHING"},
    {.name = "spans", .conflict = "ON CONFLICT DO NOTHING"},
    {.name = "traces",
     .conflict = "ON CONFLICT (project, trace_id) DO UPDATE SET"
                 " session = coalesce(t.session, excluded.session),"
                 " root_name = coalesce(excluded.root_name, t.root_name),"
                 " start_ns = least(t.start_ns, excluded.start_ns),"
                 " end_ns = greatest(t.end_ns, excluded.end_ns),"
                 " spans = t.spans + excluded.spans, errors = t.errors + excluded.errors,"
                 " in_tok = t.in_tok + excluded.in_tok, out_tok = t.out_tok + excluded.out_tok,"
                 " last_seen = excluded.last_seen"},
};
enum { IDEM, SPANS, TRACES, TABLE_COUNT };

/* A place in a thread's buffers that changes from request to request. */
struct patch {
    char *at;
    enum meaning meaning;
    size_t request; /* within the transaction */
    size_t number;
    int64_t time_ns;
};

/* Binary arrays, one a column. */
struct slice {
    char *arrays[COLUMNS_MAX];
    int lens[COLUMNS_MAX];
};

/* The values of one table for a transaction. */
struct values {
    struct slice *slices;
    size_t slice_count;
    char *copy; /* the same rows as COPY takes them */
    size_t copy_len;
    const char **cells; /* row after row, into the arrays */
    int *cell_lens;
    size_t row_count;
};

struct writer {
    pthread_t thread;
    PGconn *connection;
    struct values values[TABLE_COUNT];
    struct patch *patches;
    size_t patch_count;
    size_t patch_capacity;
    uint64_t committed;
};

static const char *conninfo;
static enum way way;
static double begin; /* of what counts; before it, buffers grow and plans are made */
static double end;
static size_t in_transaction;
static struct span_numbers numbers;
static int64_t newest_ns;
static _Atomic uint64_t next_request;

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory) {
        perror("rival_pg");
        exit(1);
    }
    return memory;
}

static void fail(PGconn *connection)
{
    fprintf(stderr, "rival_pg: %s\n", PQerrorMessage(connection));
    exit(1);
}

static PGconn *open_connection(void)
{
    PGconn *connection = PQconnectdb(conninfo);
    if (PQstatus(connection) != CONNECTION_OK)
        fail(connection);
    PQclear(PQexec(connection, "SET plan_cache_mode = force_generic_plan"));
    return connection;
}

static PGresult *read_rows(PGconn *connection, const char *sql)
{
    PGresult *rows = PQexecParams(connection, sql, 0, NULL, NULL, NULL, NULL, 1);
    if (PQresultStatus(rows) != PGRES_TUPLES_OK)
        fail(connection);
    return rows;
}

static int64_t int_at(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return (int64_t)be64toh(value);
}

/* All columns but those that the database fills by itself. */
static void read_columns(PGconn *connection, struct table *self)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
             " WHERE attrelid = '%s'::regclass AND attnum > 0 AND NOT attisdropped"
             " AND NOT atthasdef AND attidentity = '' ORDER BY attnum",
             self->name);
    PGresult *rows = read_rows(connection, sql);
    for (int i = 0; i < PQntuples(rows) && i < COLUMNS_MAX; i++) {
        struct column *column = &self->columns[self->column_count++];
        snprintf(column->name, sizeof column->name, "%s", PQgetvalue(rows, i, 0));
        snprintf(column->type, sizeof column->type, "%s", PQgetvalue(rows, i, 1));
        column->meaning = meaning_of(column->name);
    }
    PQclear(rows);
}

/* Appends "a, b, c"; with a format, each name goes through it with its number and type. */
static void add_columns(char *text, size_t room, const struct table *self, bool is_unnest)
{
    for (size_t i = 0; i < self->column_count; i++) {
        size_t len = strlen(text);
        const char *comma = i ? ", " : "";
        if (is_unnest)
            snprintf(text + len, room - len, "%s$%zu::%s[]", comma, i + 1, self->columns[i].type);
        else
            snprintf(text + len, room - len, "%s%s", comma, self->columns[i].name);
    }
}

static void read_table(PGconn *connection, struct table *self)
{
    char sql[4096] = "SELECT ";
    read_columns(connection, self);
    add_columns(sql, sizeof sql, self, false);
    strncat(sql, " FROM ", sizeof sql - strlen(sql) - 1);
    strncat(sql, self->name, sizeof sql - strlen(sql) - 1);
    self->rows = read_rows(connection, sql);
    self->row_count = (size_t)PQntuples(self->rows);
    for (size_t i = 0; i < self->column_count; i++)
        self->columns[i].type_id = PQftype(self->rows, (int)i);
}

static void read_request(void)
{
    PGconn *connection = open_connection();
    PGresult *ids =
        read_rows(connection, "SELECT trace_id, span_id, end_ns FROM spans ORDER BY start_ns");
    for (int i = 0; i < PQntuples(ids); i++) {
        span_numbers_add(&numbers, PQgetvalue(ids, i, 0), PQgetvalue(ids, i, 1));
        if (int_at(PQgetvalue(ids, i, 2)) > newest_ns)
            newest_ns = int_at(PQgetvalue(ids, i, 2));
    }
    PQclear(ids);
    for (size_t i = 0; i < TABLE_COUNT; i++)
        read_table(connection, &tables[i]);
    PQfinish(connection);
}

/* Laying out. */

static char *put_int(char *at, uint32_t value, size_t bytes)
{
    uint32_t big = htobe32(value << (8 * (4 - bytes)));
    memcpy(at, &big, bytes);
    return at + bytes;
}

static void note_patch(struct writer *self, const struct table *table, size_t column, size_t row,
                       size_t request, char *at)
{
    enum meaning meaning = table->columns[column].meaning;
    const char *stored = PQgetvalue(table->rows, (int)row, (int)column);
    if (meaning == SAME)
        return;
    if (self->patch_count == self->patch_capacity) {
        self->patch_capacity = self->patch_capacity ? 2 * self->patch_capacity : 1024;
        self->patches = realloc(self->patches, self->patch_capacity * sizeof *self->patches);
        if (!self->patches)
            fail(self->connection);
    }
    struct patch *patch = &self->patches[self->patch_count++];
    *patch = (struct patch){.at = at, .meaning = meaning, .request = request};
    if (meaning == TRACE_ID)
        patch->number = span_numbers_trace(&numbers, stored);
    if (meaning == SPAN_ID)
        patch->number = span_numbers_span(&numbers, stored);
    if (meaning == TIME)
        patch->time_ns = int_at(stored);
}

/* One value with its length before it. */
static char *put_value(struct writer *self, const struct table *table, size_t column, size_t row,
                       size_t request, char *at)
{
    if (PQgetisnull(table->rows, (int)row, (int)column))
        return put_int(at, UINT32_MAX, 4);
    int len = PQgetlength(table->rows, (int)row, (int)column);
    at = put_int(at, (uint32_t)len, 4);
    memcpy(at, PQgetvalue(table->rows, (int)row, (int)column), (size_t)len);
    note_patch(self, table, column, row, request, at);
    return at + len;
}

static size_t column_size(const struct table *table, size_t column)
{
    size_t size = 0;
    for (size_t row = 0; row < table->row_count; row++)
        size += 4 + (size_t)PQgetlength(table->rows, (int)row, (int)column);
    return size;
}

/* The rows from `first` on. */
static void lay_out_array(struct writer *self, size_t which, size_t column, size_t first)
{
    const struct table *table = &tables[which];
    struct values *values = &self->values[which];
    struct slice *slice = &values->slices[first / ROWS_A_SLICE];
    size_t left = values->row_count - first;
    size_t count = left < ROWS_A_SLICE ? left : ROWS_A_SLICE;
    char *at = allocate(20 + in_transaction * column_size(table, column));
    slice->arrays[column] = at;
    at = put_int(at, 1, 4); /* dimensions */
    at = put_int(at, 1, 4); /* there may be nulls */
    at = put_int(at, table->columns[column].type_id, 4);
    at = put_int(at, (uint32_t)count, 4);
    at = put_int(at, 1, 4); /* first subscript */
    for (size_t i = first; i < first + count; i++) {
        size_t row = i % table->row_count;
        char *value = at + 4;
        size_t cell = i * table->column_count + column;
        at = put_value(self, table, column, row, i / table->row_count, at);
        values->cells[cell] = PQgetisnull(table->rows, (int)row, (int)column) ? NULL : value;
        values->cell_lens[cell] = (int)(at - value);
    }
    slice->lens[column] = (int)(at - slice->arrays[column]);
}

static void lay_out_copy(struct writer *self, size_t which)
{
    static const char signature[19] = "PGCOPY\n\377\r\n"; /* then no flags, no extension */
    const struct table *table = &tables[which];
    struct values *values = &self->values[which];
    size_t size = sizeof signature + 2 + 2 * values->row_count;
    for (size_t column = 0; column < table->column_count; column++)
        size += in_transaction * column_size(table, column);
    char *at = values->copy = allocate(size);
    memcpy(at, signature, sizeof signature);
    at += sizeof signature;
    for (size_t i = 0; i < values->row_count; i++) {
        at = put_int(at, (uint32_t)table->column_count, 2);
        for (size_t column = 0; column < table->column_count; column++)
            at = put_value(self, table, column, i % table->row_count, i / table->row_count, at);
    }
    at = put_int(at, UINT16_MAX, 2);
    values->copy_len = (size_t)(at - values->copy);
}

static void lay_out(struct writer *self)
{
    for (size_t which = 0; which < TABLE_COUNT; which++) {
        const struct table *table = &tables[which];
        struct values *values = &self->values[which];
        values->row_count = in_transaction * table->row_count;
        values->cells = allocate(values->row_count * table->column_count * sizeof(char *));
        values->cell_lens = allocate(values->row_count * table->column_count * sizeof(int));
        if (which == SPANS && way == WAY_COPY) {
            lay_out_copy(self, which);
            continue;
        }
        values->slice_count = (values->row_count + ROWS_A_SLICE - 1) / ROWS_A_SLICE;
        values->slices = allocate(values->slice_count * sizeof *values->slices);
        for (size_t first = 0; first < values->row_count; first += ROWS_A_SLICE)
            for (size_t column = 0; column < table->column_count; column++)
                lay_out_array(self, which, column, first);
    }
}

static void put_time(char *at, int64_t time_ns)
{
    uint64_t big = htobe64((uint64_t)time_ns);
    memcpy(at, &big, sizeof big);
}

/* Makes the rows those of the next requests. */
static void renew(struct writer *self)
{
    uint64_t first = atomic_fetch_add(&next_request, in_transaction);
    int64_t ahead_ns = (int64_t)bench_wall_ns() - newest_ns;
    for (size_t i = 0; i < self->patch_count; i++) {
        const struct patch *patch = &self->patches[i];
        if (patch->meaning == TIME)
            put_time(patch->at, patch->time_ns + ahead_ns);
        else if (patch->meaning == SPAN_ID)
            span_id_renew(patch->at, first + patch->request, patch->number);
        else
            trace_id_renew(patch->at, first + patch->request, patch->number);
    }
}

/* Statements. */

static void prepare(struct writer *self, const char *name, const char *sql)
{
    PGresult *result = PQprepare(self->connection, name, sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail(self->connection);
    PQclear(result);
}

static void prepare_unnest(struct writer *self, const struct table *table)
{
    char sql[8192];
    snprintf(sql, sizeof sql, "INSERT INTO %s AS t (", table->name);
    add_columns(sql, sizeof sql, table, false);
    strncat(sql, ") SELECT * FROM unnest(", sizeof sql - strlen(sql) - 1);
    add_columns(sql, sizeof sql, table, true);
    strncat(sql, ") ", sizeof sql - strlen(sql) - 1);
    strncat(sql, table->conflict, sizeof sql - strlen(sql) - 1);
    prepare(self, table->name, sql);
}

static void prepare_values(struct writer *self, const struct table *table)
{
    char sql[16384];
    snprintf(sql, sizeof sql, "INSERT INTO %s AS t (", table->name);
    add_columns(sql, sizeof sql, table, false);
    strncat(sql, ") VALUES ", sizeof sql - strlen(sql) - 1);
    for (size_t i = 0; i < ROWS_A_STATEMENT * table->column_count; i++) {
        size_t len = strlen(sql);
        const char *open = i == 0 ? "(" : i % table->column_count == 0 ? "), (" : ", ";
        snprintf(sql + len, sizeof sql - len, "%s$%zu", open, i + 1);
    }
    strncat(sql, ") ", sizeof sql - strlen(sql) - 1);
    strncat(sql, table->conflict, sizeof sql - strlen(sql) - 1);
    prepare(self, "values", sql);
}

static void send_prepared(struct writer *self, const char *name, size_t count,
                          const char *const *values, const int *lens)
{
    int formats[ROWS_A_STATEMENT * COLUMNS_MAX];
    for (size_t i = 0; i < count; i++)
        formats[i] = 1;
    if (PQsendQueryPrepared(self->connection, name, (int)count, values, lens, formats, 0) == 0)
        fail(self->connection);
}

static void send_unnest(struct writer *self, size_t which)
{
    const struct values *values = &self->values[which];
    for (size_t i = 0; i < values->slice_count; i++)
        send_prepared(self, tables[which].name, tables[which].column_count,
                      (const char *const *)values->slices[i].arrays, values->slices[i].lens);
}

static void send_values(struct writer *self)
{
    const struct values *values = &self->values[SPANS];
    size_t step = ROWS_A_STATEMENT * tables[SPANS].column_count;
    for (size_t i = 0; i < values->row_count * tables[SPANS].column_count; i += step)
        send_prepared(self, "values", step, values->cells + i, values->cell_lens + i);
}

/* Takes the results of what was sent up to the sync. */
static void take_results(struct writer *self)
{
    bool is_over = false;
    while (!is_over) {
        PGresult *result = PQgetResult(self->connection);
        ExecStatusType status = result ? PQresultStatus(result) : PGRES_COMMAND_OK;
        is_over = status == PGRES_PIPELINE_SYNC;
        if (!is_over && status != PGRES_COMMAND_OK)
            fail(self->connection);
        PQclear(result);
    }
}

/* The commands between two syncs are a transaction of their own: neither BEGIN nor COMMIT. */
static void write_pipelined(struct writer *self)
{
    send_unnest(self, IDEM);
    if (way == WAY_UNNEST)
        send_unnest(self, SPANS);
    else
        send_values(self);
    send_unnest(self, TRACES);
    if (PQpipelineSync(self->connection) == 0)
        fail(self->connection);
    take_results(self);
}

static void run(struct writer *self, const char *sql, ExecStatusType expected)
{
    PGresult *result = PQexec(self->connection, sql);
    if (PQresultStatus(result) != expected)
        fail(self->connection);
    PQclear(result);
}

/* Takes the results of one statement outside a pipeline. */
static void take_statement(struct writer *self)
{
    PGresult *result;
    while ((result = PQgetResult(self->connection)) != NULL) {
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            fail(self->connection);
        PQclear(result);
    }
}

static void run_unnest(struct writer *self, size_t which)
{
    const struct values *values = &self->values[which];
    for (size_t i = 0; i < values->slice_count; i++) {
        send_prepared(self, tables[which].name, tables[which].column_count,
                      (const char *const *)values->slices[i].arrays, values->slices[i].lens);
        take_statement(self);
    }
}

static void write_copy(struct writer *self)
{
    const struct values *values = &self->values[SPANS];
    char sql[2048] = "COPY spans (";
    add_columns(sql, sizeof sql, &tables[SPANS], false);
    strncat(sql, ") FROM STDIN BINARY", sizeof sql - strlen(sql) - 1);
    run(self, "BEGIN", PGRES_COMMAND_OK);
    run_unnest(self, IDEM);
    run(self, sql, PGRES_COPY_IN);
    if (PQputCopyData(self->connection, values->copy, (int)values->copy_len) != 1 ||
        PQputCopyEnd(self->connection, NULL) != 1)
        fail(self->connection);
    take_statement(self);
    run_unnest(self, TRACES);
    run(self, "COMMIT", PGRES_COMMAND_OK);
}

static void *write_requests(void *arg)
{
    struct writer *self = arg;
    while (bench_now_seconds() < end) {
        renew(self);
        if (way == WAY_COPY)
            write_copy(self);
        else
            write_pipelined(self);
        double now = bench_now_seconds();
        if (now >= begin && now < end)
            self->committed += in_transaction;
    }
    PQfinish(self->connection);
    return NULL;
}

static void set_up(struct writer *self)
{
    self->connection = open_connection();
    lay_out(self);
    for (size_t which = 0; which < TABLE_COUNT; which++)
        if (which != SPANS || way == WAY_UNNEST)
            prepare_unnest(self, &tables[which]);
    if (way == WAY_VALUES)
        prepare_values(self, &tables[SPANS]);
    if (way != WAY_COPY && PQenterPipelineMode(self->connection) == 0)
        fail(self->connection);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: rival_pg CONNINFO WAY SECONDS CONNECTIONS REQUESTS FIRST\n");
        return 2;
    }
    conninfo = argv[1];
    while (strcmp(argv[2], ways[way]) != 0)
        way++;
    double seconds = strtod(argv[3], NULL);
    size_t count = strtoul(argv[4], NULL, 10);
    in_transaction = strtoul(argv[5], NULL, 10);
    next_request = strtoul(argv[6], NULL, 10);
    read_request();
    struct writer *writers = allocate(count * sizeof *writers);
    for (size_t i = 0; i < count; i++)
        set_up(&writers[i]);
    begin = bench_now_seconds() + WARM_UP_SECONDS;
    end = begin + seconds;
    uint64_t committed = 0;
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&writers[i].thread, NULL, write_requests, &writers[i]) != 0)
            return 1;
    for (size_t i = 0; i < count; i++) {
        pthread_join(writers[i].thread, NULL);
        committed += writers[i].committed;
    }
    printf("%.3f\n", (double)committed / seconds);
    return 0;
}
