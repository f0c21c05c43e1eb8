// SPDX-License-Identifier: MIT
/*
 * judges: asks judges for scores, on one thread and one connection of its own, so that a slow judge
 * keeps no step of the passes waiting. Works while this process is the leader: without the lease no
 * request begins, and those under way are broken off. No transaction is open while a judge thinks.
 *
 * A job stays in the store until its score is there, so what is broken off is asked again.
 */
#ifndef MCPD_STORE_JUDGES_H
#define MCPD_STORE_JUDGES_H

#include "store/leading.h"
#include "store/settings_watch.h"

typedef struct judges judges_t;

struct judges_config {
    const struct backend *backend;
    backend_store_t *store;
    leading_t *leading;
    settings_watch_t *settings;
    uint64_t pass_ms; /* how often the store is asked for jobs when there were none */
};

/* Connects and starts. Null with the reason. */
judges_t *judges_new(const struct judges_config *config, struct err *err) MUST_USE;
/* Breaks off what is under way. Before leading_destroy. */
void judges_destroy(judges_t **self_p);

#endif
