// SPDX-License-Identifier: MIT
/*
 * query: the parameters of a reading request, from the part of its target behind '?'. Any thread.
 */
#ifndef MCPD_STORE_QUERY_H
#define MCPD_STORE_QUERY_H

#include "common/err.h"
#include "store/expr.h"

#define QUERY_LIMIT_DEFAULT 50
#define QUERY_LIMIT_MAX     200
/* Bytes of a row's key that a cursor can carry; a longer one ends the pages. */
#define QUERY_KEY_MAX 1024

/* A list query and the memory of its values. */
struct parsed_query {
    struct list_query list;
    struct buf text;
    expr_t *where;     /* owned */
    struct err reason; /* of the parameter that failed, where there is more to say */
};

/* project is the reader's own; it must outlive self.
 * -1 with the reason (which names the parameter) for an unknown parameter, one given twice, or a
 * value that is none. Ended by query_fini, also after a failure. */
int query_parse(struct parsed_query *self, const struct listing *listing, const char *project,
                const char *query, struct err *err) MUST_USE;
void query_fini(struct parsed_query *self);

/* Writes the cursor that continues after a row with this time and key; -1 over the buffer's
 * maximum, or for a key that is too long. */
int query_cursor(int64_t time_ns, const struct list_value *key, struct buf *out) MUST_USE;

/* "2026-01-02T03:04:05.678Z" or nanoseconds since 1970. */
int query_time(const char *text, int64_t *ns) MUST_USE;

#endif
