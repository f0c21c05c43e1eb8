// SPDX-License-Identifier: MIT
/* raw_log: a log record as some body has it, and the step from there to the batch. */
#ifndef MCPD_RAW_LOG_H
#define MCPD_RAW_LOG_H

#include "proto/maker.h"

/* Texts are not clean, everything is borrowed for the call of raw_log_add. */
struct raw_log {
    struct slice id; /* how the sender may call it when it is rejected */
    uint64_t time_ns;
    uint64_t observed_ns;
    int64_t severity;
    struct slice severity_text;
    struct slice event_name;
    struct value *body; /* null: none */
    struct value *attributes;
    uint64_t dropped_attributes;
    uint64_t flags;
    struct raw_id trace_id;
    struct raw_id span_id;
};

/* As raw_span_add. */
enum batch_result raw_log_add(struct maker *maker, struct raw_log *raw) MUST_USE;

#endif
