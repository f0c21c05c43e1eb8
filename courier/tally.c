// SPDX-License-Identifier: MIT
#include "courier/tally.h"

#include <stdio.h>

#define ORDER_TEXT_SIZE 24

void tally_init(struct tally *self, const char *name, size_t order)
{
    static const char *const state_names[COOLOFF_STATE_COUNT] = {
        [COOLOFF_CLOSED] = "closed",
        [COOLOFF_COOLING] = "cooling",
        [COOLOFF_HALF_OPEN] = "half_open",
    };
    char order_text[ORDER_TEXT_SIZE];
    snprintf(order_text, sizeof order_text, "%zu", order);
    self->name = name;
    self->delivered = metrics_series(METRIC_relay_delivered, name, order_text);
    self->failed = metrics_series(METRIC_relay_failed_attempts, name, order_text);
    self->up = metrics_series(METRIC_relay_upstream_up, name, order_text);
    self->inflight = metrics_series(METRIC_relay_upstream_inflight, name, NULL);
    self->limit = metrics_series(METRIC_relay_upstream_limit, name, NULL);
    for (size_t i = 0; i < COOLOFF_STATE_COUNT; i++) {
        self->states[i] = metrics_series(METRIC_relay_upstream_state, name, state_names[i]);
    }
    metric_series_set(self->up, 0);
}

void tally_state(struct tally *self, enum cooloff_state state, unsigned inflight, unsigned limit)
{
    for (size_t i = 0; i < COOLOFF_STATE_COUNT; i++) {
        metric_series_set(self->states[i], i == state);
    }
    metric_series_set(self->inflight, inflight);
    metric_series_set(self->limit, limit);
}

void tally_cooled(struct tally *self, enum outcome_class reason)
{
    const char *text = reason == OUTCOME_LOCAL ? "lost" : outcome_class_name(reason);
    metric_series_add(metrics_series(METRIC_relay_cooloffs, self->name, text), 1);
}
