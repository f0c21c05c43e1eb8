// SPDX-License-Identifier: MIT
/*
 * rollup: what the rows that a transaction really adds change in the rows of their traces. Pure
 * arithmetic; one thread.
 *
 * Texts are borrowed from the batches: the list must not outlive them.
 */
#ifndef MCPD_STORE_ROLLUP_H
#define MCPD_STORE_ROLLUP_H

#include <stddef.h>
#include <stdint.h>

#include "proto/batch.h"

/* What to add to one trace. */
struct trace_delta {
    int64_t project;
    uint8_t trace_id[16];
    struct slice session;   /* empty: none of the spans has one */
    struct slice root_name; /* empty: the root is not among them */
    bool has_ended_root;
    int64_t start_ns; /* smallest */
    int64_t end_ns;   /* largest; of an open span its start */
    int64_t spans;
    int64_t errors;
    int64_t in_tok;
    int64_t out_tok;
};

struct rollup {
    struct trace_delta *deltas;
    size_t count;
    size_t capacity;
};

/* What a stored open span says that is about to be completed. */
struct stored_span {
    int status;
    struct slice op;
    int64_t in_tok; /* BATCH_TOKENS_NONE where it has none */
    int64_t out_tok;
};

void rollup_init(struct rollup *self);
void rollup_fini(struct rollup *self);
void rollup_reset(struct rollup *self);

/* The tokens of a span that count for its trace: those of calls to a model. An agent's or a
 * workflow's span may repeat the sum of its children and counts nothing. */
int64_t rollup_tokens(struct slice op, int64_t tokens);

/* A new row. */
void rollup_add(struct rollup *self, int64_t project, const struct span *span);
/* The end of a span that was stored open. What the end leaves out stays as it was, so it counts as
 * it did. */
void rollup_complete(struct rollup *self, int64_t project, const struct span *end,
                     const struct stored_span *stored);

/* Makes one delta of all that are for the same trace, in the order of project and id. */
void rollup_fold(struct rollup *self);

#endif
