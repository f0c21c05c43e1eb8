// SPDX-License-Identifier: MIT
#include "store/rollup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Operations whose token figures are sums of, or unrelated to, calls to a model. */
static const char *const not_inference[] = {
    "invoke_agent", "create_agent", "invoke_workflow", "plan", "execute_tool",
};

/* More than this from one span is a broken sender; it keeps the sums of a trace far from int64. */
#define TOKENS_COUNTED_MAX 1000000000000

void rollup_init(struct rollup *self)
{
    *self = (struct rollup){0};
}

void rollup_fini(struct rollup *self)
{
    free(self->deltas);
    rollup_init(self);
}

void rollup_reset(struct rollup *self)
{
    self->count = 0;
}

int64_t rollup_tokens(struct slice op, int64_t tokens)
{
    if (tokens == BATCH_TOKENS_NONE)
        return 0;
    for (size_t i = 0; i < sizeof not_inference / sizeof *not_inference; i++)
        if (slice_equals(op, not_inference[i]))
            return 0;
    return tokens < TOKENS_COUNTED_MAX ? tokens : TOKENS_COUNTED_MAX;
}

static struct trace_delta *next_delta(struct rollup *self)
{
    if (self->count == self->capacity) {
        self->capacity = self->capacity ? 2 * self->capacity : 64;
        self->deltas = realloc(self->deltas, self->capacity * sizeof *self->deltas);
        assert(self->deltas);
    }
    return &self->deltas[self->count++];
}

void rollup_add(struct rollup *self, int64_t project, const struct span *span)
{
    struct trace_delta *delta = next_delta(self);
    *delta = (struct trace_delta){
        .project = project,
        .session = span->session,
        .start_ns = (int64_t)span->start_ns,
        .end_ns = (int64_t)(span->end_ns ? span->end_ns : span->start_ns),
        .spans = 1,
        .errors = span->status == SPAN_STATUS_ERROR,
        .in_tok = rollup_tokens(span->op, span->in_tok),
        .out_tok = rollup_tokens(span->op, span->out_tok),
    };
    memcpy(delta->trace_id, span->trace_id, sizeof delta->trace_id);
    if (!span->has_parent) {
        delta->root_name = span->name;
        delta->has_ended_root = span->end_ns != 0;
    }
}

/* How many more tokens count now. */
static int64_t more_tokens(const struct span *end, int64_t given, const struct stored_span *stored,
                           int64_t had)
{
    struct slice op = end->op.len > 0 ? end->op : stored->op;
    return rollup_tokens(op, given == BATCH_TOKENS_NONE ? had : given) -
           rollup_tokens(stored->op, had);
}

void rollup_complete(struct rollup *self, int64_t project, const struct span *end,
                     const struct stored_span *stored)
{
    rollup_add(self, project, end);
    struct trace_delta *delta = &self->deltas[self->count - 1];
    delta->spans = 0;
    delta->errors -= stored->status == SPAN_STATUS_ERROR;
    delta->in_tok = more_tokens(end, end->in_tok, stored, stored->in_tok);
    delta->out_tok = more_tokens(end, end->out_tok, stored, stored->out_tok);
}

static int compare(const void *left, const void *right)
{
    const struct trace_delta *a = left;
    const struct trace_delta *b = right;
    if (a->project != b->project)
        return a->project < b->project ? -1 : 1;
    return memcmp(a->trace_id, b->trace_id, sizeof a->trace_id);
}

static void merge(struct trace_delta *into, const struct trace_delta *from)
{
    if (into->session.len == 0)
        into->session = from->session;
    if (into->root_name.len == 0)
        into->root_name = from->root_name;
    into->has_ended_root |= from->has_ended_root;
    if (from->start_ns < into->start_ns)
        into->start_ns = from->start_ns;
    if (from->end_ns > into->end_ns)
        into->end_ns = from->end_ns;
    into->spans += from->spans;
    into->errors += from->errors;
    into->in_tok += from->in_tok;
    into->out_tok += from->out_tok;
}

void rollup_fold(struct rollup *self)
{
    if (self->count < 2)
        return;
    qsort(self->deltas, self->count, sizeof *self->deltas, compare);
    size_t last = 0;
    for (size_t i = 1; i < self->count; i++) {
        if (compare(&self->deltas[last], &self->deltas[i]) == 0)
            merge(&self->deltas[last], &self->deltas[i]);
        else
            self->deltas[++last] = self->deltas[i];
    }
    self->count = last + 1;
}
