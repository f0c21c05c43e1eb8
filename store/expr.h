// SPDX-License-Identifier: MIT
/*
 * expr: the language of `where` and `rule`, as in
 *
 *     op = "execute_tool" and (status = "error" or duration > 20s)
 *     count(op = "execute_tool" and status = "error") = 0
 *
 * A text is parsed once for the rows of one listing; its names are the names that an answer gives
 * their members. The result becomes a condition in SQL, or is asked of rows in memory; both say the
 * same of the same rows. What every name and word means is in docs/where.md, which is printed from
 * here.
 *
 * There are two truths, no third: a comparison with a value that is missing is false, so its
 * negation by `not` is true.
 *
 * Of traces also the spans can be asked, by any(), all(), count(), sum(), min() and max(). A span's
 * name that a trace has not, and attr(), mean any() there.
 *
 * An expression does not change once it is parsed: any thread, also several at once.
 */
#ifndef MCPD_STORE_EXPR_H
#define MCPD_STORE_EXPR_H

#include <stdio.h>

#include "store/listing.h"

#define EXPR_TEXT_MAX   4096 /* bytes */
#define EXPR_NODES_MAX  128  /* comparisons, and what joins them */
#define EXPR_VALUES_MAX 256  /* values compared with, and keys of attributes */
#define EXPR_DEPTH_MAX  12   /* parentheses, functions and nots inside each other */

typedef struct expr expr_t;

/* listing: of the rows that are asked, for rules that of LISTING_TRACES. Null with the reason,
 * which names the place and what may stand there. The caller's, ended by expr_destroy. */
expr_t *expr_parse(const char *text, const struct listing *listing, struct err *err) MUST_USE;
void expr_destroy(expr_t **self_p);

enum expr_dialect { EXPR_SQLITE, EXPR_POSTGRES };

/* Writes the condition, in parentheses. The listing's table is called t there. The values of
 * expr_values are its parameters, the first of them number first_parameter. -1 over the buffer's
 * maximum. */
int expr_sql(const expr_t *self, enum expr_dialect dialect, size_t first_parameter,
             struct buf *sql) MUST_USE;
/* All values, in order; they live as long as self. */
size_t expr_values(const expr_t *self, const struct list_value **values);

/* In memory: what is known of one row so far. Begin with the row, in the order of the listing's
 * columns; add the spans if it is a trace, as rows of LISTING_SPANS, in any order; then ask. Rows
 * are borrowed for the call. */
struct expr_state {
    struct {
        bool is_true;            /* of the row: its comparison; of spans: any is, all are not */
        int64_t count;           /* of spans */
        double sum;              /* over spans */
        struct list_value least; /* of spans, a number or LIST_NULL */
        struct list_value most;
    } nodes[EXPR_NODES_MAX];
};
void expr_begin(const expr_t *self, struct expr_state *state, const struct list_value *row);
void expr_add_span(const expr_t *self, struct expr_state *state, const struct list_value *span);
bool expr_holds(const expr_t *self, const struct expr_state *state);

/* docs/where.md */
void expr_markdown(FILE *out);

#endif
