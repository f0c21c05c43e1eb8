// SPDX-License-Identifier: MIT
/*
 * Types are settled here: a value is stored as what it is compared with (an id as its bytes, a
 * span's kind as its number), so that SQL and memory have nothing to convert.
 */
#include "proto/codec.h"
#include "store/backend.h"
#include "store/expr_parser.h"

#define REASON_MAX 200

/* Texts to what a store keeps in their place: ids and names of kinds. */
typedef int convert_fn(struct expr_parser *self, struct slice text, struct list_value *value);

static int take_id(struct expr_parser *self, struct slice text, size_t len,
                   struct list_value *value)
{
    uint8_t *bytes = (uint8_t *)buf_reserve(&self->expr->text, len);
    if (!bytes || codec_hex_decode(text, bytes, len) == -1)
        return -1;
    self->expr->text.len += len;
    *value = (struct list_value){.type = LIST_BYTES, .bytes = {(const char *)bytes, len}};
    return 0;
}

static int take_trace_id(struct expr_parser *self, struct slice text, struct list_value *value)
{
    return take_id(self, text, TRACE_ID_LEN, value);
}

static int take_span_id(struct expr_parser *self, struct slice text, struct list_value *value)
{
    return take_id(self, text, SPAN_ID_LEN, value);
}

static int take_kind(struct expr_parser *self, struct slice text, struct list_value *value)
{
    (void)self;
    for (enum span_kind kind = 0; kind < SPAN_KIND_COUNT; kind++)
        if (slice_equals(text, span_kind_name(kind))) {
            *value = (struct list_value){.type = LIST_INT, .integer = kind};
            return 0;
        }
    return -1;
}

static int take_status(struct expr_parser *self, struct slice text, struct list_value *value)
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
static enum expr_type type_of_token(const struct expr_parser *self)
{
    if (self->token.type == TOKEN_TEXT)
        return EXPR_TEXT;
    if (self->token.type == TOKEN_NUMBER)
        return EXPR_NUMBER;
    return expr_parser_is_word(self, "true") || expr_parser_is_word(self, "false") ? EXPR_BOOL
                                                                                   : EXPR_ANY;
}

static int parse_value(struct expr_parser *self, struct expr_node *node)
{
    if (node->type == EXPR_ANY)
        node->type = type_of_token(self);
    const struct expr_type_row *row = expr_type_row(node->type);
    struct list_value value = self->token.value;
    bool fits = self->token.type == takes[node->type].token;
    if (node->type == EXPR_BOOL) {
        fits = expr_parser_is_word(self, "true") || expr_parser_is_word(self, "false");
        value = (struct list_value){.type = LIST_INT, .integer = expr_parser_is_word(self, "true")};
    }
    convert_fn *convert = takes[node->type].convert;
    if (!fits || (convert && convert(self, value.bytes, &value) == -1))
        return expr_parser_expected(self, row->value);
    size_t index = 0;
    if (expr_parser_add_value(self, value, &index) == -1)
        return -1;
    if (node->value_count++ == 0)
        node->value = index;
    return expr_parser_advance(self);
}

/* Behind `in`. */
static int parse_values(struct expr_parser *self, struct expr_node *node)
{
    if (expr_parser_expect(self, TOKEN_OPEN, "( and values") == -1 || parse_value(self, node) == -1)
        return -1;
    while (self->token.type == TOKEN_COMMA)
        if (expr_parser_advance(self) == -1 || parse_value(self, node) == -1)
            return -1;
    return expr_parser_expect(self, TOKEN_CLOSE, ", or )");
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
int expr_compare(struct expr_parser *self, struct expr_node *node)
{
    char expected[REASON_MAX / 2] = "";
    unsigned ops = expr_type_row(node->type)->ops;
    const char *op_at = self->token.source.data;
    write_ops(ops, expected, sizeof expected);
    if (self->token.type != TOKEN_OP || !(ops & 1u << self->token.op))
        return expr_parser_expected(self, expected);
    node->op = self->token.op;
    if (expr_parser_advance(self) == -1)
        return -1;
    if ((node->op == EXPR_IN ? parse_values(self, node) : parse_value(self, node)) == -1)
        return -1;
    /* Only now it is known what an attribute is compared with. */
    if (expr_type_row(node->type)->ops & 1u << node->op)
        return 0;
    char reason[REASON_MAX];
    snprintf(reason, sizeof reason, "%s is not for a %s", expr_op_name(node->op),
             expr_type_row(node->type)->name);
    return expr_parser_fail(self, op_at, reason);
}
