// SPDX-License-Identifier: MIT
/* What pg_conn.c, pg_round.c and pg_copy.c share: the steps of a call, each of which ends by the
 * connection's deadline. The connection's thread only. */
#ifndef MCPD_STORE_PG_CONN_IMPL_H
#define MCPD_STORE_PG_CONN_IMPL_H

#include "store/pg_conn.h"

/* Notes why a call failed. -1 always. */
int pg_impl_fail(backend_conn_t *self, enum pg_fault fault, struct err *err, const char *text);

/* The connection is of no use any more, for this reason, or for the one that libpq has. -1 always.
 */
int pg_impl_lose_for(backend_conn_t *self, struct err *err, const char *text);
int pg_impl_lose(backend_conn_t *self, struct err *err);

/* Waits for the socket. -1 when the deadline came. */
int pg_impl_wait(backend_conn_t *self, short events) MUST_USE;
/* Sends what is buffered. 0 when all is sent, 1 when not yet, -1 when the connection is lost. */
int pg_impl_flush(backend_conn_t *self, struct err *err) MUST_USE;
/* The next result, which may be null: the mark between two statements. -1 when the connection is
 * lost. */
int pg_impl_take(backend_conn_t *self, PGresult **result, struct err *err) MUST_USE;
/* Notes why a statement failed, once a round: what follows is only skipped. */
void pg_impl_note(backend_conn_t *self, const PGresult *result, struct err *err);

#endif
