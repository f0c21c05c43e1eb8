// SPDX-License-Identifier: MIT
#include "store/pass_steps.h"

#include "common/metrics.h"
#include "store/daemon.h"

/* Tells the other replicas that this one runs, and looks whether they have the same settings. */
static enum backend_status step_replica(struct pass *pass, struct err *err)
{
    const struct daemon *daemon = pass->arg;
    const struct settings *settings = settings_watch_hold(daemon->settings);
    struct replica replica = daemon->replica;
    int configs = 0;
    replica.config_hash = settings->hash;
    int rc = pass->backend->replica_seen(pass->conn, &replica, &configs, err);
    settings_release(&settings);
    if (rc == -1)
        return BACKEND_AWAY;
    metrics_set(METRIC_config_mismatch, configs > 1);
    return BACKEND_OK;
}

/* The pass itself, in the store: proves that the claim still writes, before other steps rely on it.
 */
static enum backend_status step_pass(struct pass *pass, struct err *err)
{
    return pass->backend->pass_mark(pass->conn, &pass->claim, "pass", slice_of(""), err);
}

const struct pass_step pass_steps[] = {
    {"replica", 30, true, step_replica},
    {"pass", 30, false, step_pass},
    {0},
};
