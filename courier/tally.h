// SPDX-License-Identifier: MIT
/*
 * tally: the metrics of one upstream. Plain data that points to the process's counters; counting
 * takes no lock.
 */
#ifndef MCPD_COURIER_TALLY_H
#define MCPD_COURIER_TALLY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/metrics.h"
#include "courier/cooloff.h"
#include "courier/outcome.h"

struct tally {
    metric_series_t *delivered;
    metric_series_t *failed;
    metric_series_t *up;
    metric_series_t *inflight;
    metric_series_t *limit;
    metric_series_t *states[COOLOFF_STATE_COUNT];
    const char *name; /* of the upstream; borrowed */
};

/* order: 1 for the preferred upstream. name must outlive self. */
void tally_init(struct tally *self, const char *name, size_t order);

/* state is the present one. */
void tally_state(struct tally *self, enum cooloff_state state, unsigned inflight, unsigned limit);

/* A cool-off began. OUTCOME_LOCAL means a trial that was lost. */
void tally_cooled(struct tally *self, enum outcome_class reason);

#endif
