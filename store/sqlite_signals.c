// SPDX-License-Identifier: MIT
/* Logs, metric points, scores and runs: one statement each, which knows what was there before. */
#include "store/sqlite_step.h"

static enum step add_row(struct writing *writing, const struct event *event,
                         enum sqlite_statement id)
{
    struct row row;
    struct sqlite_call call;
    if (sqlite_conn_prepare(writing->conn, id, &call, writing->err) == -1)
        return STEP_STORE;
    row_of_event(writing->request, writing->project, event, &row);
    sqlite_bind_row(&call, &row);
    return step_finish(writing->conn, &call, writing->err);
}

enum step step_log(struct writing *writing, const struct event *event)
{
    return add_row(writing, event, STATEMENT_LOG_ADD);
}

enum step step_metric(struct writing *writing, const struct event *event)
{
    return add_row(writing, event, STATEMENT_METRIC_ADD);
}

enum step step_score(struct writing *writing, const struct event *event)
{
    return add_row(writing, event, STATEMENT_SCORE_ADD);
}

enum step step_run(struct writing *writing, const struct event *event)
{
    return add_row(writing, event, STATEMENT_RUN_ADD);
}
