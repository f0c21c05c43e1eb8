// SPDX-License-Identifier: MIT
/*
 * readers: a few connections for reading, lent to one HTTP thread at a time. A long read keeps its
 * own connection busy and never the writers'.
 */
#ifndef MCPD_STORE_READERS_H
#define MCPD_STORE_READERS_H

#include "store/backend.h"

typedef struct readers readers_t;

/* Connects. The store must outlive it. Null with the reason. */
readers_t *readers_new(const struct backend *backend, backend_store_t *store,
                       struct err *err) MUST_USE;
/* When every connection was given back. */
void readers_destroy(readers_t **self_p);

/* A connection, waited for until deadline_ms (clock_mono_ms); null when none came free. */
backend_conn_t *readers_take(readers_t *self, uint64_t deadline_ms) MUST_USE;
void readers_give_back(readers_t *self, backend_conn_t **conn_p);

#endif
