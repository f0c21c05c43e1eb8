// SPDX-License-Identifier: MIT
/* Whatever text comes as a condition: it is refused with a reason, or SQLite takes what is made of
 * it and rows can be asked. */
#include <stdlib.h>
#include <string.h>

#include "store/expr.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_schema.h"
#include "tests/lib/batch_check.h"

#define SQL_MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static backend_conn_t *open_schema(void)
{
    struct err err;
    backend_conn_t *conn = sqlite_conn_new(":memory:", &err);
    BATCH_CHECK(conn && sqlite_schema_ensure(conn, &err) == 0);
    return conn;
}

/* A row with something in every column, or in none. */
static void fill_row(const struct listing *listing, bool is_full, struct list_value *row)
{
    for (size_t i = 0; listing->columns[i].name; i++) {
        enum column_form form = listing->columns[i].form;
        row[i] = (struct list_value){.type = LIST_NULL};
        if (!is_full)
            continue;
        if (form == COLUMN_MEMBERS)
            row[i] = (struct list_value){.type = LIST_TEXT,
                                         .bytes = slice_of("{\"attributes\":{\"k\":1,\"zone\":"
                                                           "\"b\"},\"resource\":{\"k\":true}}")};
        else if (form == COLUMN_TEXT || form == COLUMN_JSON || form == COLUMN_ID)
            row[i] = (struct list_value){.type = LIST_TEXT, .bytes = slice_of("m-large")};
        else if (form == COLUMN_REAL)
            row[i] = (struct list_value){.type = LIST_REAL, .real = 0.5};
        else
            row[i] = (struct list_value){.type = LIST_INT, .integer = 2};
    }
}

static void ask_rows(const expr_t *expr, const struct listing *listing)
{
    struct list_value row[LISTING_COLUMNS_MAX];
    struct expr_state state;
    for (int is_full = 0; is_full < 2; is_full++) {
        fill_row(listing, is_full, row);
        expr_begin(expr, &state, row);
        if (listing == listing_row(LISTING_TRACES)) {
            fill_row(listing_row(LISTING_SPANS), is_full, row);
            expr_add_span(expr, &state, row);
        }
        (void)expr_holds(expr, &state);
    }
}

static void prepare(backend_conn_t *conn, const expr_t *expr, const struct listing *listing)
{
    struct buf sql;
    sqlite3_stmt *statement = NULL;
    buf_init(&sql, SQL_MAX);
    BATCH_CHECK(expr_sql(expr, EXPR_POSTGRES, 4, &sql) == 0);
    buf_reset(&sql);
    BATCH_CHECK(buf_printf(&sql, "SELECT 1 FROM %s t WHERE ", listing->table) == 0);
    BATCH_CHECK(expr_sql(expr, EXPR_SQLITE, 1, &sql) == 0);
    int rc = sqlite3_prepare_v2(conn->db, sql.data, (int)sql.len, &statement, NULL);
    BATCH_CHECK(rc == SQLITE_OK);
    const struct list_value *values;
    BATCH_CHECK((size_t)sqlite3_bind_parameter_count(statement) == expr_values(expr, &values));
    sqlite3_finalize(statement);
    buf_fini(&sql);
}

/* One condition, for every listing. */
static void check(backend_conn_t *conn, const char *text)
{
    for (size_t i = 0; i < LISTING_COUNT; i++) {
        const struct listing *listing = listing_row((enum listing_id)i);
        struct err err = {""};
        expr_t *expr = expr_parse(text, listing, &err);
        BATCH_CHECK(expr || (err.text[0] && utf8_is_clean(slice_of(err.text))));
        if (!expr)
            continue;
        prepare(conn, expr, listing);
        ask_rows(expr, listing);
        expr_destroy(&expr);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static backend_conn_t *conn = NULL;
    if (!conn)
        conn = open_schema();
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    /* Lines as in tests/data/where/cases.txt, a condition behind the last bar. */
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *bar = strrchr(line, '|');
        check(conn, bar ? bar + 1 : line);
    }
    free(text);
    return 0;
}
