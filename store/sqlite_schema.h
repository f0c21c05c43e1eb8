// SPDX-License-Identifier: MIT
/* sqlite_schema: the tables of the SQLite store and their version. */
#ifndef MCPD_STORE_SQLITE_SCHEMA_H
#define MCPD_STORE_SQLITE_SCHEMA_H

#include "store/sqlite_conn.h"

/* Makes the tables in a new file; refuses a file of another version or another program, with the
 * reason. */
int sqlite_schema_ensure(backend_conn_t *conn, struct err *err) MUST_USE;

#endif
