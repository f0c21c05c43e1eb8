// SPDX-License-Identifier: MIT
/*
 * rows: what the columns of an event's row hold, in the order in which every backend's INSERT names
 * them. Pure; any thread.
 */
#ifndef MCPD_STORE_ROWS_H
#define MCPD_STORE_ROWS_H

#include "store/backend.h"
#include "store/identity.h"

#define DAY_NS         86400000000000
#define ROW_VALUES_MAX 28

struct row {
    struct list_value values[ROW_VALUES_MAX]; /* texts are the event's own, or in identity */
    size_t count;
    char identity[IDENTITY_SCORE_SIZE]; /* of an event without an id of its own */
};

/* A column as the INSERT names it, and what it holds where it is not null. */
struct row_column {
    const char *name;
    enum list_type type;
};

struct row_table {
    const char *name;
    const struct row_column *columns;
    size_t count;
    size_t key_count; /* the first columns are the row's identity */
};

/* Where events of this type go. */
const struct row_table *row_table(enum event_type type);
/* The row of an event of the request. It must not be moved. */
void row_of_event(const struct backend_request *request, int64_t project, const struct event *event,
                  struct row *row);

/* The next value of a row that is put together by hand, begun with count = 0. */
void row_add_null(struct row *row);
void row_add_int(struct row *row, int64_t number);
void row_add_real(struct row *row, double number);
void row_add_bytes(struct row *row, const void *bytes, size_t len);
void row_add_required(struct row *row, struct slice text);
void row_add_text(struct row *row, struct slice text); /* empty: null */
void row_add_word(struct row *row, const char *word);  /* null: null */

#endif
