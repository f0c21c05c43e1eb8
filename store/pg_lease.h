// SPDX-License-Identifier: MIT
/* pg_lease: the lease, fenced transactions, marks of passes and the list of replicas on Postgres.
 * The functions of the backend, see backend.h, and what other fenced writes are made of. */
#ifndef MCPD_STORE_PG_LEASE_H
#define MCPD_STORE_PG_LEASE_H

#include "store/pg_conn.h"

/* Begins a fenced transaction, see struct lease_claim. BACKEND_OK: rounds of the transaction may
 * follow, then pg_fenced_commit, or pg_rollback. The whole of it may take three times the claim's
 * limit, which the database enforces for each statement and each pause between two. */
enum backend_status pg_fenced_begin(backend_conn_t *conn, const struct lease_claim *claim,
                                    struct err *err) MUST_USE;
/* Runs what is queued and commits. BACKEND_OK or BACKEND_AWAY; the transaction is over either way.
 */
enum backend_status pg_fenced_commit(backend_conn_t *conn, struct err *err) MUST_USE;

enum backend_status pg_lease_bid(backend_conn_t *conn, const struct lease_call *call,
                                 struct lease_row *row, struct err *err);
enum backend_status pg_lease_renew(backend_conn_t *conn, const struct lease_call *call,
                                   struct lease_row *row, struct err *err);
enum backend_status pg_lease_give_up(backend_conn_t *conn, const struct lease_call *call,
                                     struct err *err);
enum backend_status pg_pass_mark(backend_conn_t *conn, const struct lease_claim *claim,
                                 const char *step, struct slice cursor, struct err *err);
int pg_pass_cursor(backend_conn_t *conn, const char *step, struct buf *cursor, struct err *err);
int pg_replica_seen(backend_conn_t *conn, const struct replica *replica, int *configs,
                    struct err *err);

#endif
