// SPDX-License-Identifier: MIT
/*
 * sql_text: a statement that is put together piece by piece, with the values it binds, in the
 * dialect of the store that will run it. Values never become part of the text. One thread.
 */
#ifndef MCPD_STORE_SQL_TEXT_H
#define MCPD_STORE_SQL_TEXT_H

#include "store/expr.h"

#define SQL_VALUES_MAX (EXPR_VALUES_MAX + 32)

struct sql_text {
    enum expr_dialect dialect;
    struct buf text;
    struct list_value values[SQL_VALUES_MAX]; /* borrowed, in the order of their places */
    size_t value_count;
};

void sql_text_init(struct sql_text *self, enum expr_dialect dialect);
void sql_text_fini(struct sql_text *self);

/* Adds to the text. -1 when it would be too long. */
int sql_text_add(struct sql_text *self, const char *format, ...) PRINTF_LIKE(2, 3) MUST_USE;
/* Adds a place and the value that belongs there. -1 when there are too many. */
int sql_text_value(struct sql_text *self, const struct list_value *value) MUST_USE;
int sql_text_int(struct sql_text *self, int64_t value) MUST_USE;
int sql_text_str(struct sql_text *self, const char *value) MUST_USE;
/* Adds a condition with its values. */
int sql_text_where(struct sql_text *self, const expr_t *where) MUST_USE;

#endif
