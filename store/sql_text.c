// SPDX-License-Identifier: MIT
#include "store/sql_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SQL_MAX_BYTES   ((size_t)256 * 1024) /* mostly for conditions */
#define PIECE_MAX_BYTES 4096

void sql_text_init(struct sql_text *self, enum expr_dialect dialect)
{
    self->dialect = dialect;
    self->value_count = 0;
    buf_init(&self->text, SQL_MAX_BYTES);
}

void sql_text_fini(struct sql_text *self)
{
    buf_fini(&self->text);
}

int sql_text_add(struct sql_text *self, const char *format, ...)
{
    char *to = buf_reserve(&self->text, PIECE_MAX_BYTES);
    va_list args;
    if (!to)
        return -1;
    va_start(args, format);
    int len = vsnprintf(to, PIECE_MAX_BYTES, format, args);
    va_end(args);
    if (len < 0 || len >= PIECE_MAX_BYTES)
        return -1;
    self->text.len += (size_t)len;
    return 0;
}

int sql_text_value(struct sql_text *self, const struct list_value *value)
{
    if (self->value_count == SQL_VALUES_MAX)
        return -1;
    self->values[self->value_count++] = *value;
    if (self->dialect == EXPR_POSTGRES)
        return sql_text_add(self, "$%zu", self->value_count);
    return sql_text_add(self, "?");
}

int sql_text_int(struct sql_text *self, int64_t value)
{
    return sql_text_value(self, &(struct list_value){.type = LIST_INT, .integer = value});
}

int sql_text_str(struct sql_text *self, const char *value)
{
    return sql_text_value(self, &(struct list_value){.type = LIST_TEXT, .bytes = slice_of(value)});
}

int sql_text_where(struct sql_text *self, const expr_t *where)
{
    const struct list_value *values;
    size_t count = expr_values(where, &values);
    if (self->value_count + count > SQL_VALUES_MAX ||
        expr_sql(where, self->dialect, self->value_count + 1, &self->text) == -1)
        return -1;
    memcpy(&self->values[self->value_count], values, count * sizeof *values);
    self->value_count += count;
    return 0;
}
