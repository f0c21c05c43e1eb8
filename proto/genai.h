// SPDX-License-Identifier: MIT
/*
 * genai: which attribute means what, from one table, genai.def; for OTLP and native spans alike.
 * No other file knows an attribute's name. Any thread.
 */
#ifndef MCPD_GENAI_H
#define MCPD_GENAI_H

#include <stdio.h>

#include "proto/batch.h"
#include "proto/value.h"

enum genai_column {
    GENAI_OP,
    GENAI_PROVIDER,
    GENAI_MODEL,
    GENAI_TOOL,
    GENAI_AGENT,
    GENAI_SESSION,
    GENAI_USER_ID,
    GENAI_MCP_METHOD,
    GENAI_MCP_SESSION,
    GENAI_SERVICE,
    GENAI_ENV,
    GENAI_ERROR_TYPE,
    GENAI_IN_TOK,
    GENAI_OUT_TOK,
    GENAI_CACHE_TOK,
    GENAI_REASON_TOK,
    GENAI_EVALUATION_NAME, /* these four: of a score, see genai_is_evaluation */
    GENAI_EVALUATION_VALUE,
    GENAI_EVALUATION_LABEL,
    GENAI_EVALUATION_EXPLANATION,
    GENAI_COLUMN_COUNT,
    GENAI_CONTENT = GENAI_COLUMN_COUNT, /* fills no column */
};

/* Texts are cut to so many bytes in columns (never in attrs), since columns are indexed. */
#define GENAI_COLUMN_MAX_BYTES 512

/* What was found so far for each column: by which row of the table, and the value. Zero-initialise.
 */
struct genai_found {
    struct {
        unsigned rank; /* 0: nothing yet; else the lower the better */
        const struct value *value;
    } columns[GENAI_COLUMN_COUNT];
};

/* Looks at the members in order; of equal ranks the later one stays. A value that its column cannot
 * hold (a map as model, a negative count) is as if it were not there. */
void genai_find(struct genai_found *self, const struct value *members);

/* Adds what self lacks from other (of the resource). */
void genai_inherit(struct genai_found *self, const struct genai_found *other);

/* Where a column lies in a struct: texts in a struct slice, tokens in an int64_t. */
struct genai_slot {
    enum genai_column column; /* GENAI_COLUMN_COUNT ends the list */
    size_t offset;
};

/* Copies what was found into the slots of out; the texts go to the arena, cleaned. What was not
 * found is left alone. -1 over the arena's maximum. */
int genai_fill(const struct genai_found *self, struct arena *arena, const struct genai_slot *slots,
               void *out) MUST_USE;

/* docs/attributes.md */
void genai_markdown(FILE *out);

/* A span event, or log record, of this name says how something was judged: a score. */
bool genai_is_evaluation(struct slice event_name);

/* The exception's type where a span event of this name and with these attributes is an exception;
 * else null. */
const struct value *genai_exception_type(struct slice event_name, const struct value *members);

/* The attribute holds what people or models said. */
bool genai_is_content(struct slice key);

/* Among such attributes the one that is the input or output of the call; null for none. */
enum genai_side { GENAI_INPUT, GENAI_OUTPUT };
const struct value *genai_find_side(enum genai_side side, const struct value *members);

#endif
