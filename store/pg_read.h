// SPDX-License-Identifier: MIT
/* pg_read: the reading half of backend_pg; see backend.h. */
#ifndef MCPD_STORE_PG_READ_H
#define MCPD_STORE_PG_READ_H

#include "store/pg_conn.h"

int pg_list(backend_conn_t *conn, const struct list_query *query, row_sink *sink, void *arg,
            struct err *err);
int pg_read_trace(backend_conn_t *conn, const struct trace_key *key, row_sink *trace_sink,
                  row_sink *span_sink, void *arg, struct err *err);

#endif
