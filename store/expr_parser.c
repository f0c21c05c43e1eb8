// SPDX-License-Identifier: MIT
#include "store/expr_parser.h"

#define PLACE_MAX  24 /* bytes of the text that an error shows */
#define REASON_MAX 256

bool expr_parser_is_of_traces(const struct expr_parser *self)
{
    return self->expr->listing == listing_row(LISTING_TRACES);
}

const struct listing *expr_parser_listing(const struct expr_parser *self)
{
    return self->is_in_spans ? listing_row(LISTING_SPANS) : self->expr->listing;
}

/* Characters up to a place, counted from 1. */
static size_t place_of(const struct expr_parser *self, const char *at)
{
    size_t place = 1;
    for (const char *c = self->text; c < at; c++)
        place += ((unsigned char)*c & 0xc0) != 0x80;
    return place;
}

int expr_parser_fail(const struct expr_parser *self, const char *at, const char *reason)
{
    return err_set(self->err, "at character %zu: %s", place_of(self, at), reason);
}

/* "expected X, not Y" */
int expr_parser_expected(const struct expr_parser *self, const char *expected)
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
    return expr_parser_fail(self, source.data, reason);
}

int expr_parser_advance(struct expr_parser *self)
{
    struct err reason;
    if (expr_lex(&self->at, &self->expr->text, &self->token, &reason) == 0)
        return 0;
    return expr_parser_fail(self, self->token.source.data, reason.text);
}

bool expr_parser_is_word(const struct expr_parser *self, const char *word)
{
    return self->token.type == TOKEN_NAME && slice_equals(self->token.source, word);
}

int expr_parser_expect(struct expr_parser *self, enum expr_token_type type, const char *what)
{
    if (self->token.type != type)
        return expr_parser_expected(self, what);
    return expr_parser_advance(self);
}

int expr_parser_add_node(struct expr_parser *self, enum expr_kind kind, size_t *out)
{
    expr_t *expr = self->expr;
    if (expr->node_count == EXPR_NODES_MAX)
        return expr_parser_fail(self, self->token.source.data, "the condition has too many parts");
    *out = expr->node_count++;
    expr->nodes[*out] =
        (struct expr_node){.kind = kind,
                           .is_of_span = self->is_in_spans && expr_parser_is_of_traces(self),
                           .child = EXPR_NONE,
                           .sibling = EXPR_NONE};
    return 0;
}

int expr_parser_add_value(struct expr_parser *self, struct list_value value, size_t *out)
{
    expr_t *expr = self->expr;
    if (expr->value_count == EXPR_VALUES_MAX)
        return expr_parser_fail(self, self->token.source.data, "the condition has too many values");
    *out = expr->value_count++;
    expr->values[*out] = value;
    return 0;
}
