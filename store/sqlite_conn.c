// SPDX-License-Identifier: MIT
#include "store/sqlite_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/clock.h"

/* Another program, as the sqlite3 shell, may hold the file for a moment. */
#define BUSY_TIMEOUT_MS 2000
/* No value comes near it; it bounds what one row can make the process allocate. */
#define VALUE_MAX_BYTES (64 * 1024 * 1024)
/* Instructions of SQLite's machine between two looks at the clock. */
#define PROGRESS_STEPS 20000

/* FULL syncs the log on every commit: what was answered survives a power cut. */
static const char settings[] = "PRAGMA journal_mode = WAL;"
                               "PRAGMA synchronous = FULL;"
                               "PRAGMA foreign_keys = OFF;"
                               "PRAGMA temp_store = MEMORY;"
                               "PRAGMA wal_autocheckpoint = 4000;"
                               "PRAGMA journal_size_limit = 67108864;";
static const char writer_settings[] = "PRAGMA cache_size = -65536;";
static const char reader_settings[] = "PRAGMA cache_size = -4096; PRAGMA query_only = ON;";

static const char *const statement_texts[] = {
#define STATEMENT(id, sql) sql,
#include "store/sqlite_statements.def"
#undef STATEMENT
};

int sqlite_conn_error(backend_conn_t *self, const char *doing, struct err *err)
{
    return err_set(err, "%s: %s", doing, sqlite3_errmsg(self->db));
}

/* The log beside the data file holds what was committed last; it stays as long as it is in use. */
static bool is_log_in_place(backend_conn_t *self)
{
    struct stat now;
    bool is_there = stat(sqlite3_filename_wal(sqlite3_db_filename(self->db, "main")), &now) == 0;
    if (self->log_inode == 0 && is_there)
        self->log_inode = now.st_ino;
    return self->log_inode == 0 || (is_there && now.st_ino == self->log_inode);
}

int sqlite_conn_in_place(backend_conn_t *self, struct err *err)
{
    int has_moved = 0;
    sqlite3_file_control(self->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
    if (has_moved)
        return err_set(err, "the data file was removed or replaced while in use: put it back, or "
                            "start anew");
    if (!is_log_in_place(self))
        return err_set(err, "the data file's -wal was removed while in use: start anew");
    return 0;
}

static int is_late(void *arg)
{
    backend_conn_t *self = arg;
    return self->deadline_ms != 0 && clock_mono_ms() >= self->deadline_ms;
}

backend_conn_t *sqlite_conn_new(const char *path, struct err *err)
{
    backend_conn_t *self = calloc(1, sizeof *self);
    assert(self);
    rollup_init(&self->rollup);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int rc = sqlite3_open_v2(path, &self->db, flags, NULL);
    if (rc != SQLITE_OK) {
        err_set(err, "cannot open the data file: %s", sqlite3_errstr(rc));
        sqlite_conn_destroy(&self);
        return NULL;
    }
    sqlite3_busy_timeout(self->db, BUSY_TIMEOUT_MS);
    sqlite3_limit(self->db, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
    sqlite3_extended_result_codes(self->db, 1);
    return self;
}

int sqlite_conn_set_up(backend_conn_t *self, bool is_writer, struct err *err)
{
    if (!is_writer)
        sqlite3_progress_handler(self->db, PROGRESS_STEPS, is_late, self);
    if (sqlite3_exec(self->db, settings, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(self->db, is_writer ? writer_settings : reader_settings, NULL, NULL, NULL) !=
            SQLITE_OK)
        return sqlite_conn_error(self, "cannot set up the connection", err);
    return 0;
}

void sqlite_conn_destroy(backend_conn_t **self_p)
{
    backend_conn_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(self->statements[i]);
    sqlite3_close_v2(self->db);
    rollup_fini(&self->rollup);
    free(self);
}

int sqlite_conn_prepare(backend_conn_t *self, enum sqlite_statement id, struct sqlite_call *call,
                        struct err *err)
{
    sqlite3_stmt **statement = &self->statements[id];
    if (*statement)
        sqlite3_reset(*statement);
    else if (sqlite3_prepare_v3(self->db, statement_texts[id], -1, SQLITE_PREPARE_PERSISTENT,
                                statement, NULL) != SQLITE_OK) {
        sqlite_conn_error(self, "cannot prepare a statement", err);
        return -1;
    }
    *call = (struct sqlite_call){.statement = *statement, .next = 1, .rc = SQLITE_OK};
    return 0;
}

int sqlite_conn_row(backend_conn_t *self, struct sqlite_call *call, struct err *err)
{
    int rc = call->rc != SQLITE_OK ? call->rc : sqlite3_step(call->statement);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        err_set(err, "the store failed: %s (%s)", sqlite3_errmsg(self->db), sqlite3_errstr(rc));
    return rc;
}

int sqlite_conn_finish(backend_conn_t *self, struct sqlite_call *call, struct err *err)
{
    int rc = sqlite_conn_row(self, call, err);
    sqlite3_reset(call->statement);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int sqlite_conn_run(backend_conn_t *self, enum sqlite_statement id, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(self, id, &call, err) == -1)
        return SQLITE_ERROR;
    return sqlite_conn_finish(self, &call, err);
}

void sqlite_conn_rollback(backend_conn_t *self)
{
    /* A full disk makes SQLite roll back by itself. */
    if (sqlite3_get_autocommit(self->db))
        return;
    if (sqlite_conn_run(self, STATEMENT_ROLLBACK, NULL) != SQLITE_OK)
        sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
}

static void note(struct sqlite_call *call, int rc)
{
    call->next++;
    if (call->rc == SQLITE_OK)
        call->rc = rc;
}

void sqlite_bind_int(struct sqlite_call *call, int64_t value)
{
    note(call, sqlite3_bind_int64(call->statement, call->next, value));
}

void sqlite_bind_null(struct sqlite_call *call)
{
    note(call, sqlite3_bind_null(call->statement, call->next));
}

void sqlite_bind_real(struct sqlite_call *call, double value)
{
    note(call, sqlite3_bind_double(call->statement, call->next, value));
}

void sqlite_bind_blob(struct sqlite_call *call, const uint8_t *bytes, size_t len)
{
    note(call, sqlite3_bind_blob64(call->statement, call->next, bytes, len, SQLITE_STATIC));
}

void sqlite_bind_required(struct sqlite_call *call, struct slice text)
{
    note(call, sqlite3_bind_text64(call->statement, call->next, text.len ? text.data : "", text.len,
                                   SQLITE_STATIC, SQLITE_UTF8));
}

void sqlite_bind_slice(struct sqlite_call *call, struct slice text)
{
    if (text.len == 0)
        sqlite_bind_null(call);
    else
        sqlite_bind_required(call, text);
}

void sqlite_bind_text(struct sqlite_call *call, const char *text)
{
    if (text)
        sqlite_bind_required(call, slice_of(text));
    else
        sqlite_bind_null(call);
}

void sqlite_bind_value(struct sqlite_call *call, const struct list_value *value)
{
    switch (value->type) {
    case LIST_NULL:
        sqlite_bind_null(call);
        break;
    case LIST_INT:
        sqlite_bind_int(call, value->integer);
        break;
    case LIST_REAL:
        sqlite_bind_real(call, value->real);
        break;
    case LIST_TEXT:
        sqlite_bind_required(call, value->bytes);
        break;
    case LIST_BYTES:
        sqlite_bind_blob(call, (const uint8_t *)value->bytes.data, value->bytes.len);
        break;
    }
}

void sqlite_bind_row(struct sqlite_call *call, const struct row *row)
{
    for (size_t i = 0; i < row->count; i++)
        sqlite_bind_value(call, &row->values[i]);
}
