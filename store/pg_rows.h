// SPDX-License-Identifier: MIT
/*
 * pg_rows: many rows in one statement, as an array a column, in binary, which UNNEST turns into
 * rows again. One thread, that of the connection.
 */
#ifndef MCPD_STORE_PG_ROWS_H
#define MCPD_STORE_PG_ROWS_H

#include "store/pg_conn.h"
#include "store/rows.h"

#define PG_ROWS_MAX 512 /* in one statement; more at once are slower */

/* Queues the statement with one array a column: of rows[i].values[c], whose type is types[c] where
 * it is not null. Rows are copied. What cannot be sent fails the round with PG_DATA. */
void pg_queue_rows(backend_conn_t *conn, const char *sql, const enum list_type *types,
                   size_t columns, const struct row *rows, size_t count);

/* Adds the row as COPY takes it in binary: the number of its values, then each with its length. */
int pg_add_row(struct buf *out, const struct row *row) MUST_USE;

/* Adds "unnest($1::bigint[], $2::text[], ...)". */
int pg_add_unnest(struct buf *sql, const enum list_type *types, size_t columns) MUST_USE;

#endif
