// SPDX-License-Identifier: MIT
/*
 * opened_store: a store that is open, with the threads that write to it and the connections that
 * read from it. A daemon has one, or a second one for its runs. Zeroed: not open.
 */
#ifndef MCPD_STORE_OPENED_STORE_H
#define MCPD_STORE_OPENED_STORE_H

#include "store/readers.h"
#include "store/writer.h"

struct opened_store {
    const struct backend *backend;
    backend_store_t *store;
    writer_t *writer;
    readers_t *readers;
};

/* where: a Postgres URL, else the path of an SQLite file. Blocks. -1 with the reason; what was
 * opened by then is closed by opened_store_close. */
int opened_store_open(struct opened_store *self, const char *where, struct err *err) MUST_USE;
/* Writes what waits first. Nobody uses it any more. Also for one that is not open. */
void opened_store_close(struct opened_store *self);

/* One that is not open counts as ready. Any thread. */
bool opened_store_is_ready(const struct opened_store *self, uint64_t now_ms);

#endif
