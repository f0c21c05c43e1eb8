// SPDX-License-Identifier: MIT
/*
 * The names are those of the listings' columns, so that there is one table of them: what an answer
 * shows can be asked for under the same name. Only `duration` is made up.
 */
#include "store/expr_tree.h"

#include <assert.h>
#include <string.h>

#define DURATION "duration"

#define OPS_EQUAL (1u << EXPR_EQ | 1u << EXPR_NE | 1u << EXPR_IN)
#define OPS_PART  (1u << EXPR_CONTAINS | 1u << EXPR_STARTS)
#define OPS_ORDER (OPS_EQUAL | 1u << EXPR_LT | 1u << EXPR_LE | 1u << EXPR_GT | 1u << EXPR_GE)

static const struct expr_type_row types[EXPR_TYPE_COUNT] = {
    [EXPR_TEXT] = {"text", OPS_EQUAL | OPS_PART, "a text in double quotes"},
    [EXPR_NUMBER] = {"number", OPS_ORDER, "a number or size, as 12, 0.5 or 64KiB"},
    [EXPR_DURATION] = {"duration", OPS_ORDER, "a duration, as 150ms, 20s or 2h"},
    [EXPR_TRACE_ID] = {"id", OPS_EQUAL, "32 hex digits in double quotes"},
    [EXPR_SPAN_ID] = {"id", OPS_EQUAL, "16 hex digits in double quotes"},
    [EXPR_SPAN_KIND] = {"kind", OPS_EQUAL,
                        "\"internal\", \"server\", \"client\", \"producer\", \"consumer\" or "
                        "\"unspecified\""},
    [EXPR_SPAN_STATUS] = {"status", OPS_EQUAL, "\"unset\", \"ok\" or \"error\""},
    [EXPR_BOOL] = {"boolean", 1u << EXPR_EQ | 1u << EXPR_NE, "true or false"},
    [EXPR_ANY] = {"attribute", OPS_ORDER | OPS_PART,
                  "a text in double quotes, a number, true or "
                  "false"},
};

const struct expr_type_row *expr_type_row(enum expr_type type)
{
    assert(type < EXPR_TYPE_COUNT);
    return &types[type];
}

const char *expr_op_name(enum expr_op op)
{
    static const char *const names[EXPR_OP_COUNT] = {"=",  "!=", "<",        "<=", ">",
                                                     ">=", "in", "contains", "^="};
    return names[op];
}

/* EXPR_ANY for what cannot be compared. */
static enum expr_type type_of(const struct column *column)
{
    switch (column->form) {
    case COLUMN_INT:
    case COLUMN_REAL:
        return EXPR_NUMBER;
    case COLUMN_TEXT:
    case COLUMN_JSON:
        return EXPR_TEXT;
    case COLUMN_ID:
        return strcmp(column->name, "trace_id") == 0 ? EXPR_TRACE_ID : EXPR_SPAN_ID;
    case COLUMN_SPAN_KIND:
        return EXPR_SPAN_KIND;
    case COLUMN_SPAN_STATUS:
        return EXPR_SPAN_STATUS;
    case COLUMN_MEMBERS:
        break;
    }
    return EXPR_ANY;
}

static int find_columns(const struct listing *listing, struct slice name, struct expr_name *found)
{
    *found = (struct expr_name){.type = EXPR_ANY};
    for (size_t i = 0; listing->columns[i].name; i++) {
        enum expr_type type = type_of(&listing->columns[i]);
        if (type == EXPR_ANY || !slice_equals(name, listing->columns[i].name))
            continue;
        if (found->column_count == EXPR_COLUMNS_MAX ||
            (found->column_count > 0 && type != found->type))
            continue;
        found->type = type;
        found->columns[found->column_count++] = i;
    }
    return found->column_count > 0 ? 0 : -1;
}

int expr_name_find(const struct listing *listing, struct slice name, struct expr_name *found)
{
    if (!slice_equals(name, DURATION))
        return find_columns(listing, name, found);
    struct expr_name start;
    struct expr_name end;
    if (find_columns(listing, slice_of("start_ns"), &start) == -1 ||
        find_columns(listing, slice_of("end_ns"), &end) == -1)
        return -1;
    *found = (struct expr_name){.type = EXPR_DURATION,
                                .is_duration = true,
                                .column_count = 2,
                                .columns = {start.columns[0], end.columns[0]}};
    return 0;
}

int expr_attrs_column(const struct listing *listing)
{
    for (size_t i = 0; listing->columns[i].name; i++)
        if (listing->columns[i].form == COLUMN_MEMBERS)
            return (int)i;
    return -1;
}

/* The i-th name of the listing, `duration` behind the columns; null behind the last, and "" for a
 * column that has no name of its own. */
static const char *name_at(const struct listing *listing, size_t i)
{
    struct expr_name found;
    size_t columns = listing_columns(listing);
    if (i == columns)
        return expr_name_find(listing, slice_of(DURATION), &found) == 0 ? DURATION : NULL;
    if (i > columns)
        return NULL;
    const char *name = listing->columns[i].name;
    bool is_first = find_columns(listing, slice_of(name), &found) == 0 && found.columns[0] == i;
    return is_first ? name : "";
}

void expr_name_list(const struct listing *listing, char *out, size_t size)
{
    static const char more[] = ", ...";
    size_t used = 0;
    bool is_cut = false;
    const char *name;
    *out = '\0';
    for (size_t i = 0; (name = name_at(listing, i)) != NULL; i++) {
        if (used + strlen(name) + sizeof ", " + sizeof more > size)
            is_cut = true;
        else if (*name)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (is_cut)
        snprintf(out + used, size - used, "%s", more);
}

static const char intro[] =
    "# Conditions: `where` and `rule`\n"
    "\n"
    "Generated by `mcpd docs where`. Every list of the daemon takes a condition in its parameter "
    "`where`,\n"
    "percent-encoded as all parameters; the settings take them as `where` and `rule`.\n"
    "\n"
    "    curl -G localhost:4317/v1/traces --data-urlencode 'where=duration > 20s and model ^= "
    "\"m-\"'\n"
    "\n"
    "    op = \"execute_tool\" and (status = \"error\" or not duration < 20s)\n"
    "    attr(\"http.request.method\") in (\"GET\", \"PUT\")\n"
    "    count(op = \"execute_tool\" and status = \"error\") = 0\n"
    "    sum(out_tok, op = \"chat\") > 10000 and max(duration) < 8s\n"
    "\n"
    "Comparisons are joined by `and`, `or`, `not` and parentheses; `and` binds closer than `or`. "
    "The name\n"
    "stands on the left, the value on the right. Words are in lower case. Texts stand in double "
    "quotes,\n"
    "with `\\\"` and `\\\\` inside, and are compared byte by byte. Durations have a unit (`ns us "
    "ms s m h d`),\n"
    "sizes may have one (`B KB MB GB KiB MiB GiB`). There are no regular expressions.\n"
    "\n"
    "| condition | holds where |\n"
    "|---|---|\n"
    "| `name = value`, `!=`, `<`, `<=`, `>`, `>=` | the name's value is there and compares so |\n"
    "| `name in (value, ...)` | it is one of these |\n"
    "| `name contains \"text\"` | the text stands somewhere in it |\n"
    "| `name ^= \"text\"` | it starts with the text |\n"
    "| `has(name)` | it is there |\n"
    "| `attr(\"key\")` in the place of a name | an attribute of the row, else of its resource; "
    "where its type is not that of the value, it counts as missing |\n"
    "\n"
    "A value that is missing compares false, with `!=` too: `not env = \"prod\"` finds what has "
    "no `env`,\n"
    "`env != \"prod\"` does not.\n"
    "\n"
    "Of **traces** the spans can be asked; inside of the parentheses stand names of spans:\n"
    "\n"
    "| function | is |\n"
    "|---|---|\n"
    "| `any(condition)`, `all(condition)` | true where it holds for one span, for all spans |\n"
    "| `count()`, `count(condition)` | the number of spans (for which it holds) |\n"
    "| `sum(name)`, `min(name)`, `max(name)`, each also `(name, condition)` | over the spans (for "
    "which it holds) that have the name; the sum of none is 0, the least of none is missing |\n"
    "\n"
    "A span's name (that is none of a trace) or `attr()` outside of these means any span: `model = "
    "\"m\" and\n"
    "tool = \"t\"` may be two spans, `any(model = \"m\" and tool = \"t\")` is one.\n";

static void print_names(const struct listing *listing, FILE *out)
{
    static const enum expr_type order[] = {EXPR_TEXT,      EXPR_NUMBER,      EXPR_DURATION,
                                           EXPR_SPAN_KIND, EXPR_SPAN_STATUS, EXPR_TRACE_ID,
                                           EXPR_SPAN_ID};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        const char *name;
        const char *before = "";
        for (size_t i = 0; (name = name_at(listing, i)) != NULL; i++) {
            struct expr_name found;
            if (!*name || expr_name_find(listing, slice_of(name), &found) == -1 ||
                found.type != order[k])
                continue;
            if (!*before)
                fprintf(out, "| %s | %s | ", listing->name, types[order[k]].name);
            fprintf(out, "%s`%s`", before, name);
            before = ", ";
        }
        if (*before)
            fputs(" |\n", out);
    }
    if (expr_attrs_column(listing) != -1)
        fprintf(out, "| %s | attribute | `attr(\"key\")` |\n", listing->name);
}

void expr_markdown(FILE *out)
{
    fputs(intro, out);
    fputs("\n## Types\n\n| type | compares by | with |\n|---|---|---|\n", out);
    for (size_t i = 0; i < EXPR_TYPE_COUNT; i++) {
        fprintf(out, "| %s | `", types[i].name);
        const char *before = "";
        for (size_t op = 0; op < EXPR_OP_COUNT; op++) {
            if (!(types[i].ops & 1u << op))
                continue;
            fprintf(out, "%s%s", before, expr_op_name((enum expr_op)op));
            before = " ";
        }
        fprintf(out, "` | %s |\n", types[i].value);
    }
    fputs("\n## Names\n\nThey are the members that an answer has. `duration` is from `start_ns` to "
          "`end_ns`.\n\n| of | type | names |\n|---|---|---|\n",
          out);
    for (size_t i = 0; i < LISTING_COUNT; i++)
        print_names(listing_row((enum listing_id)i), out);
    fprintf(out,
            "\nAt most %d bytes, %d comparisons and joints, %d values, %d parentheses inside each "
            "other. An error\nnames the place and what may stand there.\n",
            EXPR_TEXT_MAX, EXPR_NODES_MAX, EXPR_VALUES_MAX, EXPR_DEPTH_MAX);
}
