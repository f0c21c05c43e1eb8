// SPDX-License-Identifier: MIT
/*
 * Reading happens in a transaction that cannot write and sees one moment. The server is told the
 * deadline, so that it does not go on with what nobody waits for any more.
 */
#include "store/pg_read.h"

#include <stdio.h>

#include "common/clock.h"
#include "store/list_sql.h"

static const char begin[] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/* Queues two statements. */
static void queue_begin(backend_conn_t *conn)
{
    char left[32];
    struct pg_params params = {0};
    snprintf(left, sizeof left, "%llums",
             (unsigned long long)clock_until_ms(conn->deadline_ms, clock_mono_ms()) + 1);
    pg_bind_text(&params, left);
    pg_queue(conn, begin, NULL);
    pg_queue(conn, "SELECT set_config('statement_timeout', $1, true)", &params);
}

static void queue_text(backend_conn_t *conn, struct sql_text *sql)
{
    struct pg_params params = {0};
    for (size_t i = 0; i < sql->value_count; i++)
        pg_bind_value(&params, &sql->values[i]);
    pg_queue(conn, buf_cstr(&sql->text), &params);
}

int pg_list(backend_conn_t *conn, const struct list_query *query, row_sink *sink, void *arg,
            struct err *err)
{
    struct sql_text sql;
    int rc = -1;
    sql_text_init(&sql, EXPR_POSTGRES);
    if (list_sql_page(&sql, query) == -1) {
        err_set(err, "the query is too long");
    } else if (pg_conn_open(conn, query->deadline_ms, err) == 0) {
        queue_begin(conn);
        queue_text(conn, &sql);
        pg_queue(conn, "COMMIT", NULL);
        rc = pg_round_rows(conn, 2, sink, arg, err);
        if (rc == -1)
            pg_rollback(conn);
    }
    sql_text_fini(&sql);
    return rc;
}

static int read_both(backend_conn_t *conn, struct sql_text *trace, struct sql_text *spans,
                     struct row_count *traces, row_sink *span_sink, struct err *err)
{
    queue_begin(conn);
    queue_text(conn, trace);
    if (pg_round_rows(conn, 2, row_count, traces, err) == -1)
        return -1;
    if (traces->rows == 0)
        return pg_run_done(conn, "COMMIT", err) == 0 ? 1 : -1;
    queue_text(conn, spans);
    pg_queue(conn, "COMMIT", NULL);
    return pg_round_rows(conn, 0, span_sink, traces->arg, err);
}

int pg_read_trace(backend_conn_t *conn, const struct trace_key *key, row_sink *trace_sink,
                  row_sink *span_sink, void *arg, struct err *err)
{
    struct row_count traces = {.sink = trace_sink, .arg = arg};
    struct sql_text trace;
    struct sql_text spans;
    int rc = -1;
    sql_text_init(&trace, EXPR_POSTGRES);
    sql_text_init(&spans, EXPR_POSTGRES);
    if (list_sql_trace(&trace, key) == -1 || list_sql_spans(&spans, key) == -1) {
        err_set(err, "the query is too long");
    } else if (pg_conn_open(conn, key->deadline_ms, err) == 0) {
        rc = read_both(conn, &trace, &spans, &traces, span_sink, err);
        if (rc == -1)
            pg_rollback(conn);
    }
    sql_text_fini(&spans);
    sql_text_fini(&trace);
    return rc;
}
