// SPDX-License-Identifier: MIT
/* pg_forget: deleting what projects keep no longer, see backend.h. Whole day partitions go where no
 * project keeps the day; single rows, in batches, where another one does. */
#ifndef MCPD_STORE_PG_FORGET_H
#define MCPD_STORE_PG_FORGET_H

#include "store/backend.h"

int pg_forget(backend_conn_t *conn, const struct retention *kept, size_t count, int max_rows,
              struct err *err) MUST_USE;

#endif
