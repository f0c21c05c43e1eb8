// SPDX-License-Identifier: MIT
/* expr_parser: what the files that parse conditions share: the text, the token, the tree that
 * grows. */
#ifndef MCPD_STORE_EXPR_PARSER_H
#define MCPD_STORE_EXPR_PARSER_H

#include "common/err.h"
#include "store/expr_lex.h"

struct expr_parser {
    expr_t *expr;
    const char *text;
    const char *at; /* behind the token */
    struct expr_token token;
    bool is_in_spans; /* inside of a function over spans */
    unsigned depth;
    struct err *err;
};

/* The condition is of traces, whose spans can be asked. */
bool expr_parser_is_of_traces(const struct expr_parser *self);
/* Whose names stand here. */
const struct listing *expr_parser_listing(const struct expr_parser *self);

/* Writes the reason with the place; -1. The second: "expected X, not" and the token. */
int expr_parser_fail(const struct expr_parser *self, const char *at, const char *reason);
int expr_parser_expected(const struct expr_parser *self, const char *expected);

/* To the next token. 0 or -1, as all that follows. */
int expr_parser_advance(struct expr_parser *self) MUST_USE;
bool expr_parser_is_word(const struct expr_parser *self, const char *word);
/* Steps over a token of that type; `what` is for the error. */
int expr_parser_expect(struct expr_parser *self, enum expr_token_type type,
                       const char *what) MUST_USE;
int expr_parser_add_node(struct expr_parser *self, enum expr_kind kind, size_t *out) MUST_USE;
int expr_parser_add_value(struct expr_parser *self, struct list_value value, size_t *out) MUST_USE;

/* expr_compare.c: the operator and what stands on its right, for a node whose left side is there.
 */
int expr_compare(struct expr_parser *self, struct expr_node *node) MUST_USE;

#endif
