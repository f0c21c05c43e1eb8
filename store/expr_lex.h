// SPDX-License-Identifier: MIT
/* expr_lex: the words of an expression, one after the other; for expr_parse only. */
#ifndef MCPD_STORE_EXPR_LEX_H
#define MCPD_STORE_EXPR_LEX_H

#include "common/err.h"
#include "store/expr_tree.h"

enum expr_token_type {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_TEXT,     /* value is the text, unescaped */
    TOKEN_NUMBER,   /* value is LIST_INT or LIST_REAL */
    TOKEN_DURATION, /* likewise, nanoseconds */
    TOKEN_OP,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
};

struct expr_token {
    enum expr_token_type type;
    struct slice source; /* as it stands in the text */
    enum expr_op op;
    struct list_value value;
};

/* The token at *at, which moves behind it. Texts are unescaped into `texts`, which has room. -1
 * with the reason, the token's source then tells the place, where there is none. */
int expr_lex(const char **at, struct buf *texts, struct expr_token *token,
             struct err *err) MUST_USE;

#endif
