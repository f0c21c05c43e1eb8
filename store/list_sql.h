// SPDX-License-Identifier: MIT
/*
 * list_sql: the statements that read, made from the tables of listing.c for either dialect. Only
 * the filters that are set go in, so that the database can choose an index for them.
 */
#ifndef MCPD_STORE_LIST_SQL_H
#define MCPD_STORE_LIST_SQL_H

#include "store/backend.h"
#include "store/sql_text.h"

/* A page of a list. -1 where the statement would be too long. */
int list_sql_page(struct sql_text *sql, const struct list_query *query) MUST_USE;
/* The row of one trace, as LISTING_TRACES has it; its spans, as LISTING_SPANS, in order of start.
 */
int list_sql_trace(struct sql_text *sql, const struct trace_key *key) MUST_USE;
int list_sql_spans(struct sql_text *sql, const struct trace_key *key) MUST_USE;

#endif
