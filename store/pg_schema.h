// SPDX-License-Identifier: MIT
/* pg_schema: sees to it that a database has the tables, at the version this program knows. */
#ifndef MCPD_STORE_PG_SCHEMA_H
#define MCPD_STORE_PG_SCHEMA_H

#include "store/pg_conn.h"

/* For a connection that is open. Creates what is missing, under a lock of the database, so that
 * several daemons may start on an empty one at once; asks only once a process. -1 with the reason,
 * also where a newer program has changed the tables. */
int pg_schema_ensure(backend_conn_t *conn, struct err *err) MUST_USE;

#endif
