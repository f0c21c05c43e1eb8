// SPDX-License-Identifier: MIT
/* raw_score: a score, or a run, as some body has it, and the step from there to the batch. */
#ifndef MCPD_RAW_SCORE_H
#define MCPD_RAW_SCORE_H

#include "proto/maker.h"

/* Identities are compared and indexed by stores, so they are refused, not cut. */
#define RAW_NAME_MAX_BYTES 200

/* Texts are not clean, everything is borrowed for the call of raw_score_add. */
struct raw_score {
    struct slice id;
    struct slice name;
    struct slice data_type; /* empty: by the value's own type */
    struct value *value;
    struct raw_id trace_id;
    struct raw_id span_id;
    struct slice session;
    struct slice run;
    struct slice source;
    struct slice comment;
    struct slice scorer;
    struct slice version;
    uint64_t time_ns; /* 0: now */
};

struct raw_run {
    struct slice id;
    struct slice state;
    struct raw_id trace_id;
    uint64_t start_ns;
    uint64_t end_ns;
    struct value *attributes;
};

/* Derives a score from an evaluation of this name and with these attributes, if it is one, and if
 * what it says makes a score. Belongs to the event that was added last. -1 over the batch's memory.
 * place distinguishes the evaluations of a span; -1: there is only one. */
int raw_score_derive(struct maker *maker, struct slice event_name, const struct value *members,
                     uint64_t time_ns, const struct raw_id *trace_id, const struct raw_id *span_id,
                     int64_t place) MUST_USE;

/* As raw_span_add. */
enum batch_result raw_score_add(struct maker *maker, const struct raw_score *raw) MUST_USE;
enum batch_result raw_run_add(struct maker *maker, const struct raw_run *raw) MUST_USE;

#endif
