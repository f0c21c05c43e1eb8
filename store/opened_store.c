// SPDX-License-Identifier: MIT
#include "store/opened_store.h"

#include "common/options.h"
#include "store/backend_pg.h"
#include "store/backend_sqlite.h"

int opened_store_open(struct opened_store *self, const char *where, struct err *err)
{
    self->backend = options_is_postgres_url(where) ? &backend_pg : &backend_sqlite;
    self->store = self->backend->open(where, err);
    if (!self->store)
        return -1;
    self->writer = writer_new(self->backend, self->store, err);
    if (!self->writer)
        return -1;
    self->readers = readers_new(self->backend, self->store, err);
    return self->readers ? 0 : -1;
}

void opened_store_close(struct opened_store *self)
{
    readers_destroy(&self->readers);
    writer_destroy(&self->writer);
    if (self->backend)
        self->backend->close(&self->store);
    *self = (struct opened_store){0};
}

bool opened_store_is_ready(const struct opened_store *self, uint64_t now_ms)
{
    return !self->writer || writer_is_ready(self->writer, now_ms);
}
