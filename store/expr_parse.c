// SPDX-License-Identifier: MIT
/*
 * Recursive descent with one token of look-ahead; the depth is counted, so that the stack is
 * bounded by EXPR_DEPTH_MAX. Chains of `and` and `or` are lists, not trees: they cost no depth,
 * here or in a database's parser.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "store/expr_parser.h"

#define NAME_SHOWN 24 /* bytes of a name that an error shows */
#define REASON_MAX 200

static int fail_unknown(const struct expr_parser *self)
{
    char reason[REASON_MAX];
    char names[REASON_MAX - 60];
    struct slice source = self->token.source;
    expr_name_list(expr_parser_listing(self), names, sizeof names);
    snprintf(reason, sizeof reason, "%s have no name %.*s, but %s", expr_parser_listing(self)->name,
             source.len < NAME_SHOWN ? (int)source.len : NAME_SHOWN, source.data, names);
    return expr_parser_fail(self, source.data, reason);
}

/* Bytes that mean something in the paths of a database. */
static bool is_key(struct slice key)
{
    for (size_t i = 0; i < key.len; i++)
        if ((unsigned char)key.data[i] < ' ' || key.data[i] == '"' || key.data[i] == '\\')
            return false;
    return key.len > 0;
}

/* attr("key"), its word was read. */
static int parse_attr(struct expr_parser *self, struct expr_node *node)
{
    if (expr_parser_expect(self, TOKEN_OPEN, "(") == -1)
        return -1;
    if (self->token.type != TOKEN_TEXT || !is_key(self->token.value.bytes))
        return expr_parser_expected(self, "an attribute's key in double quotes");
    if (expr_parser_add_value(self, self->token.value, &node->attr_key) == -1 ||
        expr_parser_advance(self) == -1)
        return -1;
    node->is_attr = true;
    return expr_parser_expect(self, TOKEN_CLOSE, ")");
}

/* A name or attr("key") as the node's operand. *is_of_span: a trace has it only in its spans. */
static int parse_operand(struct expr_parser *self, struct expr_node *node, bool *is_of_span)
{
    *is_of_span = false;
    if (self->token.type != TOKEN_NAME)
        return expr_parser_expected(self, "a name");
    struct slice name = self->token.source;
    const struct listing *listing = expr_parser_listing(self);
    if (slice_equals(name, "attr")) {
        *is_of_span = expr_parser_is_of_traces(self) && !self->is_in_spans;
        if (!*is_of_span && expr_attrs_column(listing) == -1)
            return expr_parser_fail(self, name.data, "these rows have no attributes");
        node->operand = EXPR_OF_ATTR;
        node->type = EXPR_ANY;
        return expr_parser_advance(self) == -1 ? -1 : parse_attr(self, node);
    }
    if (expr_name_find(listing, name, &node->name) == -1) {
        *is_of_span = expr_parser_is_of_traces(self) && !self->is_in_spans;
        if (!*is_of_span || expr_name_find(listing_row(LISTING_SPANS), name, &node->name) == -1)
            return fail_unknown(self);
    }
    node->operand = EXPR_OF_NAME;
    node->type = node->name.type;
    return expr_parser_advance(self);
}

static int parse_or(struct expr_parser *self, size_t *out);

/* Puts a node of spans into the question whether some span of the trace fits. */
static int wrap_in_some(struct expr_parser *self, size_t *node)
{
    size_t some = EXPR_NONE;
    self->expr->nodes[*node].is_of_span = true;
    if (expr_parser_add_node(self, EXPR_SOME, &some) == -1)
        return -1;
    self->expr->nodes[some].child = *node;
    *node = some;
    return 0;
}

/* A condition on spans, inside of a function's parentheses. */
static int parse_spans(struct expr_parser *self, size_t *out)
{
    self->is_in_spans = true;
    int rc = parse_or(self, out);
    self->is_in_spans = false;
    return rc;
}

/* any(condition), all(condition) */
static int parse_quantifier(struct expr_parser *self, enum expr_kind kind, size_t *out)
{
    size_t child = EXPR_NONE;
    if (expr_parser_add_node(self, kind, out) == -1 ||
        expr_parser_expect(self, TOKEN_OPEN, "(") == -1 || parse_spans(self, &child) == -1)
        return -1;
    self->expr->nodes[*out].child = child;
    return expr_parser_expect(self, TOKEN_CLOSE, "and, or, or )");
}

/* What sum, min and max are of: a number or duration of spans. */
static int parse_measured(struct expr_parser *self, struct expr_node *node,
                          enum expr_operand operand)
{
    bool is_of_span;
    const struct expr_token before = self->token;
    self->is_in_spans = true;
    int rc = parse_operand(self, node, &is_of_span);
    self->is_in_spans = false;
    if (rc == -1)
        return -1;
    if (node->operand == EXPR_OF_ATTR)
        node->type = EXPR_NUMBER;
    node->operand = operand;
    if (node->type == EXPR_NUMBER || node->type == EXPR_DURATION)
        return 0;
    return expr_parser_fail(self, before.source.data,
                            "only numbers and durations have a sum, min or max");
}

/* count(), count(condition), sum(name), sum(name, condition), ..., compared with a number */
static int parse_aggregate(struct expr_parser *self, enum expr_operand operand, size_t *out)
{
    if (expr_parser_add_node(self, EXPR_COMPARE, out) == -1 ||
        expr_parser_expect(self, TOKEN_OPEN, "(") == -1)
        return -1;
    struct expr_node *node = &self->expr->nodes[*out];
    bool has_condition = self->token.type != TOKEN_CLOSE;
    node->operand = operand;
    node->type = EXPR_NUMBER;
    if (operand != EXPR_OF_COUNT) {
        if (parse_measured(self, node, operand) == -1)
            return -1;
        has_condition = self->token.type == TOKEN_COMMA;
        if (has_condition && expr_parser_advance(self) == -1)
            return -1;
    }
    if (has_condition && parse_spans(self, &node->child) == -1)
        return -1;
    if (expr_parser_expect(self, TOKEN_CLOSE, has_condition ? "and, or, or )" : ", or )") == -1)
        return -1;
    return expr_compare(self, node);
}

static int parse_has(struct expr_parser *self, size_t *out)
{
    bool is_of_span;
    if (expr_parser_add_node(self, EXPR_HAS, out) == -1 ||
        expr_parser_expect(self, TOKEN_OPEN, "(") == -1 ||
        parse_operand(self, &self->expr->nodes[*out], &is_of_span) == -1 ||
        expr_parser_expect(self, TOKEN_CLOSE, ")") == -1)
        return -1;
    return is_of_span ? wrap_in_some(self, out) : 0;
}

static const struct {
    const char *name;
    enum expr_kind kind;
    enum expr_operand operand;
} functions[] = {
    {"has", EXPR_HAS, EXPR_OF_NAME},    {"any", EXPR_SOME, EXPR_OF_NAME},
    {"all", EXPR_EVERY, EXPR_OF_NAME},  {"count", EXPR_COMPARE, EXPR_OF_COUNT},
    {"sum", EXPR_COMPARE, EXPR_OF_SUM}, {"min", EXPR_COMPARE, EXPR_OF_MIN},
    {"max", EXPR_COMPARE, EXPR_OF_MAX},
};

/* A function, whose word was read; index is its row. */
static int parse_function(struct expr_parser *self, size_t index, size_t *out)
{
    if (functions[index].kind == EXPR_HAS)
        return parse_has(self, out);
    if (functions[index].kind == EXPR_COMPARE)
        return parse_aggregate(self, functions[index].operand, out);
    return parse_quantifier(self, functions[index].kind, out);
}

/* The row of the function that stands here, or -1. A name is one only before a parenthesis. */
static int find_function(const struct expr_parser *self)
{
    if (self->token.type != TOKEN_NAME || self->at[strspn(self->at, " \t\r\n")] != '(')
        return -1;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (slice_equals(self->token.source, functions[i].name))
            return (int)i;
    return -1;
}

static int parse_primary(struct expr_parser *self, size_t *out)
{
    bool is_of_span;
    int function = find_function(self);
    if (function != -1) {
        bool is_over_spans = functions[function].kind != EXPR_HAS;
        if (is_over_spans && (!expr_parser_is_of_traces(self) || self->is_in_spans))
            return expr_parser_fail(self, self->token.source.data,
                                    self->is_in_spans ? "there are no functions inside of functions"
                                                      : "only traces have spans to ask");
        return expr_parser_advance(self) == -1 ? -1 : parse_function(self, (size_t)function, out);
    }
    if (self->token.type == TOKEN_OPEN) {
        if (expr_parser_advance(self) == -1 || parse_or(self, out) == -1)
            return -1;
        return expr_parser_expect(self, TOKEN_CLOSE, "and, or, or )");
    }
    if (self->token.type != TOKEN_NAME)
        return expr_parser_expected(self, "a name, not or (");
    if (expr_parser_add_node(self, EXPR_COMPARE, out) == -1 ||
        parse_operand(self, &self->expr->nodes[*out], &is_of_span) == -1 ||
        expr_compare(self, &self->expr->nodes[*out]) == -1)
        return -1;
    return is_of_span ? wrap_in_some(self, out) : 0;
}

static int parse_not(struct expr_parser *self, size_t *out)
{
    size_t child = EXPR_NONE;
    if (self->depth == EXPR_DEPTH_MAX)
        return expr_parser_fail(self, self->token.source.data,
                                "the condition is nested too deeply");
    self->depth++;
    int rc = -1;
    if (!expr_parser_is_word(self, "not")) {
        rc = parse_primary(self, out);
    } else if (expr_parser_advance(self) == 0 && expr_parser_add_node(self, EXPR_NOT, out) == 0 &&
               parse_not(self, &child) == 0) {
        self->expr->nodes[*out].child = child;
        rc = 0;
    }
    self->depth--;
    return rc;
}

typedef int parse_fn(struct expr_parser *self, size_t *out);

/* Parts joined by a word; one part alone is itself. */
static int parse_chain(struct expr_parser *self, const char *word, enum expr_kind kind,
                       parse_fn *part, size_t *out)
{
    size_t first = EXPR_NONE;
    if (part(self, &first) == -1)
        return -1;
    *out = first;
    if (!expr_parser_is_word(self, word))
        return 0;
    if (expr_parser_add_node(self, kind, out) == -1)
        return -1;
    self->expr->nodes[*out].child = first;
    for (size_t last = first, next = EXPR_NONE; expr_parser_is_word(self, word); last = next) {
        if (expr_parser_advance(self) == -1 || part(self, &next) == -1)
            return -1;
        self->expr->nodes[last].sibling = next;
    }
    return 0;
}

static int parse_and(struct expr_parser *self, size_t *out)
{
    return parse_chain(self, "and", EXPR_AND, parse_not, out);
}

static int parse_or(struct expr_parser *self, size_t *out)
{
    return parse_chain(self, "or", EXPR_OR, parse_and, out);
}

static int parse_all(struct expr_parser *self)
{
    if (!utf8_is_clean(slice_of(self->text)))
        return err_set(self->err, "the condition is no UTF-8");
    if (expr_parser_advance(self) == -1 || parse_or(self, &self->expr->root) == -1)
        return -1;
    return self->token.type == TOKEN_END ? 0 : expr_parser_expected(self, "and, or, or the end");
}

expr_t *expr_parse(const char *text, const struct listing *listing, struct err *err)
{
    size_t len = strlen(text);
    if (len > EXPR_TEXT_MAX) {
        err_set(err, "the condition is longer than %d bytes", EXPR_TEXT_MAX);
        return NULL;
    }
    expr_t *self = calloc(1, sizeof *self);
    assert(self);
    self->listing = listing;
    /* Every text once as it stands, and as the id that it may be. */
    buf_init(&self->text, 2 * len + 1);
    bool has_room = buf_reserve(&self->text, 2 * len + 1) != NULL;
    assert(has_room);
    struct expr_parser parser = {
        .expr = self, .text = text, .at = text, .err = err, .is_in_spans = false};
    if (parse_all(&parser) == -1)
        expr_destroy(&self);
    return self;
}

void expr_destroy(expr_t **self_p)
{
    expr_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    buf_fini(&self->text);
    free(self);
}

size_t expr_values(const expr_t *self, const struct list_value **values)
{
    *values = self->values;
    return self->value_count;
}
