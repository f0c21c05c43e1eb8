// SPDX-License-Identifier: MIT
/* pg_write: the writing half of backend_pg; see backend.h. */
#ifndef MCPD_STORE_PG_WRITE_H
#define MCPD_STORE_PG_WRITE_H

#include "store/pg_conn.h"

enum backend_status pg_write(backend_conn_t *conn, struct backend_request *const *requests,
                             size_t count, struct err *err);

#endif
