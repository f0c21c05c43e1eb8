// SPDX-License-Identifier: MIT
/*
 * judge_text: what a judge is asked and what it answers, as JSON. Pure; any thread.
 *
 *     {"scorer":{"name","version","output":{"type","min","max","labels"}},
 *      "target":{"type":"trace","project","trace_id"},
 *      "input":...,"output":...,"spans":[...],"spans_omitted":n}
 *     {"value":0.8,"label":"...","comment":"..."}
 */
#ifndef MCPD_STORE_JUDGE_TEXT_H
#define MCPD_STORE_JUDGE_TEXT_H

#include "proto/json_out.h"
#include "store/backend.h"
#include "store/settings.h"

/* What a trace's rows leave for the request, bounded by the judge's max_input: half of it for the
 * spans, a quarter each for what went into the trace and what came out. Those are the root span's,
 * else the first input and the last output of any span. */
struct judge_input {
    size_t max_bytes;
    struct json_out spans;
    struct json_out input;
    struct json_out output;
    bool has_root_input;
    bool has_root_output;
    size_t span_count;
    size_t spans_omitted;
};

void judge_input_init(struct judge_input *self, size_t max_bytes);
void judge_input_fini(struct judge_input *self);
/* A row of LISTING_SPANS, in order of start. */
void judge_input_add(struct judge_input *self, const struct list_value *span);

/* The request's body. -1 where it does not fit the buffer. */
int judge_write_request(const struct judge_input *input, const struct settings_scorer *scorer,
                        const struct score_job *job, struct buf *out) MUST_USE;

#define JUDGE_TEXT_SIZE    2001 /* bytes of a text with its end */
#define JUDGE_COMMENT_SIZE 4001

struct judge_answer {
    bool has_number;
    double number;
    char text[JUDGE_TEXT_SIZE]; /* of a label or text; of a number the label it came with, or "" */
    char comment[JUDGE_COMMENT_SIZE];
};

/* Reads an answer and checks it against the scorer's output. -1 with the reason. */
int judge_read_answer(struct slice body, const struct settings_output *output,
                      struct judge_answer *answer, struct err *err) MUST_USE;

#endif
