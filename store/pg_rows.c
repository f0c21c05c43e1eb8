// SPDX-License-Identifier: MIT
/*
 * An array in binary: dimensions, whether it has nulls, the elements' type; of the one dimension
 * the length and the first index; then each element's length (-1 for null) and bytes. All numbers
 * are most significant byte first (array_recv in Postgres' utils/adt/arrayfuncs.c).
 */
#include "store/pg_rows.h"

#include <string.h>

/* libpq and the server count bytes of a message in 31 bits. */
#define MESSAGE_MAX_BYTES ((size_t)900 * 1024 * 1024)

static const struct {
    const char *name;
    Oid element;
    Oid array;
} array_types[] = {
    [LIST_INT] = {"bigint[]", 20, 1016},
    [LIST_REAL] = {"double precision[]", 701, 1022},
    [LIST_TEXT] = {"text[]", 25, 1009},
    [LIST_BYTES] = {"bytea[]", 17, 1001},
};

static void put_number(char *to, uint64_t number, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (char)(number >> (8 * (len - 1 - i)));
}

static size_t element_len(const struct list_value *value)
{
    if (value->type == LIST_NULL)
        return 0;
    return value->type == LIST_INT || value->type == LIST_REAL ? 8 : value->bytes.len;
}

static int add_element(struct buf *out, const struct list_value *value)
{
    size_t len = element_len(value);
    char *to = buf_reserve(out, 4 + len);
    uint64_t bits = (uint64_t)value->integer;
    if (!to)
        return -1;
    put_number(to, value->type == LIST_NULL ? UINT32_MAX : len, 4);
    if (value->type == LIST_REAL)
        memcpy(&bits, &value->real, sizeof bits);
    if (value->type == LIST_INT || value->type == LIST_REAL)
        put_number(to + 4, bits, 8);
    else if (len > 0)
        memcpy(to + 4, value->bytes.data, len);
    out->len += 4 + len;
    return 0;
}

static int add_array(struct buf *out, enum list_type type, size_t column, const struct row *rows,
                     size_t count)
{
    char *head = buf_reserve(out, 20);
    if (!head)
        return -1;
    put_number(head, 1, 4);
    put_number(head + 4, 1, 4);
    put_number(head + 8, array_types[type].element, 4);
    put_number(head + 12, count, 4);
    put_number(head + 16, 1, 4);
    out->len += 20;
    for (size_t i = 0; i < count; i++)
        if (add_element(out, &rows[i].values[column]) == -1)
            return -1;
    return 0;
}

void pg_queue_rows(backend_conn_t *conn, const char *sql, const enum list_type *types,
                   size_t columns, const struct row *rows, size_t count)
{
    struct pg_params params = {0};
    size_t starts[ROW_VALUES_MAX + 1];
    struct buf bytes;
    int rc = 0;
    buf_init(&bytes, MESSAGE_MAX_BYTES);
    for (size_t i = 0; i < columns && rc == 0; i++) {
        starts[i] = bytes.len;
        rc = add_array(&bytes, types[i], i, rows, count);
    }
    starts[columns] = bytes.len;
    if (rc == -1) {
        conn->fault = PG_DATA;
    } else {
        for (size_t i = 0; i < columns; i++) {
            params.types[i] = array_types[types[i]].array;
            params.values[i] = bytes.data + starts[i];
            params.lengths[i] = (int)(starts[i + 1] - starts[i]);
        }
        params.count = (int)columns;
        pg_queue(conn, sql, &params);
    }
    buf_fini(&bytes);
}

int pg_add_row(struct buf *out, const struct row *row)
{
    char *head = buf_reserve(out, 2);
    if (!head)
        return -1;
    put_number(head, row->count, 2);
    out->len += 2;
    for (size_t i = 0; i < row->count; i++)
        if (add_element(out, &row->values[i]) == -1)
            return -1;
    return 0;
}

int pg_add_unnest(struct buf *sql, const enum list_type *types, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        if (buf_printf(sql, "%s$%zu::%s", i == 0 ? "unnest(" : ", ", i + 1,
                       array_types[types[i]].name) == -1)
            return -1;
    return buf_add_str(sql, ")");
}
