// SPDX-License-Identifier: MIT
/*
 * runs: where the events of type run go. They are rows that change, so they may be kept apart from
 * everything else, or not at all (--runs-data). Any thread.
 */
#ifndef MCPD_STORE_RUNS_H
#define MCPD_STORE_RUNS_H

#include "common/options.h"
#include "store/backend.h"

enum runs_place {
    RUNS_WITH_STORE, /* in the store that has everything else */
    RUNS_APART,      /* in a store of their own */
    RUNS_OFF,        /* nowhere: rejected */
};

/* Where --runs-data puts them; *where is set for RUNS_APART, and borrowed. */
enum runs_place runs_place(const struct options *options, const char **where);

/* Takes the runs out of a decoded request, into a request of their own with a key of its own, so
 * that both can be sent again and are stored once even should their stores be one database under
 * two names. Null when it has none. */
struct backend_request *runs_take_out(struct backend_request *request) MUST_USE;

/* What became of the runs, added to what became of the rest. */
void runs_add_counts(struct backend_request *request, const struct backend_request *runs);

#endif
