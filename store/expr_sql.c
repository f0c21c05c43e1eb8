// SPDX-License-Identifier: MIT
/*
 * Every comparison comes out as true or false, never as SQL's third truth, so that NOT means what
 * it means in memory. A plain column says so with IS NOT NULL beside the comparison, which leaves
 * its index usable; anything else is put into coalesce.
 *
 * Names are not qualified: the innermost table that has them is meant, a span's inside of a
 * subquery. Texts of the condition never get into the SQL, only numbers of parameters.
 */
#include <string.h>

#include "store/expr_tree.h"

/* What stands around something. */
struct around {
    const char *before, *between, *after;
};

struct dialect {
    char mark;                         /* of a parameter */
    const char *casts[LIST_BYTES + 1]; /* behind a parameter of that type */
    const char *spans_with;            /* before SELECT ... of the spans of the trace t */
    const char *spans_from;            /* behind it, up to further conditions */
    struct around contains;
    struct around starts;
    struct around sum;
};

static const struct dialect dialects[] = {
    [EXPR_SQLITE] =
        {
            .mark = '?',
            .casts = {"", "", "", "", ""},
            .spans_with = LISTING_SQLITE_DAYS,
            .spans_from = " FROM days CROSS JOIN spans s ON s.project = t.project AND s.day ="
                          " days.day AND s.trace_id = t.trace_id WHERE TRUE",
            .contains = {"instr(", ", ", ") > 0"},
            .starts = {"instr(", ", ", ") = 1"},
            .sum = {"total(", "", ")"},
        },
    [EXPR_POSTGRES] =
        {
            .mark = '$',
            .casts = {"", "::bigint", "::double precision", "::text", "::bytea"},
            .spans_with = "",
            .spans_from = " FROM spans s WHERE s.project = t.project AND s.trace_id = t.trace_id"
                          " AND s.day BETWEEN t.start_ns / 86400000000000 AND t.end_ns /"
                          " 86400000000000",
            .contains = {"strpos(", ", ", ") > 0"},
            .starts = {"starts_with(", ", ", ")"},
            .sum = {"coalesce(sum((", "", ")::double precision), 0)"},
        },
};

/* What is being written; the first failure sticks. */
struct writer {
    const expr_t *expr;
    const struct dialect *dialect;
    size_t first_parameter;
    struct buf *sql;
    int failed;
};

static void put(struct writer *self, const char *text)
{
    self->failed |= buf_add_str(self->sql, text);
}

static void put_parameter(struct writer *self, size_t value)
{
    enum list_type type = self->expr->values[value].type;
    self->failed |= buf_printf(self->sql, "%c%zu%s", self->dialect->mark,
                               self->first_parameter + value, self->dialect->casts[type]);
}

static const char *source_of(const struct listing *listing, size_t column)
{
    const struct column *row = &listing->columns[column];
    return row->source ? row->source : row->name;
}

static const struct listing *listing_of(const struct writer *self, const struct expr_node *node)
{
    return node->is_of_span ? listing_row(LISTING_SPANS) : self->expr->listing;
}

static void put_name(struct writer *self, const struct listing *listing,
                     const struct expr_name *name)
{
    const char *first = source_of(listing, name->columns[0]);
    if (name->is_duration)
        self->failed |=
            buf_printf(self->sql, "(%s - %s)", source_of(listing, name->columns[1]), first);
    else if (name->column_count > 1)
        self->failed |=
            buf_printf(self->sql, "coalesce(%s, %s)", first, source_of(listing, name->columns[1]));
    else
        self->failed |= buf_printf(self->sql, strchr(first, ' ') ? "(%s)" : "%s", first);
}

/* SQLite: a path into attrs. */
static void put_path(struct writer *self, const char *part, size_t key)
{
    self->failed |= buf_printf(self->sql, "'$.%s.\"' || ", part);
    put_parameter(self, key);
    put(self, " || '\"'");
}

/* SQLite: the JSON type of what stands in that part of attrs; 'null' where there is nothing. */
static void put_json_type(struct writer *self, const char *part, size_t key)
{
    put(self, "coalesce(json_type(attrs, ");
    put_path(self, part, key);
    put(self, "), 'null')");
}

static void put_sqlite_attr(struct writer *self, size_t key, enum expr_type type)
{
    static const char *const json_types[EXPR_TYPE_COUNT] = {
        [EXPR_TEXT] = "'text'",
        [EXPR_NUMBER] = "'integer', 'real'",
        [EXPR_BOOL] = "'true', 'false'",
    };
    self->failed |= buf_printf(self->sql,
                               "(SELECT CASE WHEN json_type(attrs, path) IN (%s)"
                               " THEN json_extract(attrs, path) END FROM (SELECT CASE WHEN ",
                               json_types[type]);
    put_json_type(self, "attributes", key);
    put(self, " <> 'null' THEN ");
    put_path(self, "attributes", key);
    put(self, " ELSE ");
    put_path(self, "resource", key);
    put(self, " END AS path))");
}

/* Postgres: the attribute as jsonb; null or JSON's null where there is none. */
static void put_jsonb(struct writer *self, size_t key)
{
    put(self, "coalesce(nullif(attrs::jsonb -> 'attributes' -> ");
    put_parameter(self, key);
    put(self, ", 'null'), attrs::jsonb -> 'resource' -> ");
    put_parameter(self, key);
    put(self, ")");
}

static void put_postgres_attr(struct writer *self, size_t key, enum expr_type type)
{
    static const struct {
        const char *json_type, *cast;
    } types[EXPR_TYPE_COUNT] = {
        [EXPR_TEXT] = {"string", ""},
        [EXPR_NUMBER] = {"number", "::numeric"},
        [EXPR_BOOL] = {"boolean", "::boolean::integer"},
    };
    put(self, "(CASE WHEN jsonb_typeof(");
    put_jsonb(self, key);
    self->failed |= buf_printf(self->sql, ") = '%s' THEN (", types[type].json_type);
    put_jsonb(self, key);
    self->failed |= buf_printf(self->sql, " #>> '{}')%s END)", types[type].cast);
}

static bool is_postgres(const struct writer *self)
{
    return self->dialect == &dialects[EXPR_POSTGRES];
}

/* A name or attribute. */
static void put_value_of(struct writer *self, const struct expr_node *node,
                         const struct listing *listing)
{
    if (!node->is_attr)
        put_name(self, listing, &node->name);
    else if (is_postgres(self))
        put_postgres_attr(self, node->attr_key, node->type);
    else
        put_sqlite_attr(self, node->attr_key, node->type);
}

static void put_node(struct writer *self, size_t index);

static void open_spans(struct writer *self)
{
    put(self, "(");
    put(self, self->dialect->spans_with);
    put(self, " SELECT ");
}

/* Which spans. `before` stands before the condition. */
static void close_spans(struct writer *self, size_t condition, const char *before)
{
    put(self, self->dialect->spans_from);
    if (condition != EXPR_NONE) {
        put(self, before);
        put_node(self, condition);
    }
    put(self, ")");
}

static void put_aggregate(struct writer *self, const struct expr_node *node)
{
    const struct around min = {"min(", "", ")"};
    const struct around max = {"max(", "", ")"};
    const struct around *around = node->operand == EXPR_OF_SUM   ? &self->dialect->sum
                                  : node->operand == EXPR_OF_MIN ? &min
                                                                 : &max;
    open_spans(self);
    if (node->operand == EXPR_OF_COUNT) {
        put(self, "count(*)");
    } else {
        put(self, around->before);
        put_value_of(self, node, listing_row(LISTING_SPANS));
        put(self, around->after);
    }
    close_spans(self, node->child, " AND ");
}

static void put_operand(struct writer *self, const struct expr_node *node)
{
    if (node->operand == EXPR_OF_NAME || node->operand == EXPR_OF_ATTR)
        put_value_of(self, node, listing_of(self, node));
    else
        put_aggregate(self, node);
}

/* The operand and what it is compared with. */
static void put_test(struct writer *self, const struct expr_node *node)
{
    static const char *const symbols[] = {" = ", " <> ", " < ", " <= ", " > ", " >= "};
    const struct around in = {"", " IN (", ")"};
    const struct around symbol = {"", node->op < EXPR_IN ? symbols[node->op] : "", ""};
    const struct around *around = node->op == EXPR_IN         ? &in
                                  : node->op == EXPR_CONTAINS ? &self->dialect->contains
                                  : node->op == EXPR_STARTS   ? &self->dialect->starts
                                                              : &symbol;
    put(self, around->before);
    put_operand(self, node);
    put(self, around->between);
    for (size_t i = 0; i < node->value_count; i++) {
        put(self, i ? ", " : "");
        put_parameter(self, node->value + i);
    }
    put(self, around->after);
}

/* Has the operand a name in the table itself? */
static bool is_plain(const struct writer *self, const struct expr_node *node)
{
    return node->operand == EXPR_OF_NAME && node->name.column_count == 1 &&
           !strchr(source_of(listing_of(self, node), node->name.columns[0]), ' ');
}

static void put_comparison(struct writer *self, const struct expr_node *node)
{
    if (is_plain(self, node)) {
        put(self, "(");
        put_operand(self, node);
        put(self, " IS NOT NULL AND ");
        put_test(self, node);
        put(self, ")");
    } else {
        put(self, "coalesce(");
        put_test(self, node);
        put(self, ", FALSE)");
    }
}

static void put_has(struct writer *self, const struct expr_node *node)
{
    if (!node->is_attr) {
        put(self, "(");
        put_operand(self, node);
        put(self, " IS NOT NULL)");
    } else if (is_postgres(self)) {
        put(self, "(coalesce(jsonb_typeof(");
        put_jsonb(self, node->attr_key);
        put(self, "), 'null') <> 'null')");
    } else {
        put(self, "(");
        put_json_type(self, "attributes", node->attr_key);
        put(self, " <> 'null' OR ");
        put_json_type(self, "resource", node->attr_key);
        put(self, " <> 'null')");
    }
}

static void put_chain(struct writer *self, const struct expr_node *node, const char *word)
{
    put(self, "(");
    for (size_t child = node->child; child != EXPR_NONE; child = self->expr->nodes[child].sibling) {
        put(self, child == node->child ? "" : word);
        put_node(self, child);
    }
    put(self, ")");
}

static void put_quantifier(struct writer *self, const struct expr_node *node)
{
    bool is_some = node->kind == EXPR_SOME;
    put(self, is_some ? "EXISTS " : "(NOT EXISTS ");
    open_spans(self);
    put(self, "1");
    close_spans(self, node->child, is_some ? " AND " : " AND NOT ");
    put(self, is_some ? "" : ")");
}

static void put_node(struct writer *self, size_t index)
{
    const struct expr_node *node = &self->expr->nodes[index];
    switch (node->kind) {
    case EXPR_AND:
        put_chain(self, node, " AND ");
        break;
    case EXPR_OR:
        put_chain(self, node, " OR ");
        break;
    case EXPR_NOT:
        put(self, "(NOT ");
        put_node(self, node->child);
        put(self, ")");
        break;
    case EXPR_HAS:
        put_has(self, node);
        break;
    case EXPR_COMPARE:
        put_comparison(self, node);
        break;
    case EXPR_SOME:
    case EXPR_EVERY:
        put_quantifier(self, node);
        break;
    }
}

int expr_sql(const expr_t *self, enum expr_dialect dialect, size_t first_parameter, struct buf *sql)
{
    struct writer writer = {.expr = self,
                            .dialect = &dialects[dialect],
                            .first_parameter = first_parameter,
                            .sql = sql};
    put_node(&writer, self->root);
    return writer.failed ? -1 : 0;
}
