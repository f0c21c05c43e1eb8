// SPDX-License-Identifier: MIT
/* raw_point: a data point of a metric as some body has it, and the step from there to the batch. */
#ifndef MCPD_RAW_POINT_H
#define MCPD_RAW_POINT_H

#include "proto/maker.h"

/* A number that may be missing. */
struct raw_number {
    enum { RAW_NUMBER_ABSENT, RAW_NUMBER_INT, RAW_NUMBER_DOUBLE } state;
    int64_t integer;
    double number;
};

struct raw_exemplar {
    struct raw_exemplar *next;
    uint64_t time_ns;
    struct raw_number value;
    struct raw_id trace_id;
    struct raw_id span_id;
    struct value *attributes;
};

/* Of an exponential histogram. */
struct raw_buckets {
    bool is_set;
    int64_t offset;
    struct value *counts; /* integers */
};

/* What all points of a metric share. */
struct raw_metric {
    struct slice id; /* how the sender may call it when it is rejected */
    struct slice name;
    struct slice unit;
    struct slice description;
    enum point_kind kind;
    int64_t temporality;
    bool is_monotonic;
};

/* Texts are not clean, everything is borrowed for the call of raw_point_add. */
struct raw_point {
    uint64_t start_ns;
    uint64_t time_ns;
    uint64_t flags;
    struct value *attributes;
    struct raw_number value; /* of a gauge or sum */
    uint64_t count;
    struct raw_number sum, min, max;
    struct value *counts; /* lists of integers and of doubles */
    struct value *bounds;
    int64_t scale;
    uint64_t zero_count;
    double zero_threshold;
    struct raw_buckets positive, negative;
    struct value *quantiles; /* a list of arrays [quantile, value] */
    struct raw_exemplar *exemplars;
};

/* As raw_span_add. */
enum batch_result raw_point_add(struct maker *maker, const struct raw_metric *metric,
                                struct raw_point *raw) MUST_USE;

#endif
