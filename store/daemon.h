// SPDX-License-Identifier: MIT
/*
 * daemon: what the handlers of the daemon's door work on; made and ended by store_main, read by all
 * of the door's threads.
 */
#ifndef MCPD_STORE_DAEMON_H
#define MCPD_STORE_DAEMON_H

#include "common/httpd.h"
#include "common/metrics.h"
#include "common/options.h"
#include "proto/body_format.h"
#include "store/gate.h"
#include "store/judges.h"
#include "store/keys.h"
#include "store/leading.h"
#include "store/opened_store.h"
#include "store/passes.h"
#include "store/quotas.h"
#include "store/runs.h"
#include "store/settings_watch.h"

/* The counters of one door, by result. */
struct ingest_series {
    metric_series_t *accepted;
    metric_series_t *duplicate;
    metric_series_t *rejected;
};

/* When the settings' retention was last applied; of the thread of the passes. */
struct forgetting {
    uint64_t due_ms;            /* clock_mono_ms */
    char hash[SHA256_HEX_SIZE]; /* of the settings of then */
};

struct score_plan;

struct daemon {
    const struct options *options;
    struct opened_store main;
    struct opened_store runs; /* open where runs are kept apart */
    enum runs_place runs_place;
    struct gate gate;
    settings_watch_t *settings;
    keys_t *keys;
    quotas_t *quotas;
    leading_t *leading;
    passes_t *passes;
    struct forgetting forgetting;
    struct score_plan *plan; /* the passes' own, as the next */
    size_t settle_rows;      /* to be settled at once; 0: not known yet */
    judges_t *judges;
    struct replica replica; /* as others see this daemon, but for its config_hash, which changes;
                               its texts are owned by whoever has them */
    struct ingest_series series[DOOR_COUNT];
    httpd_t *door;
};

#endif
