// SPDX-License-Identifier: MIT
/*
 * pg_copy: new rows by COPY, which costs the server half of what an INSERT does, but fails for all
 * when one of them is there already. Inside of a transaction, between two rounds. The connection's
 * thread.
 *
 *     if (pg_copy_begin(conn, table, err) == -1) ...
 *     while (there are rows)
 *         pg_copy_rows(conn, rows, count, err)
 *     pg_copy_end(conn, err)
 *
 * -1 means as for a round: the fault and the reason are set, the transaction is only good for
 * pg_rollback, and nothing else of these may be called. Where a row is there already the fault is
 * PG_TWICE.
 */
#ifndef MCPD_STORE_PG_COPY_H
#define MCPD_STORE_PG_COPY_H

#include "store/pg_conn.h"
#include "store/rows.h"

int pg_copy_begin(backend_conn_t *conn, const struct row_table *table, struct err *err) MUST_USE;
/* Sends rows of the table; they are copied. By the connection's deadline. */
int pg_copy_rows(backend_conn_t *conn, const struct row *rows, size_t count,
                 struct err *err) MUST_USE;
/* Waits until all are in. */
int pg_copy_end(backend_conn_t *conn, struct err *err) MUST_USE;

#endif
