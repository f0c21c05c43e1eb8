// SPDX-License-Identifier: MIT
/*
 * backend_pg: the shared store, a Postgres database (14 or newer) that any number of daemons write
 * to at once. `where` is its URL, see pg_target.h.
 *
 * A database that is away when the store is opened stops nothing: connections are made when they
 * are needed, and again when they were lost. One that refuses us (password, no such database,
 * tables of a newer version) makes open fail.
 */
#ifndef MCPD_STORE_BACKEND_PG_H
#define MCPD_STORE_BACKEND_PG_H

#include "store/backend.h"

extern const struct backend backend_pg;

#endif
