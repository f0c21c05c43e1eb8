// SPDX-License-Identifier: MIT
/*
 * pg_keys: the rows that tell whether a request was stored before, of all requests of a group at
 * once, and the numbers of their projects.
 */
#ifndef MCPD_STORE_PG_KEYS_H
#define MCPD_STORE_PG_KEYS_H

#include "store/pg_group.h"

/* The number of each request's project, given to it now where it is new. Outside of a transaction.
 */
int pg_keys_projects(backend_conn_t *conn, struct backend_request *const *requests,
                     int64_t *projects, size_t count, struct err *err) MUST_USE;

/* Runs what is queued, then takes the keys: sets the state of each that is no twin, and the results
 * of those that are known. Waits for another transaction that is taking one of them, as long as
 * lock_timeout allows. */
int pg_keys_take(backend_conn_t *conn, struct pg_group *group, struct err *err) MUST_USE;

/* Queues the counts of requests where they are not what was written with the key. */
void pg_keys_queue_counts(backend_conn_t *conn, const struct pg_group *group);

#endif
