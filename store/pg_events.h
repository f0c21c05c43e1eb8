// SPDX-License-Identifier: MIT
/* pg_events: the events of a group into their tables, inside of a transaction that the caller
 * began. */
#ifndef MCPD_STORE_PG_EVENTS_H
#define MCPD_STORE_PG_EVENTS_H

#include "store/pg_group.h"
#include "store/pg_rows.h"

#define PG_SLICES 4 /* in one round */

/* Rows that one statement adds. */
struct pg_slice {
    struct row rows[PG_ROWS_MAX];
    struct pg_item *items[PG_ROWS_MAX];
    size_t count;
};

/* The connection's PG_SLICES slices. */
struct pg_slice *pg_slices(backend_conn_t *conn);

/* Each call of the server in a transaction may take so long. */
#define PG_ROUND_LIMIT_MS 10000
/* Sets the connection's deadline for the next round. */
void pg_round_begin(backend_conn_t *conn);

/* Adds what is listed, each by its identity, and marks what was new. What new spans and completed
 * ones change in their traces is added to the connection's rollup. -1 with the reason; then the
 * transaction is only good for a rollback. */
int pg_write_events(backend_conn_t *conn, struct pg_group *group, struct err *err) MUST_USE;

#endif
