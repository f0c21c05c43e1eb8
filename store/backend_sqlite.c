// SPDX-License-Identifier: MIT
/*
 * The descriptor that holds the flock stays open until the last connection is gone: closing any
 * descriptor of the file would drop the record locks that SQLite itself holds on it.
 */
#include "store/backend_sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/fsio.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_schema.h"

struct backend_store {
    char *path;
    int lock_fd;
};

static int lock_file(backend_store_t *self, struct err *err)
{
    self->lock_fd = fsio_open(AT_FDCWD, self->path, O_RDWR | O_CREAT);
    if (self->lock_fd == -1)
        return err_set(err, "cannot open the data file %s: %s", self->path, strerror(errno));
    if (fsio_lock(self->lock_fd) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(err, "the data file %s is in use by another daemon", self->path);
    return err_set(err, "cannot lock the data file %s: %s", self->path, strerror(errno));
}

static void close_store(backend_store_t **self_p)
{
    backend_store_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    if (self->lock_fd != -1)
        fsio_close(self->lock_fd);
    free(self->path);
    free(self);
}

static backend_store_t *open_store(const char *where, struct err *err)
{
    backend_store_t *self = calloc(1, sizeof *self);
    assert(self);
    self->path = slice_dup(slice_of(where));
    self->lock_fd = -1;
    backend_conn_t *conn = NULL;
    struct err reason;
    if (lock_file(self, err) == -1)
        goto fail;
    /* A file that is not ours is refused before anything in it changes. */
    conn = sqlite_conn_new(self->path, &reason);
    if (!conn || sqlite_schema_ensure(conn, &reason) == -1 ||
        sqlite_conn_set_up(conn, true, &reason) == -1) {
        err_set(err, "%s: %s", self->path, reason.text);
        goto fail;
    }
    sqlite_conn_destroy(&conn);
    return self;
fail:
    sqlite_conn_destroy(&conn);
    close_store(&self);
    return NULL;
}

static backend_conn_t *connect_store(backend_store_t *store, bool is_writer, struct err *err)
{
    backend_conn_t *conn = sqlite_conn_new(store->path, err);
    if (conn && sqlite_conn_set_up(conn, is_writer, err) == -1)
        sqlite_conn_destroy(&conn);
    return conn;
}

static int probe(backend_conn_t *conn, bool is_deep, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_in_place(conn, err) == -1) {
        /* What a log that was removed holds goes into the data file as long as it is open. */
        sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_FULL, NULL, NULL);
        return -1;
    }
    if (is_deep)
        return sqlite_conn_run(conn, STATEMENT_PROBE_WRITE, err) == SQLITE_OK ? 0 : -1;
    if (sqlite_conn_prepare(conn, STATEMENT_PROBE, &call, err) == -1)
        return -1;
    int rc = sqlite_conn_row(conn, &call, err);
    sqlite3_reset(call.statement);
    return rc == SQLITE_ROW ? 0 : -1;
}

/* Runs a statement that removes rows; *most grows to how many it were. */
static int finish_removal(backend_conn_t *conn, struct sqlite_call *call, int *most,
                          struct err *err)
{
    if (sqlite_conn_finish(conn, call, err) != SQLITE_OK)
        return -1;
    int removed = sqlite3_changes(conn->db);
    if (removed > *most)
        *most = removed;
    return 0;
}

static int sweep(backend_conn_t *conn, int max_rows, struct err *err)
{
    static const enum sqlite_statement sweeps[] = {STATEMENT_SWEEP_KEYS, STATEMENT_SWEEP_REJECTS,
                                                   STATEMENT_SWEEP_REJECTS_OVER,
                                                   STATEMENT_SWEEP_SCORE_JOBS};
    int most = 0;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        struct sqlite_call call;
        if (sqlite_conn_prepare(conn, sweeps[i], &call, err) == -1)
            return -1;
        sqlite_bind_int(&call, max_rows);
        if (finish_removal(conn, &call, &most, err) == -1)
            return -1;
    }
    return most;
}

static int forget(backend_conn_t *conn, const struct retention *kept, size_t count, int max_rows,
                  struct err *err)
{
    static const enum sqlite_statement kinds[] = {
        STATEMENT_FORGET_SPANS,  STATEMENT_FORGET_LOGS,   STATEMENT_FORGET_METRICS,
        STATEMENT_FORGET_TRACES, STATEMENT_FORGET_SCORES, STATEMENT_FORGET_RUNS,
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    int most = 0;
    for (size_t i = 0; i < count * KINDS; i++) {
        struct sqlite_call call;
        const struct retention *one = &kept[i / KINDS];
        if (one->days == 0)
            continue;
        if (sqlite_conn_prepare(conn, kinds[i % KINDS], &call, err) == -1)
            return -1;
        sqlite_bind_text(&call, one->project);
        sqlite_bind_int(&call, (int64_t)one->days);
        sqlite_bind_int(&call, max_rows);
        if (finish_removal(conn, &call, &most, err) == -1)
            return -1;
    }
    return most;
}

const struct backend backend_sqlite = {
    .name = "sqlite",
    .writers = 1, /* SQLite has one writer at a time */
    .open = open_store,
    .close = close_store,
    .connect = connect_store,
    .disconnect = sqlite_conn_destroy,
    .write = sqlite_write,
    .probe = probe,
    .sweep = sweep,
    .forget = forget,
    .lease_bid = sqlite_lease_bid,
    .lease_renew = sqlite_lease_renew,
    .lease_give_up = sqlite_lease_give_up,
    .pass_mark = sqlite_pass_mark,
    .pass_cursor = sqlite_pass_cursor,
    .settle = sqlite_settle,
    .score_due = sqlite_score_due,
    .score_waiting = sqlite_score_waiting,
    .score_write = sqlite_score_write,
    .replica_seen = sqlite_replica_seen,
    .list = sqlite_list,
    .read_trace = sqlite_read_trace,
};
