// SPDX-License-Identifier: MIT
/*
 * Recursive descent with one token of look-ahead; the depth is counted, so that the stack is
 * bounded by EXPR_DEPTH_MAX. Chains of `and` and `or` are lists, not trees: they cost no depth,
 * here or in a database's parser.
 *
 * Types are settled here: a value is stored as what it is compared with (an id as its bytes, a
 * span's kind as its number), so that SQL and memory have nothing to convert.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "proto/codec.h"
#include "store/backend.h"
#include "store/expr_lex.h"
#include "store/expr_tree.h"

#define PLACE_MAX  24 /* bytes of the text that an error shows */
#define REASON_MAX 200

struct parser {
    expr_t *expr;
    const char *text;
    const char *at; /* behind the token */
    struct expr_token token;
    bool is_in_spans; /* inside of a function over spans */
    unsigned depth;
    struct err *err;
};

static bool is_of_traces(const struct parser *self)
{
    return self->expr->listing == listing_row(LISTING_TRACES);
}

static const struct listing *current_listing(const struct parser *self)
{
    return self->is_in_spans ? listing_row(LISTING_SPANS) : self->expr->listing;
}

/* Characters up to a place, counted from 1. */
static size_t place_of(const struct parser *self, const char *at)
{
    size_t place = 1;
    for (const char *c = self->text; c < at; c++)
        place += ((unsigned char)*c & 0xc0) != 0x80;
    return place;
}

static int fail_at(const struct parser *self, const char *at, const char *reason)
{
    return err_set(self->err, "at character %zu: %s", place_of(self, at), reason);
}

/* "expected X, not Y" */
static int fail_expected(const struct parser *self, const char *expected)
{
    char reason[REASON_MAX];
    struct slice source = self->token.source;
    size_t shown = source.len < PLACE_MAX ? source.len : PLACE_MAX;
    while (shown < source.len && shown > 0 && ((unsigned char)source.data[shown] & 0xc0) == 0x80)
        shown--;
    if (self->token.type == TOKEN_END)
        snprintf(reason, sizeof reason, "expected %s, not the end", expected);
    else
        snprintf(reason, sizeof reason, "expected %s, not %.*s%s", expected, (int)shown,
                 source.data, shown < source.len ? "..." : "");
    return fail_at(self, source.data, reason);
}

static int advance(struct parser *self)
{
    struct err reason;
    if (expr_lex(&self->at, &self->expr->text, &self->token, &reason) == 0)
        return 0;
    return fail_at(self, self->token.source.data, reason.text);
}

static bool is_word(const struct parser *self, const char *word)
{
    return self->token.type == TOKEN_NAME && slice_equals(self->token.source, word);
}

static int expect(struct parser *self, enum expr_token_type type, const char *what)
{
    if (self->token.type != type)
        return fail_expected(self, what);
    return advance(self);
}

static int add_node(struct parser *self, enum expr_kind kind, size_t *out)
{
    expr_t *expr = self->expr;
    if (expr->node_count == EXPR_NODES_MAX)
        return fail_at(self, self->token.source.data, "the condition has too many parts");
    *out = expr->node_count++;
    expr->nodes[*out] = (struct expr_node){.kind = kind,
                                           .is_of_span = self->is_in_spans && is_of_traces(self),
                                           .child = EXPR_NONE,
                                           .sibling = EXPR_NONE};
    return 0;
}

static int add_value(struct parser *self, struct list_value value, size_t *out)
{
    expr_t *expr = self->expr;
    if (expr->value_count == EXPR_VALUES_MAX)
        return fail_at(self, self->token.source.data, "the condition has too many values");
    *out = expr->value_count++;
    expr->values[*out] = value;
    return 0;
}

/* Texts to what a store keeps in their place: ids and names of kinds. */
typedef int convert_fn(struct parser *self, struct slice text, struct list_value *value);

static int take_id(struct parser *self, struct slice text, size_t len, struct list_value *value)
{
    uint8_t *bytes = (uint8_t *)buf_reserve(&self->expr->text, len);
    if (!bytes || codec_hex_decode(text, bytes, len) == -1)
        return -1;
    self->expr->text.len += len;
    *value = (struct list_value){.type = LIST_BYTES, .bytes = {(const char *)bytes, len}};
    return 0;
}

static int take_trace_id(struct parser *self, struct slice text, struct list_value *value)
{
    return take_id(self, text, TRACE_ID_LEN, value);
}

static int take_span_id(struct parser *self, struct slice text, struct list_value *value)
{
    return take_id(self, text, SPAN_ID_LEN, value);
}

static int take_kind(struct parser *self, struct slice text, struct list_value *value)
{
    (void)self;
    for (enum span_kind kind = 0; kind < SPAN_KIND_COUNT; kind++)
        if (slice_equals(text, span_kind_name(kind))) {
            *value = (struct list_value){.type = LIST_INT, .integer = kind};
            return 0;
        }
    return -1;
}

static int take_status(struct parser *self, struct slice text, struct list_value *value)
{
    (void)self;
    for (enum span_status status = 0; status < SPAN_STATUS_COUNT; status++)
        if (slice_equals(text, span_status_name(status))) {
            *value = (struct list_value){.type = LIST_INT, .integer = status};
            return 0;
        }
    return -1;
}

static const struct {
    enum expr_token_type token;
    convert_fn *convert;
} takes[EXPR_TYPE_COUNT] = {
    [EXPR_TEXT] = {TOKEN_TEXT, NULL},
    [EXPR_NUMBER] = {TOKEN_NUMBER, NULL},
    [EXPR_DURATION] = {TOKEN_DURATION, NULL},
    [EXPR_TRACE_ID] = {TOKEN_TEXT, take_trace_id},
    [EXPR_SPAN_ID] = {TOKEN_TEXT, take_span_id},
    [EXPR_SPAN_KIND] = {TOKEN_TEXT, take_kind},
    [EXPR_SPAN_STATUS] = {TOKEN_TEXT, take_status},
    [EXPR_BOOL] = {TOKEN_NAME, NULL},
    [EXPR_ANY] = {TOKEN_END, NULL},
};

/* An attribute has the type of the value it is compared with. */
static enum expr_type type_of_token(const struct parser *self)
{
    if (self->token.type == TOKEN_TEXT)
        return EXPR_TEXT;
    if (self->token.type == TOKEN_NUMBER)
        return EXPR_NUMBER;
    return is_word(self, "true") || is_word(self, "false") ? EXPR_BOOL : EXPR_ANY;
}

static int parse_value(struct parser *self, struct expr_node *node)
{
    if (node->type == EXPR_ANY)
        node->type = type_of_token(self);
    const struct expr_type_row *row = expr_type_row(node->type);
    struct list_value value = self->token.value;
    bool fits = self->token.type == takes[node->type].token;
    if (node->type == EXPR_BOOL) {
        fits = is_word(self, "true") || is_word(self, "false");
        value = (struct list_value){.type = LIST_INT, .integer = is_word(self, "true")};
    }
    convert_fn *convert = takes[node->type].convert;
    if (!fits || (convert && convert(self, value.bytes, &value) == -1))
        return fail_expected(self, row->value);
    size_t index = 0;
    if (add_value(self, value, &index) == -1)
        return -1;
    if (node->value_count++ == 0)
        node->value = index;
    return advance(self);
}

/* Behind `in`. */
static int parse_values(struct parser *self, struct expr_node *node)
{
    if (expect(self, TOKEN_OPEN, "( and values") == -1 || parse_value(self, node) == -1)
        return -1;
    while (self->token.type == TOKEN_COMMA)
        if (advance(self) == -1 || parse_value(self, node) == -1)
            return -1;
    return expect(self, TOKEN_CLOSE, ", or )");
}

static void write_ops(unsigned ops, char *out, size_t size)
{
    size_t used = 0;
    for (size_t op = 0; op < EXPR_OP_COUNT; op++)
        if (ops & 1u << op)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "",
                                     expr_op_name((enum expr_op)op));
}

/* The operator and what stands on its right. */
static int parse_comparison(struct parser *self, struct expr_node *node)
{
    char expected[REASON_MAX / 2] = "";
    unsigned ops = expr_type_row(node->type)->ops;
    const char *op_at = self->token.source.data;
    write_ops(ops, expected, sizeof expected);
    if (self->token.type != TOKEN_OP || !(ops & 1u << self->token.op))
        return fail_expected(self, expected);
    node->op = self->token.op;
    if (advance(self) == -1)
        return -1;
    if ((node->op == EXPR_IN ? parse_values(self, node) : parse_value(self, node)) == -1)
        return -1;
    /* Only now it is known what an attribute is compared with. */
    if (expr_type_row(node->type)->ops & 1u << node->op)
        return 0;
    char reason[REASON_MAX];
    snprintf(reason, sizeof reason, "%s is not for a %s", expr_op_name(node->op),
             expr_type_row(node->type)->name);
    return fail_at(self, op_at, reason);
}

static int fail_unknown(const struct parser *self)
{
    char reason[REASON_MAX];
    char names[REASON_MAX - 60];
    struct slice source = self->token.source;
    expr_name_list(current_listing(self), names, sizeof names);
    snprintf(reason, sizeof reason, "%s have no name %.*s, but %s", current_listing(self)->name,
             source.len < PLACE_MAX ? (int)source.len : PLACE_MAX, source.data, names);
    return fail_at(self, source.data, reason);
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
static int parse_attr(struct parser *self, struct expr_node *node)
{
    if (expect(self, TOKEN_OPEN, "(") == -1)
        return -1;
    if (self->token.type != TOKEN_TEXT || !is_key(self->token.value.bytes))
        return fail_expected(self, "an attribute's key in double quotes");
    if (add_value(self, self->token.value, &node->attr_key) == -1 || advance(self) == -1)
        return -1;
    node->is_attr = true;
    return expect(self, TOKEN_CLOSE, ")");
}

/* A name or attr("key") as the node's operand. *is_of_span: a trace has it only in its spans. */
static int parse_operand(struct parser *self, struct expr_node *node, bool *is_of_span)
{
    *is_of_span = false;
    if (self->token.type != TOKEN_NAME)
        return fail_expected(self, "a name");
    struct slice name = self->token.source;
    const struct listing *listing = current_listing(self);
    if (slice_equals(name, "attr")) {
        *is_of_span = is_of_traces(self) && !self->is_in_spans;
        if (!*is_of_span && expr_attrs_column(listing) == -1)
            return fail_at(self, name.data, "these rows have no attributes");
        node->operand = EXPR_OF_ATTR;
        node->type = EXPR_ANY;
        return advance(self) == -1 ? -1 : parse_attr(self, node);
    }
    if (expr_name_find(listing, name, &node->name) == -1) {
        *is_of_span = is_of_traces(self) && !self->is_in_spans;
        if (!*is_of_span || expr_name_find(listing_row(LISTING_SPANS), name, &node->name) == -1)
            return fail_unknown(self);
    }
    node->operand = EXPR_OF_NAME;
    node->type = node->name.type;
    return advance(self);
}

static int parse_or(struct parser *self, size_t *out);

/* Puts a node of spans into the question whether some span of the trace fits. */
static int wrap_in_some(struct parser *self, size_t *node)
{
    size_t some = EXPR_NONE;
    self->expr->nodes[*node].is_of_span = true;
    if (add_node(self, EXPR_SOME, &some) == -1)
        return -1;
    self->expr->nodes[some].child = *node;
    *node = some;
    return 0;
}

/* A condition on spans, inside of a function's parentheses. */
static int parse_spans(struct parser *self, size_t *out)
{
    self->is_in_spans = true;
    int rc = parse_or(self, out);
    self->is_in_spans = false;
    return rc;
}

/* any(condition), all(condition) */
static int parse_quantifier(struct parser *self, enum expr_kind kind, size_t *out)
{
    size_t child = EXPR_NONE;
    if (add_node(self, kind, out) == -1 || expect(self, TOKEN_OPEN, "(") == -1 ||
        parse_spans(self, &child) == -1)
        return -1;
    self->expr->nodes[*out].child = child;
    return expect(self, TOKEN_CLOSE, "and, or, or )");
}

/* What sum, min and max are of: a number or duration of spans. */
static int parse_measured(struct parser *self, struct expr_node *node, enum expr_operand operand)
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
    return fail_at(self, before.source.data, "only numbers and durations have a sum, min or max");
}

/* count(), count(condition), sum(name), sum(name, condition), ..., compared with a number */
static int parse_aggregate(struct parser *self, enum expr_operand operand, size_t *out)
{
    if (add_node(self, EXPR_COMPARE, out) == -1 || expect(self, TOKEN_OPEN, "(") == -1)
        return -1;
    struct expr_node *node = &self->expr->nodes[*out];
    bool has_condition = self->token.type != TOKEN_CLOSE;
    node->operand = operand;
    node->type = EXPR_NUMBER;
    if (operand != EXPR_OF_COUNT) {
        if (parse_measured(self, node, operand) == -1)
            return -1;
        has_condition = self->token.type == TOKEN_COMMA;
        if (has_condition && advance(self) == -1)
            return -1;
    }
    if (has_condition && parse_spans(self, &node->child) == -1)
        return -1;
    if (expect(self, TOKEN_CLOSE, has_condition ? "and, or, or )" : ", or )") == -1)
        return -1;
    return parse_comparison(self, node);
}

static int parse_has(struct parser *self, size_t *out)
{
    bool is_of_span;
    if (add_node(self, EXPR_HAS, out) == -1 || expect(self, TOKEN_OPEN, "(") == -1 ||
        parse_operand(self, &self->expr->nodes[*out], &is_of_span) == -1 ||
        expect(self, TOKEN_CLOSE, ")") == -1)
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
static int parse_function(struct parser *self, size_t index, size_t *out)
{
    if (functions[index].kind == EXPR_HAS)
        return parse_has(self, out);
    if (functions[index].kind == EXPR_COMPARE)
        return parse_aggregate(self, functions[index].operand, out);
    return parse_quantifier(self, functions[index].kind, out);
}

/* The row of the function that stands here, or -1. A name is one only before a parenthesis. */
static int find_function(const struct parser *self)
{
    if (self->token.type != TOKEN_NAME || self->at[strspn(self->at, " \t\r\n")] != '(')
        return -1;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (slice_equals(self->token.source, functions[i].name))
            return (int)i;
    return -1;
}

static int parse_primary(struct parser *self, size_t *out)
{
    bool is_of_span;
    int function = find_function(self);
    if (function != -1) {
        bool is_over_spans = functions[function].kind != EXPR_HAS;
        if (is_over_spans && (!is_of_traces(self) || self->is_in_spans))
            return fail_at(self, self->token.source.data,
                           self->is_in_spans ? "there are no functions inside of functions"
                                             : "only traces have spans to ask");
        return advance(self) == -1 ? -1 : parse_function(self, (size_t)function, out);
    }
    if (self->token.type == TOKEN_OPEN) {
        if (advance(self) == -1 || parse_or(self, out) == -1)
            return -1;
        return expect(self, TOKEN_CLOSE, "and, or, or )");
    }
    if (self->token.type != TOKEN_NAME)
        return fail_expected(self, "a name, not or (");
    if (add_node(self, EXPR_COMPARE, out) == -1 ||
        parse_operand(self, &self->expr->nodes[*out], &is_of_span) == -1 ||
        parse_comparison(self, &self->expr->nodes[*out]) == -1)
        return -1;
    return is_of_span ? wrap_in_some(self, out) : 0;
}

static int parse_not(struct parser *self, size_t *out)
{
    size_t child = EXPR_NONE;
    if (self->depth == EXPR_DEPTH_MAX)
        return fail_at(self, self->token.source.data, "the condition is nested too deeply");
    self->depth++;
    int rc = -1;
    if (!is_word(self, "not")) {
        rc = parse_primary(self, out);
    } else if (advance(self) == 0 && add_node(self, EXPR_NOT, out) == 0 &&
               parse_not(self, &child) == 0) {
        self->expr->nodes[*out].child = child;
        rc = 0;
    }
    self->depth--;
    return rc;
}

typedef int parse_fn(struct parser *self, size_t *out);

/* Parts joined by a word; one part alone is itself. */
static int parse_chain(struct parser *self, const char *word, enum expr_kind kind, parse_fn *part,
                       size_t *out)
{
    size_t first = EXPR_NONE;
    if (part(self, &first) == -1)
        return -1;
    *out = first;
    if (!is_word(self, word))
        return 0;
    if (add_node(self, kind, out) == -1)
        return -1;
    self->expr->nodes[*out].child = first;
    for (size_t last = first, next = EXPR_NONE; is_word(self, word); last = next) {
        if (advance(self) == -1 || part(self, &next) == -1)
            return -1;
        self->expr->nodes[last].sibling = next;
    }
    return 0;
}

static int parse_and(struct parser *self, size_t *out)
{
    return parse_chain(self, "and", EXPR_AND, parse_not, out);
}

static int parse_or(struct parser *self, size_t *out)
{
    return parse_chain(self, "or", EXPR_OR, parse_and, out);
}

static int parse_all(struct parser *self)
{
    if (!utf8_is_clean(slice_of(self->text)))
        return err_set(self->err, "the condition is no UTF-8");
    if (advance(self) == -1 || parse_or(self, &self->expr->root) == -1)
        return -1;
    return self->token.type == TOKEN_END ? 0 : fail_expected(self, "and, or, or the end");
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
    struct parser parser = {
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
