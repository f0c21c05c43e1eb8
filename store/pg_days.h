// SPDX-License-Identifier: MIT
/*
 * pg_days: the day partitions of a Postgres store. The keeper makes those of the coming days ahead;
 * a day that comes all the same without one is made when a row needs it. Any thread.
 */
#ifndef MCPD_STORE_PG_DAYS_H
#define MCPD_STORE_PG_DAYS_H

#include "store/pg_conn.h"

enum pg_family { PG_SPANS, PG_LOGS, PG_METRICS, PG_FAMILY_COUNT };

struct pg_days *pg_days_new(void) MUST_USE;
void pg_days_destroy(struct pg_days **self_p);

/* The first day that has a partition of its own; earlier ones share one. Forgets what is known. */
void pg_days_begin(struct pg_days *self, int64_t first_day);
/* Forgets which are known to exist, as somebody may have dropped some. */
void pg_days_forget(struct pg_days *self);

/* Makes those of the days that are not known to exist; in transactions of their own, before the one
 * that needs them. days may hold a day several times. Blocks. -1 with the reason. */
int pg_days_need(backend_conn_t *conn, enum pg_family family, const int64_t *days, size_t count,
                 struct err *err) MUST_USE;
/* Makes those of today and the week to come, in all families. */
int pg_days_ahead(backend_conn_t *conn, int64_t today, struct err *err) MUST_USE;
/* Drops at most one partition of each family that lies wholly before the day, and at most max_rows
 * rows of the earliest days. How many it dropped or removed, or -1. Waits for readers no longer
 * than a moment. */
int pg_days_drop(backend_conn_t *conn, int64_t before_day, int max_rows, struct err *err) MUST_USE;

#endif
