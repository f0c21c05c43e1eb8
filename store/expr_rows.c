// SPDX-License-Identifier: MIT
/*
 * In memory. What is asked of the row itself is answered when the row comes and kept; what is asked
 * of its spans is gathered span by span. So no span is kept, however many a trace has.
 */
#include <string.h>

#include "proto/json_read.h"
#include "store/expr_tree.h"

static const struct list_value missing = {.type = LIST_NULL};

/* -1, 0 or 1. Both are numbers. Whole ones are compared exactly. */
static int compare_numbers(const struct list_value *one, const struct list_value *other)
{
    if (one->type == LIST_INT && other->type == LIST_INT)
        return (one->integer > other->integer) - (one->integer < other->integer);
    double a = one->type == LIST_INT ? (double)one->integer : one->real;
    double b = other->type == LIST_INT ? (double)other->integer : other->real;
    return (a > b) - (a < b);
}

static bool is_number(const struct list_value *value)
{
    return value->type == LIST_INT || value->type == LIST_REAL;
}

static bool equals(const struct list_value *value, const struct list_value *other)
{
    if (is_number(value) && is_number(other))
        return compare_numbers(value, other) == 0;
    return !is_number(value) && !is_number(other) && value->bytes.len == other->bytes.len &&
           memcmp(value->bytes.data, other->bytes.data, value->bytes.len) == 0;
}

static bool is_among(const struct list_value *value, const struct list_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (equals(value, &values[i]))
            return true;
    return false;
}

static bool starts_with(struct slice text, struct slice part)
{
    return text.len >= part.len && memcmp(text.data, part.data, part.len) == 0;
}

/* Two empty texts may have no bytes to point to. */
static bool contains(struct slice text, struct slice part)
{
    return part.len == 0 || (text.len > 0 && memmem(text.data, text.len, part.data, part.len));
}

static bool compare(const expr_t *self, const struct expr_node *node,
                    const struct list_value *value)
{
    const struct list_value *with = &self->values[node->value];
    if (value->type == LIST_NULL)
        return false;
    switch (node->op) {
    case EXPR_EQ:
    case EXPR_IN:
        return is_among(value, with, node->value_count);
    case EXPR_NE:
        return !equals(value, with);
    case EXPR_LT:
        return compare_numbers(value, with) < 0;
    case EXPR_LE:
        return compare_numbers(value, with) <= 0;
    case EXPR_GT:
        return compare_numbers(value, with) > 0;
    case EXPR_GE:
        return compare_numbers(value, with) >= 0;
    case EXPR_CONTAINS:
        return contains(value->bytes, with->bytes);
    case EXPR_STARTS:
        return starts_with(value->bytes, with->bytes);
    case EXPR_OP_COUNT:
        break;
    }
    return false;
}

static struct list_value value_of_name(const struct expr_name *name, const struct list_value *row)
{
    const struct list_value *first = &row[name->columns[0]];
    if (name->column_count == 1)
        return *first;
    const struct list_value *second = &row[name->columns[1]];
    if (!name->is_duration)
        return first->type != LIST_NULL ? *first : *second;
    if (first->type == LIST_NULL || second->type == LIST_NULL)
        return missing;
    return (struct list_value){.type = LIST_INT, .integer = second->integer - first->integer};
}

/* A map's member; null for none, and for null. */
static const struct value *member_of(const struct value *map, struct slice key)
{
    const struct value *found = NULL;
    if (!map || map->type != VALUE_MAP)
        return NULL;
    for (const struct value *member = map->first; member; member = member->next)
        if (member->key.len == key.len && memcmp(member->key.data, key.data, key.len) == 0)
            found = member;
    return found && found->type != VALUE_NULL ? found : NULL;
}

/* In the arena, which holds what the result points to; null for none. */
static const struct value *find_attr(struct arena *arena, struct slice attrs, struct slice key)
{
    struct value *tree = arena_zalloc(arena, sizeof *tree);
    if (!tree || json_read(arena, attrs, tree, NULL) != BATCH_OK)
        return NULL;
    const struct value *own = member_of(member_of(tree, slice_of("attributes")), key);
    return own ? own : member_of(member_of(tree, slice_of("resource")), key);
}

/* As a value of that type; missing where it is of another one. */
static struct list_value convert(const struct value *value, enum expr_type type)
{
    if (type == EXPR_TEXT && value->type == VALUE_TEXT)
        return (struct list_value){.type = LIST_TEXT, .bytes = value->text};
    if (type == EXPR_BOOL && value->type == VALUE_BOOL)
        return (struct list_value){.type = LIST_INT, .integer = value->boolean};
    if (type == EXPR_NUMBER && value->type == VALUE_INT)
        return (struct list_value){.type = LIST_INT, .integer = value->integer};
    if (type == EXPR_NUMBER && value->type == VALUE_DOUBLE)
        return (struct list_value){.type = LIST_REAL, .real = value->number};
    return missing;
}

/* The attrs of a row, read when they are asked for. */
struct attrs {
    struct arena arena;
    const struct value *found;
};

static void attrs_init(struct attrs *attrs, const expr_t *self, const struct expr_node *node,
                       const struct list_value *row)
{
    const struct listing *listing = node->is_of_span || node->operand > EXPR_OF_ATTR
                                        ? listing_row(LISTING_SPANS)
                                        : self->listing;
    int column = expr_attrs_column(listing);
    struct slice text = row[column].bytes;
    arena_init(&attrs->arena, json_tree_max(text.len) + sizeof(struct value) + 64);
    attrs->found = row[column].type == LIST_NULL
                       ? NULL
                       : find_attr(&attrs->arena, text, self->values[node->attr_key].bytes);
}

static void attrs_fini(struct attrs *attrs)
{
    arena_fini(&attrs->arena);
}

/* Does a row answer to a comparison or has() of a name or attribute? */
static bool answers(const expr_t *self, const struct expr_node *node, const struct list_value *row)
{
    if (!node->is_attr) {
        struct list_value value = value_of_name(&node->name, row);
        return node->kind == EXPR_HAS ? value.type != LIST_NULL : compare(self, node, &value);
    }
    struct attrs attrs;
    attrs_init(&attrs, self, node, row);
    bool does = attrs.found != NULL;
    if (does && node->kind != EXPR_HAS) {
        struct list_value value = convert(attrs.found, node->type);
        does = compare(self, node, &value);
    }
    attrs_fini(&attrs);
    return does;
}

/* Does the span fit a condition on spans? */
static bool fits(const expr_t *self, size_t index, const struct list_value *span)
{
    const struct expr_node *node = &self->nodes[index];
    if (node->kind == EXPR_NOT)
        return !fits(self, node->child, span);
    if (node->kind != EXPR_AND && node->kind != EXPR_OR)
        return answers(self, node, span);
    bool is_or = node->kind == EXPR_OR;
    for (size_t child = node->child; child != EXPR_NONE; child = self->nodes[child].sibling)
        if (fits(self, child, span) == is_or)
            return is_or;
    return !is_or;
}

static bool is_of_row(const struct expr_node *node)
{
    bool is_asked = node->kind == EXPR_HAS || node->kind == EXPR_COMPARE;
    return is_asked && !node->is_of_span && node->operand <= EXPR_OF_ATTR;
}

void expr_begin(const expr_t *self, struct expr_state *state, const struct list_value *row)
{
    for (size_t i = 0; i < self->node_count; i++) {
        memset(&state->nodes[i], 0, sizeof state->nodes[i]);
        if (is_of_row(&self->nodes[i]))
            state->nodes[i].is_true = answers(self, &self->nodes[i], row);
    }
}

static void add_value(struct expr_state *state, size_t index, const struct list_value *value)
{
    if (!is_number(value))
        return;
    struct list_value *least = &state->nodes[index].least;
    struct list_value *most = &state->nodes[index].most;
    state->nodes[index].sum += value->type == LIST_INT ? (double)value->integer : value->real;
    if (least->type == LIST_NULL || compare_numbers(value, least) < 0)
        *least = *value;
    if (most->type == LIST_NULL || compare_numbers(value, most) > 0)
        *most = *value;
}

static void add_span(const expr_t *self, size_t index, struct expr_state *state,
                     const struct list_value *span)
{
    const struct expr_node *node = &self->nodes[index];
    if (node->child != EXPR_NONE && !fits(self, node->child, span))
        return;
    state->nodes[index].count++;
    if (node->operand == EXPR_OF_COUNT)
        return;
    if (!node->is_attr) {
        struct list_value value = value_of_name(&node->name, span);
        add_value(state, index, &value);
        return;
    }
    struct attrs attrs;
    attrs_init(&attrs, self, node, span);
    if (attrs.found) {
        struct list_value value = convert(attrs.found, EXPR_NUMBER);
        add_value(state, index, &value);
    }
    attrs_fini(&attrs);
}

void expr_add_span(const expr_t *self, struct expr_state *state, const struct list_value *span)
{
    for (size_t i = 0; i < self->node_count; i++) {
        const struct expr_node *node = &self->nodes[i];
        if (node->kind == EXPR_SOME)
            state->nodes[i].is_true |= fits(self, node->child, span);
        else if (node->kind == EXPR_EVERY)
            state->nodes[i].is_true |= !fits(self, node->child, span);
        else if (node->kind == EXPR_COMPARE && node->operand > EXPR_OF_ATTR)
            add_span(self, i, state, span);
    }
}

static struct list_value aggregate_of(const struct expr_node *node, const struct expr_state *state,
                                      size_t index)
{
    switch (node->operand) {
    case EXPR_OF_COUNT:
        return (struct list_value){.type = LIST_INT, .integer = state->nodes[index].count};
    case EXPR_OF_SUM:
        return (struct list_value){.type = LIST_REAL, .real = state->nodes[index].sum};
    case EXPR_OF_MIN:
        return state->nodes[index].least;
    case EXPR_OF_MAX:
        return state->nodes[index].most;
    default:
        return missing;
    }
}

static bool holds(const expr_t *self, const struct expr_state *state, size_t index)
{
    const struct expr_node *node = &self->nodes[index];
    bool is_or = node->kind == EXPR_OR;
    switch (node->kind) {
    case EXPR_AND:
    case EXPR_OR:
        for (size_t child = node->child; child != EXPR_NONE; child = self->nodes[child].sibling)
            if (holds(self, state, child) == is_or)
                return is_or;
        return !is_or;
    case EXPR_NOT:
        return !holds(self, state, node->child);
    case EXPR_EVERY:
        return !state->nodes[index].is_true;
    case EXPR_HAS:
    case EXPR_SOME:
        return state->nodes[index].is_true;
    case EXPR_COMPARE:
        break;
    }
    if (node->operand <= EXPR_OF_ATTR)
        return state->nodes[index].is_true;
    struct list_value value = aggregate_of(node, state, index);
    return compare(self, node, &value);
}

bool expr_holds(const expr_t *self, const struct expr_state *state)
{
    return holds(self, state, self->root);
}
