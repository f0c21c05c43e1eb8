// SPDX-License-Identifier: MIT
/* Settling and the jobs of scoring. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite_conn.h"

/* A trace that is being settled. */
struct settling {
    int64_t project;
    struct score_job key; /* tries is not used */
};

struct settling_list {
    struct settling *rows;
    size_t count;
    size_t max;
};

static void read_key(struct sqlite_call *call, int name_column, struct score_job *key)
{
    snprintf(key->project, sizeof key->project, "%s",
             (const char *)sqlite3_column_text(call->statement, name_column));
    const void *id = sqlite3_column_blob(call->statement, name_column + 1);
    if (id && sqlite3_column_bytes(call->statement, name_column + 1) == sizeof key->trace_id)
        memcpy(key->trace_id, id, sizeof key->trace_id);
}

/* Adds what the statement finds. -1 with the reason. */
static int find(backend_conn_t *conn, enum sqlite_statement id, uint64_t age_s,
                struct settling_list *list, struct err *err)
{
    struct sqlite_call call;
    int rc;
    if (sqlite_conn_prepare(conn, id, &call, err) == -1)
        return -1;
    sqlite_bind_int(&call, (int64_t)age_s);
    sqlite_bind_int(&call, (int64_t)(list->max - list->count));
    while ((rc = sqlite_conn_row(conn, &call, err)) == SQLITE_ROW) {
        struct settling *row = &list->rows[list->count++];
        row->project = sqlite3_column_int64(call.statement, 0);
        read_key(&call, 1, &row->key);
    }
    sqlite3_reset(call.statement);
    return rc == SQLITE_DONE ? 0 : -1;
}

/* project and trace_id are the first parameters. */
static int run_on_trace(backend_conn_t *conn, enum sqlite_statement id, const struct settling *row,
                        const char *scorer, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, id, &call, err) == -1)
        return -1;
    sqlite_bind_int(&call, row->project);
    sqlite_bind_blob(&call, row->key.trace_id, sizeof row->key.trace_id);
    if (scorer)
        sqlite_bind_text(&call, scorer);
    return sqlite_conn_finish(conn, &call, err) == SQLITE_OK ? 0 : -1;
}

static int settle_one(backend_conn_t *conn, const struct settle_call *settle,
                      const struct settling *row, struct err *err)
{
    const char *scorers[SCORE_SCORERS_MAX];
    size_t count = settle->choose(settle->arg, row->key.project, row->key.trace_id, scorers);
    if (run_on_trace(conn, STATEMENT_SETTLE_TRACE, row, NULL, err) == -1)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (run_on_trace(conn, STATEMENT_SCORE_JOB_ADD, row, scorers[i], err) == -1)
            return -1;
    return 0;
}

/* Settles what the statement finds. -1 with the reason. */
static int settle_found(backend_conn_t *conn, const struct settle_call *settle,
                        enum sqlite_statement id, uint64_t age_s, struct settling_list *list,
                        struct err *err)
{
    size_t first = list->count;
    if (find(conn, id, age_s, list, err) == -1)
        return -1;
    for (size_t i = first; i < list->count; i++)
        if (settle_one(conn, settle, &list->rows[i], err) == -1)
            return -1;
    return 0;
}

enum backend_status sqlite_settle(backend_conn_t *conn, const struct lease_claim *claim,
                                  const struct settle_call *call, size_t *settled, struct err *err)
{
    struct settling_list list = {.max = call->max_rows};
    *settled = 0;
    enum backend_status status = sqlite_fenced_begin(conn, claim, err);
    if (status != BACKEND_OK)
        return status;
    list.rows = calloc(call->max_rows, sizeof *list.rows);
    assert(list.rows);
    if (settle_found(conn, call, STATEMENT_SETTLE_ENDED, call->quiet_s, &list, err) == 0 &&
        settle_found(conn, call, STATEMENT_SETTLE_OLD, call->max_age_s, &list, err) == 0) {
        status = sqlite_commit(conn, err);
    } else {
        sqlite_conn_rollback(conn);
        status = BACKEND_AWAY;
    }
    if (status == BACKEND_OK)
        *settled = list.count;
    free(list.rows);
    return status;
}

int sqlite_score_due(backend_conn_t *conn, const char *scorer, size_t limit, struct score_job *jobs,
                     size_t *count, struct err *err)
{
    struct sqlite_call call;
    int rc;
    *count = 0;
    if (sqlite_conn_prepare(conn, STATEMENT_SCORE_DUE, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, scorer);
    sqlite_bind_int(&call, (int64_t)limit);
    while ((rc = sqlite_conn_row(conn, &call, err)) == SQLITE_ROW && *count < limit) {
        struct score_job *job = &jobs[(*count)++];
        read_key(&call, 0, job);
        job->tries = (uint64_t)sqlite3_column_int64(call.statement, 2);
    }
    sqlite3_reset(call.statement);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : -1;
}

int sqlite_score_waiting(backend_conn_t *conn, const char *scorer, int64_t *count, struct err *err)
{
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_SCORE_WAITING, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, scorer);
    sqlite_bind_int(&call, SCORE_COUNT_MAX);
    int rc = sqlite_conn_row(conn, &call, err);
    if (rc == SQLITE_ROW)
        *count = sqlite3_column_int64(call.statement, 0);
    sqlite3_reset(call.statement);
    return rc == SQLITE_ROW ? 0 : -1;
}

static int add_row(backend_conn_t *conn, const struct score_outcome *outcome, struct err *err)
{
    const struct score_row *row = outcome->row;
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, STATEMENT_SCORE_ROW_ADD, &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, outcome->job->project);
    sqlite_bind_text(&call, row->id);
    sqlite_bind_text(&call, row->name);
    sqlite_bind_text(&call, score_type_name(row->type));
    if (row->has_number)
        sqlite_bind_real(&call, row->number);
    else
        sqlite_bind_null(&call);
    sqlite_bind_text(&call, row->text);
    sqlite_bind_text(&call, row->source);
    sqlite_bind_text(&call, row->comment);
    sqlite_bind_text(&call, outcome->scorer);
    sqlite_bind_text(&call, row->version);
    sqlite_bind_blob(&call, outcome->job->trace_id, sizeof outcome->job->trace_id);
    sqlite_bind_text(&call, row->error);
    return sqlite_conn_finish(conn, &call, err) == SQLITE_OK ? 0 : -1;
}

static int end_job(backend_conn_t *conn, const struct score_outcome *outcome, struct err *err)
{
    bool is_later = outcome->retry_s > 0;
    struct sqlite_call call;
    if (sqlite_conn_prepare(conn, is_later ? STATEMENT_SCORE_JOB_LATER : STATEMENT_SCORE_JOB_END,
                            &call, err) == -1)
        return -1;
    sqlite_bind_text(&call, outcome->job->project);
    sqlite_bind_blob(&call, outcome->job->trace_id, sizeof outcome->job->trace_id);
    sqlite_bind_text(&call, outcome->scorer);
    if (is_later) {
        sqlite_bind_int(&call, (int64_t)outcome->retry_s);
        sqlite_bind_int(&call, (int64_t)outcome->job->tries + 1);
    }
    return sqlite_conn_finish(conn, &call, err) == SQLITE_OK ? 0 : -1;
}

enum backend_status sqlite_score_write(backend_conn_t *conn, const struct lease_claim *claim,
                                       const struct score_outcome *outcomes, size_t count,
                                       struct err *err)
{
    enum backend_status status = sqlite_fenced_begin(conn, claim, err);
    if (status != BACKEND_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        bool has_row = outcomes[i].row && outcomes[i].retry_s == 0;
        if ((has_row && add_row(conn, &outcomes[i], err) == -1) ||
            end_job(conn, &outcomes[i], err) == -1) {
            sqlite_conn_rollback(conn);
            return BACKEND_AWAY;
        }
    }
    return sqlite_commit(conn, err);
}
