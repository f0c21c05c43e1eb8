// SPDX-License-Identifier: MIT
/*
 * passes: the thread of the live work. Every --pass-interval it runs a table of steps in order, the
 * leader's only while the lease is held and trusted. A step works in small pieces, each one fenced
 * transaction, and asks pass_goes_on before each. Ingest never waits for it.
 */
#ifndef MCPD_STORE_PASSES_H
#define MCPD_STORE_PASSES_H

#include "store/leading.h"

typedef struct passes passes_t;

/* What a step is given; valid until it returns. */
struct pass {
    const struct backend *backend;
    backend_conn_t *conn; /* the thread's */
    struct lease_claim claim;
    uint64_t pass_ms;
    uint64_t deadline_ms; /* clock_mono_ms: the end of the step's budget, and of the trust */
    void *arg;            /* of the config */
    passes_t *passes;
};

/* BACKEND_OK: done, or enough for this time. BACKEND_FENCED ends the leadership, BACKEND_AWAY (with
 * the reason) is logged; the next step is tried all the same. */
typedef enum backend_status pass_step_fn(struct pass *pass, struct err *err);

struct pass_step {
    const char *name;        /* as in mcpd_pass_seconds{step} */
    unsigned budget_percent; /* of P */
    bool is_everywhere;      /* runs on every replica; it has no claim */
    pass_step_fn *run;
};

struct passes_config {
    const struct backend *backend;
    backend_store_t *store;
    leading_t *leading;
    uint64_t pass_ms;
    const struct pass_step *steps; /* ended by a null name; static */
    void *arg;
};

/* Connects and starts; the first pass begins at once, another one whenever the lease is won or
 * lost. Null with the reason. */
passes_t *passes_new(const struct passes_config *config, struct err *err) MUST_USE;
/* Ends after the piece of work in hand. Before leading_destroy. */
void passes_destroy(passes_t **self_p);

/* Asked before each piece of work: false when the budget is used up, the lease is lost or doubtful,
 * or the process ends. */
bool pass_goes_on(const struct pass *pass);
/* Between two pieces of work, the first of which began at begun_ms (clock_mono_ms): leaves a store
 * with one writer at a time to the others for as long as it took. */
void pass_gives_way(const struct pass *pass, uint64_t begun_ms);

#endif
