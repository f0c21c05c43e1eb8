// SPDX-License-Identifier: MIT
/*
 * query: the parameters of a reading request, from the part of its target behind '?'. Any thread.
 */
#ifndef MCPD_STORE_QUERY_H
#define MCPD_STORE_QUERY_H

#include "store/backend.h"

#define QUERY_LIMIT_DEFAULT 50
#define QUERY_LIMIT_MAX     200

/* A trace query and the memory of its texts. */
struct parsed_query {
    struct trace_query traces;
    struct buf text;
};

/* project is the reader's own; it must outlive self.
 * -1 with the reason (which names the parameter) for an unknown parameter, one given twice, or a
 * value that is none. Ended by query_fini, also after a failure. */
int query_parse(struct parsed_query *self, const char *project, const char *query,
                struct err *err) MUST_USE;
void query_fini(struct parsed_query *self);

/* The cursor that continues after this row; no terminating NUL. */
#define QUERY_CURSOR_LEN 48
void query_cursor(const struct trace_row *row, char out[QUERY_CURSOR_LEN]);

/* "2026-01-02T03:04:05.678Z" or nanoseconds since 1970. */
int query_time(const char *text, int64_t *ns) MUST_USE;

#endif
