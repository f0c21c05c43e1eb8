// SPDX-License-Identifier: MIT
/*
 * listing: everything that can be listed, as tables: which columns a row has, how each appears in
 * an answer, and which parameters narrow the list. The doors that read and the backends share them,
 * so that a new list is a table and no code.
 */
#ifndef MCPD_STORE_LISTING_H
#define MCPD_STORE_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

#define LISTING_COLUMNS_MAX 32
#define LISTING_FILTERS_MAX 8

enum listing_id {
    LISTING_TRACES,
    LISTING_SESSIONS,
    LISTING_LOGS,
    LISTING_METRICS,
    LISTING_SCORES,
    LISTING_RUNS,
    LISTING_REJECTS,
    LISTING_REPLICAS,
    LISTING_SPANS, /* of one trace; has no door of its own */
    LISTING_COUNT
};

/* How a column appears in an answer. A null column is left out. */
enum column_form {
    COLUMN_INT,
    COLUMN_REAL,
    COLUMN_TEXT,
    COLUMN_ID,          /* bytes, in hex */
    COLUMN_JSON,        /* is JSON already */
    COLUMN_MEMBERS,     /* a JSON object whose members become members of the row */
    COLUMN_SPAN_KIND,   /* a number, by its name */
    COLUMN_SPAN_STATUS, /* likewise */
};

struct column {
    const char *name; /* in the answer */
    enum column_form form;
    const char *source; /* the column's name in the store, or an expression over such; null: name */
};

/* What a filter's value is, and how a row has to match it. */
enum filter_match {
    MATCH_TEXT,         /* the column is this text */
    MATCH_TRACE_ID,     /* the column is this id, given in hex */
    MATCH_AT_LEAST,     /* the column is this number or more */
    MATCH_MIN_MS,       /* from start_ns to end_ns it is so many milliseconds or more */
    MATCH_HAS_ERRORS,   /* "error": the column is above 0; "ok": it is 0 */
    MATCH_SPAN_OF_TRACE /* some span of the trace has this text in the column */
};

struct filter {
    const char *name; /* of the parameter */
    enum filter_match match;
    const char *source; /* the column; null: name */
};

/* Rows are in falling order of columns[1], a time in nanoseconds, then of columns[0], the key. */
struct listing {
    const char *name;             /* of the array in the answer */
    const char *path;             /* null: no door */
    const char *table;            /* or a subquery */
    const struct column *columns; /* ended by a null name */
    const struct filter *filters; /* likewise */
    bool is_global;               /* of no project: for keys with scope ad */
    bool is_by_day;               /* the table has a day, and may have a partition for each */
};

const struct listing *listing_row(enum listing_id id);
/* The listing whose door has this path, or null. */
const struct listing *listing_find(const char *path);
size_t listing_columns(const struct listing *self);

/* In SQLite, the days in which the spans of the trace t lie, so that their key finds them. */
#define LISTING_SQLITE_DAYS                                                      \
    "WITH RECURSIVE days (day) AS (SELECT t.start_ns / 86400000000000 UNION ALL" \
    " SELECT day + 1 FROM days WHERE day < t.end_ns / 86400000000000)"

/* A value as it goes to a store or comes out of it. */
enum list_type { LIST_NULL, LIST_INT, LIST_REAL, LIST_TEXT, LIST_BYTES };
struct list_value {
    enum list_type type;
    int64_t integer;
    double real;
    struct slice bytes; /* LIST_TEXT, LIST_BYTES */
};

struct expr;

struct list_query {
    const struct listing *listing;
    const char *project;
    int64_t from_ns;                                /* of the time column, inclusive */
    int64_t to_ns;                                  /* exclusive */
    int limit;                                      /* rows, 1 or more */
    struct list_value filters[LISTING_FILTERS_MAX]; /* in the listing's order; LIST_NULL: any */
    const struct expr *where; /* a condition on the rows, parsed for this listing; null: none */
    /* Only what comes after this row; LIST_NULL in cursor_key: from the newest on. */
    int64_t cursor_ns;
    struct list_value cursor_key;
    uint64_t deadline_ms; /* clock_mono_ms; reading that takes longer fails */
};

#endif
