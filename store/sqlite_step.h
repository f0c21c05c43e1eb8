// SPDX-License-Identifier: MIT
/*
 * sqlite_step: the steps of a writing transaction, one for each type of event. All run inside a
 * transaction that the caller began.
 */
#ifndef MCPD_STORE_SQLITE_STEP_H
#define MCPD_STORE_SQLITE_STEP_H

#include "store/rows.h"
#include "store/sqlite_conn.h"

/* How one step of a transaction went. */
enum step {
    STEP_NEW,   /* it changed something */
    STEP_KNOWN, /* it was there already */
    STEP_DATA,  /* refused for the data's sake; only this statement was undone */
    STEP_STORE, /* the store failed */
};

/* What the events of one request are written with. */
struct writing {
    backend_conn_t *conn;
    const struct backend_request *request;
    int64_t project;
    struct err *err;
};

/* Runs a statement that has its values. */
enum step step_finish(backend_conn_t *conn, struct sqlite_call *call, struct err *err);

typedef enum step step_fn(struct writing *writing, const struct event *event);
step_fn step_span;
step_fn step_log;
step_fn step_metric;
step_fn step_score;
step_fn step_run;

#endif
