// SPDX-License-Identifier: MIT
/*
 * quotas: the use of every project that has a quota in the settings, in this process. What was used
 * outlives a change of the settings, so that a new ceiling gives nobody a second minute. Any
 * thread.
 */
#ifndef MCPD_STORE_QUOTAS_H
#define MCPD_STORE_QUOTAS_H

#include <stddef.h>

#include "store/quota.h"
#include "store/settings.h"

typedef struct quotas quotas_t;

enum quota_dimension { QUOTA_REQUESTS, QUOTA_EVENTS, QUOTA_BYTES, QUOTA_DIMENSION_COUNT };
/* "requests" */
const char *quota_dimension_name(enum quota_dimension dimension);

/* Why a request was not let through. */
struct quota_refusal {
    enum quota_dimension dimension;
    uint64_t ceiling;
    struct quota_lack lack;
};

/* Events that were charged before it was known which of them are new. */
struct quota_charge {
    uint64_t events;
    uint64_t at_s;
};

quotas_t *quotas_new(void) MUST_USE;
void quotas_destroy(quotas_t **self_p);

/* A request has arrived: charges one request and its bytes, both or, where one does not fit, none.
 * A project without a quota is let through and not counted. now_s: clock_mono_ms / 1000. */
bool quotas_take_request(quotas_t *self, const struct settings_project *project, uint64_t bytes,
                         uint64_t now_s, struct quota_refusal *refusal) MUST_USE;
/* Its events, all or none. */
bool quotas_take_events(quotas_t *self, const struct settings_project *project, uint64_t events,
                        uint64_t now_s, struct quota_charge *charge,
                        struct quota_refusal *refusal) MUST_USE;
/* Gives back what was charged for events that were not stored anew. */
void quotas_give_back(quotas_t *self, const struct settings_project *project,
                      const struct quota_charge *charge, uint64_t events, uint64_t now_s);

#endif
