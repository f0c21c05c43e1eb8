// SPDX-License-Identifier: MIT
/*
 * The table has some forty rows and a look-up compares lengths first, so that a plain walk costs
 * less than it would to be clever about it.
 */
#include "proto/genai.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

struct row {
    const char *name;
    unsigned char len;
    unsigned char column;
    bool is_indexed;
};

static const struct row rows[] = {
#define GENAI(column, name)         {name, sizeof(name) - 1, GENAI_##column, false},
#define GENAI_INDEXED(column, name) {name, sizeof(name) - 1, GENAI_##column, true},
#define GENAI_SIDE(side, name)
#include "proto/genai.def"
#undef GENAI
#undef GENAI_INDEXED
#undef GENAI_SIDE
};

static const struct {
    enum genai_side side;
    const char *name;
} sides[] = {
#define GENAI(column, name)
#define GENAI_INDEXED(column, name)
#define GENAI_SIDE(side, name) {GENAI_##side, name},
#include "proto/genai.def"
#undef GENAI
#undef GENAI_INDEXED
#undef GENAI_SIDE
};

static bool row_matches(const struct row *row, struct slice key)
{
    if (!row->is_indexed)
        return key.len == row->len && memcmp(key.data, row->name, key.len) == 0;
    if (key.len < (size_t)row->len + 2 || memcmp(key.data, row->name, row->len) != 0)
        return false;
    const char *behind = key.data + row->len;
    return behind[0] == '.' && behind[1] >= '0' && behind[1] <= '9';
}

static const struct row *find_row(struct slice key)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (row_matches(&rows[i], key))
            return &rows[i];
    return NULL;
}

static bool is_tokens(enum genai_column column)
{
    return column >= GENAI_IN_TOK && column <= GENAI_REASON_TOK;
}

/* Some SDKs send counts as doubles. */
static int64_t token_count(const struct value *value)
{
    const double int64_limit = 9223372036854775808.0;
    if (value->type == VALUE_INT && value->integer >= 0)
        return value->integer;
    if (value->type == VALUE_DOUBLE && value->number >= 0 && value->number < int64_limit &&
        floor(value->number) == value->number)
        return (int64_t)value->number;
    return BATCH_TOKENS_NONE;
}

static bool can_hold(enum genai_column column, const struct value *value)
{
    if (column == GENAI_EVALUATION_VALUE)
        return value->type == VALUE_INT || value->type == VALUE_DOUBLE;
    if (is_tokens(column))
        return token_count(value) != BATCH_TOKENS_NONE;
    return value->type == VALUE_INT || (value->type == VALUE_TEXT && value->text.len > 0);
}

void genai_find(struct genai_found *self, const struct value *members)
{
    for (const struct value *member = members; member; member = member->next) {
        const struct row *row = find_row(member->key);
        if (!row || row->column >= GENAI_COLUMN_COUNT || !can_hold(row->column, member))
            continue;
        unsigned rank = (unsigned)(row - rows) + 1;
        unsigned best = self->columns[row->column].rank;
        if (best != 0 && best < rank)
            continue;
        self->columns[row->column].rank = rank;
        self->columns[row->column].value = member;
    }
}

void genai_inherit(struct genai_found *self, const struct genai_found *other)
{
    for (size_t i = 0; i < GENAI_COLUMN_COUNT; i++)
        if (self->columns[i].rank == 0)
            self->columns[i] = other->columns[i];
}

static int fill_text(const struct value *value, struct arena *arena, struct slice *out)
{
    char digits[24];
    struct slice text = value->text;
    if (value->type == VALUE_INT) {
        text.len = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, value->integer);
        text.data = digits;
    }
    return utf8_clean(arena, text, GENAI_COLUMN_MAX_BYTES, out);
}

int genai_fill(const struct genai_found *self, struct arena *arena, const struct genai_slot *slots,
               void *out)
{
    for (const struct genai_slot *slot = slots; slot->column != GENAI_COLUMN_COUNT; slot++) {
        const struct value *value = self->columns[slot->column].value;
        void *field = (char *)out + slot->offset;
        if (!value)
            continue;
        if (is_tokens(slot->column))
            *(int64_t *)field = token_count(value);
        else if (fill_text(value, arena, field) == -1)
            return -1;
    }
    return 0;
}

bool genai_is_content(struct slice key)
{
    const struct row *row = find_row(key);
    return row && row->column == GENAI_CONTENT;
}

const struct value *genai_find_side(enum genai_side side, const struct value *members)
{
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
        for (const struct value *member = members; member; member = member->next)
            if (sides[i].side == side && slice_equals(member->key, sides[i].name))
                return member;
    return NULL;
}

bool genai_is_evaluation(struct slice event_name)
{
    return slice_equals(event_name, "gen_ai.evaluation.result");
}

const struct value *genai_exception_type(struct slice event_name, const struct value *members)
{
    if (!slice_equals(event_name, "exception"))
        return NULL;
    for (const struct value *member = members; member; member = member->next)
        if (slice_equals(member->key, "exception.type") && member->type == VALUE_TEXT)
            return member;
    return NULL;
}

static const char *column_name(unsigned column)
{
    static const char *const names[] = {
        [GENAI_OP] = "op",
        [GENAI_PROVIDER] = "provider",
        [GENAI_MODEL] = "model",
        [GENAI_TOOL] = "tool",
        [GENAI_AGENT] = "agent",
        [GENAI_SESSION] = "session",
        [GENAI_USER_ID] = "user_id",
        [GENAI_MCP_METHOD] = "mcp_method",
        [GENAI_MCP_SESSION] = "mcp_session",
        [GENAI_SERVICE] = "service",
        [GENAI_ENV] = "env",
        [GENAI_ERROR_TYPE] = "error",
        [GENAI_IN_TOK] = "in_tok",
        [GENAI_OUT_TOK] = "out_tok",
        [GENAI_CACHE_TOK] = "cache_tok",
        [GENAI_REASON_TOK] = "reason_tok",
        [GENAI_EVALUATION_NAME] = "a score's name",
        [GENAI_EVALUATION_VALUE] = "a score's value",
        [GENAI_EVALUATION_LABEL] = "a score's label",
        [GENAI_EVALUATION_EXPLANATION] = "a score's comment",
        [GENAI_CONTENT] = "content",
    };
    return names[column];
}

void genai_markdown(FILE *out)
{
    fputs(
        "# Attributes that have a meaning\n\n"
        "Generated from `proto/genai.def`. Of several names the first one that is there fills the\n"
        "column; a span's own attribute wins over its resource's. All attributes are kept as they\n"
        "came, too, but for content: what people and models said lies apart, so that it can be\n"
        "dropped whole. Texts in columns are cut to 512 bytes. Token counts that are part of "
        "another\n"
        "one (cache, reasoning) are never added to it.\n\n"
        "A span event or log record `gen_ai.evaluation.result` gives a score with the source "
        "`otel`.\n\n"
        "| Column | Attributes |\n|---|---|\n",
        out);
    for (unsigned column = 0; column <= GENAI_CONTENT; column++) {
        const char *before = "";
        fprintf(out, "| %s |", column_name(column));
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            if (rows[i].column != column)
                continue;
            fprintf(out, "%s `%s%s`", before, rows[i].name, rows[i].is_indexed ? ".N" : "");
            before = ",";
        }
        fputs(" |\n", out);
    }
}
