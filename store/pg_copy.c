// SPDX-License-Identifier: MIT
/*
 * COPY cannot be had in a pipeline, so the connection leaves that mode for as long as it takes. The
 * binary form: a signature, flags and an extension's length (none); for each row the number of its
 * values and each with its length before it; an end (the server's documentation, COPY, "Binary
 * Format"). A value must be as wide as its column: integers are bigint in all tables.
 *
 * When the server refuses a row it says so at once and ignores the rest; that is read at the end.
 */
#include "store/pg_copy.h"

#include <assert.h>
#include <poll.h>
#include <string.h>

#include "store/pg_conn_impl.h"
#include "store/pg_rows.h"

#define SQL_MAX_BYTES  4096
#define ROWS_MAX_BYTES ((size_t)512 * 1024 * 1024)
#define STATE_TWICE    "23505"

static const char head[19] = "PGCOPY\n\377\r\n";
static const char tail[2] = "\377\377";

/* Back to the mode in which all else is done. */
static int resume_pipeline(backend_conn_t *conn, struct err *err)
{
    if (!PQenterPipelineMode(conn->pg))
        return pg_impl_lose(conn, err);
    return conn->fault == PG_FINE ? 0 : -1;
}

/* Reads the results of the COPY to their end. */
static int finish(backend_conn_t *conn, struct err *err)
{
    PGresult *result = NULL;
    do {
        PQclear(result);
        if (pg_impl_take(conn, &result, err) == -1)
            return -1;
        if (result && PQresultStatus(result) != PGRES_COMMAND_OK) {
            const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
            pg_impl_note(conn, result, err);
            if (state && strcmp(state, STATE_TWICE) == 0)
                conn->fault = PG_TWICE;
        }
        if (PQstatus(conn->pg) == CONNECTION_BAD) {
            PQclear(result);
            return pg_impl_lose(conn, err);
        }
    } while (result);
    return resume_pipeline(conn, err);
}

static int send_all(backend_conn_t *conn, struct err *err)
{
    int unsent;
    while ((unsent = pg_impl_flush(conn, err)) == 1) {
        if (pg_impl_wait(conn, POLLIN | POLLOUT) == -1)
            return pg_impl_lose_for(conn, err, "no answer in time");
        if (!PQconsumeInput(conn->pg))
            return pg_impl_lose(conn, err);
    }
    return unsent;
}

static int put(backend_conn_t *conn, const char *bytes, size_t len, struct err *err)
{
    int rc;
    while ((rc = PQputCopyData(conn->pg, bytes, (int)len)) == 0)
        if (send_all(conn, err) == -1)
            return -1;
    if (rc == -1 && PQstatus(conn->pg) == CONNECTION_BAD)
        return pg_impl_lose(conn, err);
    return send_all(conn, err);
}

int pg_copy_begin(backend_conn_t *conn, const struct row_table *table, struct err *err)
{
    struct buf sql;
    PGresult *result = NULL;
    buf_init(&sql, SQL_MAX_BYTES);
    int failed = buf_printf(&sql, "COPY %s (", table->name);
    for (size_t i = 0; i < table->count; i++)
        failed |= buf_printf(&sql, "%s%s", i ? ", " : "", table->columns[i].name);
    failed |= buf_add_str(&sql, ") FROM STDIN (FORMAT binary)");
    assert(!failed && conn->queued == 0);
    bool is_sent = PQexitPipelineMode(conn->pg) && PQsendQuery(conn->pg, buf_cstr(&sql));
    buf_fini(&sql);
    if (!is_sent)
        return pg_impl_lose(conn, err);
    if (pg_impl_take(conn, &result, err) == -1)
        return -1;
    bool is_ready = PQresultStatus(result) == PGRES_COPY_IN;
    if (!is_ready)
        pg_impl_note(conn, result, err);
    PQclear(result);
    if (!is_ready)
        return finish(conn, err);
    return put(conn, head, sizeof head, err);
}

int pg_copy_rows(backend_conn_t *conn, const struct row *rows, size_t count, struct err *err)
{
    struct buf bytes;
    int rc = 0;
    buf_init(&bytes, ROWS_MAX_BYTES);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = pg_add_row(&bytes, &rows[i]);
    if (rc == -1) {
        rc = pg_impl_lose_for(conn, err, "the rows are too large");
        conn->fault = PG_DATA;
    } else {
        rc = put(conn, bytes.data, bytes.len, err);
    }
    buf_fini(&bytes);
    return rc;
}

int pg_copy_end(backend_conn_t *conn, struct err *err)
{
    int rc;
    if (put(conn, tail, sizeof tail, err) == -1)
        return -1;
    while ((rc = PQputCopyEnd(conn->pg, NULL)) == 0)
        if (send_all(conn, err) == -1)
            return -1;
    if (rc == -1 && PQstatus(conn->pg) == CONNECTION_BAD)
        return pg_impl_lose(conn, err);
    return finish(conn, err);
}
