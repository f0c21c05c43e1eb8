// SPDX-License-Identifier: MIT
/*
 * Statements go into libpq's buffer, a sync ends the round. After an error the server skips the
 * rest of the round up to the sync, which is always read, so the connection stays of use.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "store/pg_conn_impl.h"

#define ROLLBACK_LIMIT_MS 2000

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static void queue_failed(backend_conn_t *self)
{
    if (self->fault == PG_FINE)
        self->fault = PG_LOST;
}

void pg_queue(backend_conn_t *self, const char *sql, const struct pg_params *params)
{
    static const struct pg_params none = {0};
    static const int binary[PG_PARAMS_MAX] = {[0 ... PG_PARAMS_MAX - 1] = 1};
    if (!params)
        params = &none;
    if (!self->pg || !PQsendQueryParams(self->pg, sql, params->count, params->types, params->values,
                                        params->lengths, binary, 1))
        queue_failed(self);
    else
        self->queued++;
}

/* Reads on to the round's end. */
static int finish_round(backend_conn_t *self, struct err *err)
{
    PGresult *result = NULL;
    bool is_over = false;
    while (!is_over) {
        if (pg_impl_take(self, &result, err) == -1)
            return -1;
        is_over = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (result && !is_over && !is_good(result))
            pg_impl_note(self, result, err);
        PQclear(result);
        if (self->pg && PQstatus(self->pg) == CONNECTION_BAD)
            return pg_impl_lose(self, err);
    }
    self->queued = 0;
    return self->fault == PG_FINE ? 0 : -1;
}

/* Begins to end the round: everything queued is followed by a sync. */
static int end_queue(backend_conn_t *self, struct err *err)
{
    if (self->fault == PG_DATA && self->queued == 0 && self->pg)
        return err_set(err, "%s: a row is too large", self->store->target.label);
    if (!self->pg)
        return pg_impl_fail(self, PG_LOST, err, "not connected");
    if (self->fault == PG_LOST || !PQpipelineSync(self->pg))
        return pg_impl_lose(self, err);
    return 0;
}

/* The result of the next statement, or null where it failed. */
static PGresult *take_statement(backend_conn_t *self, struct err *err)
{
    PGresult *result = NULL;
    PGresult *mark = NULL;
    if (pg_impl_take(self, &result, err) == -1)
        return NULL;
    if (!is_good(result)) {
        pg_impl_note(self, result, err);
        PQclear(result);
        return NULL;
    }
    if (pg_impl_take(self, &mark, err) == -1) {
        PQclear(result);
        return NULL;
    }
    assert(!mark);
    return result;
}

void pg_clear(PGresult **results, size_t count)
{
    for (size_t i = 0; i < count; i++)
        PQclear(results[i]);
}

int pg_round(backend_conn_t *self, PGresult **results, size_t count, struct err *err)
{
    size_t taken = 0;
    size_t queued = self->queued; /* fewer than count only where one could not be queued */
    assert(!self->pg || queued <= count);
    if (end_queue(self, err) == -1)
        return -1;
    while (taken < queued && (results[taken] = take_statement(self, err)))
        taken++;
    if (self->pg && finish_round(self, err) == 0 && taken == count)
        return 0;
    pg_clear(results, taken);
    return -1;
}

int pg_round_done(backend_conn_t *self, struct err *err)
{
    return end_queue(self, err) == 0 ? finish_round(self, err) : -1;
}

int pg_run(backend_conn_t *self, const char *sql, const struct pg_params *params, PGresult **result,
           struct err *err)
{
    pg_queue(self, sql, params);
    return pg_round(self, result, 1, err);
}

int pg_run_done(backend_conn_t *self, const char *sql, struct err *err)
{
    pg_queue(self, sql, NULL);
    return pg_round_done(self, err);
}

/* Gives the rows of one statement to the sink. */
static int give_rows(backend_conn_t *self, row_sink *sink, void *arg, struct err *err)
{
    struct list_value values[LISTING_COLUMNS_MAX];
    PGresult *result = NULL;
    if (!PQsetSingleRowMode(self->pg))
        return pg_impl_lose_for(self, err, "the rows cannot be read");
    while (pg_impl_take(self, &result, err) == 0 && result) {
        bool is_row = PQresultStatus(result) == PGRES_SINGLE_TUPLE;
        int columns = PQnfields(result);
        if (!is_row && !is_good(result)) {
            pg_impl_note(self, result, err);
            PQclear(result);
            return -1;
        }
        for (int i = 0; is_row && i < columns && i < LISTING_COLUMNS_MAX; i++)
            values[i] = pg_value(result, 0, i);
        bool is_refused = is_row && sink(arg, values) == -1;
        PQclear(result);
        if (is_refused)
            return pg_impl_lose_for(self, err, "the answer would be too large");
    }
    return self->pg ? 0 : -1;
}

int pg_round_rows(backend_conn_t *self, size_t wanted, row_sink *sink, void *arg, struct err *err)
{
    if (end_queue(self, err) == -1)
        return -1;
    for (size_t i = 0; i < wanted; i++) {
        PGresult *result = take_statement(self, err);
        PQclear(result);
        if (!result)
            return self->pg ? finish_round(self, err) : -1;
    }
    int rc = give_rows(self, sink, arg, err);
    return self->pg && finish_round(self, err) == 0 ? rc : -1;
}

int pg_remove(backend_conn_t *self, const char *sql, const struct pg_params *params, int *most,
              struct err *err)
{
    PGresult *result;
    if (pg_run(self, sql, params, &result, err) == -1)
        return -1;
    int removed = (int)strtol(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    if (removed > *most)
        *most = removed;
    return 0;
}

void pg_rollback(backend_conn_t *self)
{
    enum pg_fault fault = self->fault;
    if (!self->pg)
        return;
    self->deadline_ms = clock_mono_ms() + ROLLBACK_LIMIT_MS;
    self->fault = PG_FINE;
    pg_queue(self, "ROLLBACK", NULL);
    if (pg_round_done(self, NULL) == -1)
        pg_conn_drop(self);
    self->fault = fault;
}
