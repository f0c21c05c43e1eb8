// SPDX-License-Identifier: MIT
/*
 * metrics: the process's counters, from one table, metrics.def; an unknown name does not compile.
 * Any thread, without locks on the counting side. The only state of the process that is shared.
 */
#ifndef MCPD_METRICS_H
#define MCPD_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"

enum metric {
#define METRIC(kind, id, name, roles, labels, help) METRIC_##id,
#include "common/metrics.def"
#undef METRIC
    METRIC_COUNT
};

/* Once, at process start: mcpd_uptime_seconds counts from here. */
void metrics_start(void);

/* Metrics without labels. */
void metrics_add(enum metric id, uint64_t n);
void metrics_set(enum metric id, int64_t value);
int64_t metrics_get(enum metric id);
void metrics_observe_us(enum metric id, uint64_t microseconds); /* HISTOGRAM */
void metrics_observe_size(enum metric id, uint64_t size);       /* SIZES */

/* One series of a metric with labels; the values stand in the order of the label names and are
 * copied. The same values give the same series. Never null: past 1,000 series of a metric the last
 * one, labelled "other", is returned. second may be null for a metric with one label. */
typedef struct metric_series metric_series_t;
metric_series_t *metrics_series(enum metric id, const char *first, const char *second);
void metric_series_add(metric_series_t *series, uint64_t n);
void metric_series_set(metric_series_t *series, int64_t value);
void metric_series_observe_us(metric_series_t *series, uint64_t microseconds); /* HISTOGRAM */

/* Prometheus text format of the metrics that the roles (role_bits) of this process have. */
int metrics_render(unsigned roles, struct buf *out) MUST_USE;
/* docs/metrics.md */
void metrics_markdown(FILE *out);

#endif
