// SPDX-License-Identifier: MIT
/* pg_score: settling and the jobs of scoring on Postgres; the functions of the backend, see
 * backend.h. */
#ifndef MCPD_STORE_PG_SCORE_H
#define MCPD_STORE_PG_SCORE_H

#include "store/pg_conn.h"

enum backend_status pg_settle(backend_conn_t *conn, const struct lease_claim *claim,
                              const struct settle_call *call, size_t *settled, struct err *err);
int pg_score_due(backend_conn_t *conn, const char *scorer, size_t limit, struct score_job *jobs,
                 size_t *count, struct err *err);
int pg_score_waiting(backend_conn_t *conn, const char *scorer, int64_t *count, struct err *err);
enum backend_status pg_score_write(backend_conn_t *conn, const struct lease_claim *claim,
                                   const struct score_outcome *outcomes, size_t count,
                                   struct err *err);

#endif
