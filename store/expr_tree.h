// SPDX-License-Identifier: MIT
/* expr_tree: what a parsed expression is made of; for the files that are expr only. */
#ifndef MCPD_STORE_EXPR_TREE_H
#define MCPD_STORE_EXPR_TREE_H

#include "store/expr.h"

/* What a name's values are, and so what they can be compared with. */
enum expr_type {
    EXPR_TEXT,
    EXPR_NUMBER,
    EXPR_DURATION, /* nanoseconds */
    EXPR_TRACE_ID,
    EXPR_SPAN_ID,
    EXPR_SPAN_KIND,
    EXPR_SPAN_STATUS,
    EXPR_BOOL, /* of attributes only */
    EXPR_ANY,  /* an attribute before it is known what it is compared with */
    EXPR_TYPE_COUNT
};

enum expr_op {
    EXPR_EQ,
    EXPR_NE,
    EXPR_LT,
    EXPR_LE,
    EXPR_GT,
    EXPR_GE,
    EXPR_IN,
    EXPR_CONTAINS,
    EXPR_STARTS,
    EXPR_OP_COUNT
};

struct expr_type_row {
    const char *name;  /* as documents and errors call a value of it */
    unsigned ops;      /* bits of enum expr_op */
    const char *value; /* what it is compared with */
};
const struct expr_type_row *expr_type_row(enum expr_type type);
const char *expr_op_name(enum expr_op op);

/* The listing's columns of that name: the value is the first that is not null. */
#define EXPR_COLUMNS_MAX 2
struct expr_name {
    enum expr_type type;
    bool is_duration; /* from the column start_ns to end_ns; columns are these two */
    size_t column_count;
    size_t columns[EXPR_COLUMNS_MAX];
};
/* -1 where the listing has no such name. */
int expr_name_find(const struct listing *listing, struct slice name, struct expr_name *found);
/* Where the listing has attributes; -1 where it has none. */
int expr_attrs_column(const struct listing *listing);
/* Writes "a, b, c", as far as there is room, and dots where there is not. */
void expr_name_list(const struct listing *listing, char *out, size_t size);

/* What is compared. */
enum expr_operand {
    EXPR_OF_NAME,
    EXPR_OF_ATTR,
    EXPR_OF_COUNT,
    EXPR_OF_SUM,
    EXPR_OF_MIN,
    EXPR_OF_MAX,
};

enum expr_kind {
    EXPR_AND,     /* of its children, two or more */
    EXPR_OR,      /* likewise */
    EXPR_NOT,     /* of its child */
    EXPR_HAS,     /* the operand, a name or attribute, is there */
    EXPR_COMPARE, /* the operand with values */
    EXPR_SOME,    /* the child holds for a span of the trace */
    EXPR_EVERY,   /* ... for all of them */
};

#define EXPR_NONE SIZE_MAX

struct expr_node {
    enum expr_kind kind;
    bool is_of_span; /* asked of spans, while the expression is of traces */
    size_t child;    /* the first; with COUNT, SUM, MIN and MAX: which spans count; or EXPR_NONE */
    size_t sibling;  /* the next child of the same parent, or EXPR_NONE */

    enum expr_operand operand;
    bool is_attr; /* SUM, MIN, MAX: of an attribute */
    enum expr_type type;
    struct expr_name name;
    size_t attr_key; /* among the values */

    enum expr_op op;
    size_t value; /* the first */
    size_t value_count;
};

struct expr {
    const struct listing *listing;
    size_t root;
    size_t node_count;
    size_t value_count;
    struct expr_node nodes[EXPR_NODES_MAX];
    struct list_value values[EXPR_VALUES_MAX]; /* texts lie in `text` */
    struct buf text;                           /* reserved once, so that it never moves */
};

#endif
