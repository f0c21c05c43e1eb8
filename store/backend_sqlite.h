// SPDX-License-Identifier: MIT
/*
 * backend_sqlite: the embedded store, one SQLite file that belongs to one process. `where` is the
 * file's path; it is created, readable by its owner only, where it does not exist.
 */
#ifndef MCPD_STORE_BACKEND_SQLITE_H
#define MCPD_STORE_BACKEND_SQLITE_H

#include "store/backend.h"

extern const struct backend backend_sqlite;

#endif
