// SPDX-License-Identifier: MIT
/*
 * role: the one program skeleton. A program is a list of roles that are started in order and
 * stopped in reverse; it owns signals, descriptor limits and the log. A relay is the list broker,
 * courier, gateway.
 */
#ifndef MCPD_ROLE_H
#define MCPD_ROLE_H

#include <stdbool.h>

#include "common/err.h"
#include "common/httpd.h"
#include "common/options.h"

/* What a role gets at start; valid until its stop returned. */
struct role_env {
    const struct options *options;
    unsigned roles;         /* role_bits of all roles of this process, for /metrics */
    const char *name;       /* of this process, towards the broker and in logs */
    const char *spool_path; /* <spool-dir>/relay; set where a broker runs */
    /* Endpoints to bind (broker) or connect to (gateway, courier). */
    const char *gateway_endpoint;
    const char *courier_endpoint;
};

struct role {
    const char *name; /* "gateway" */
    enum role_bits bit;
    /* Returns the running role, or null with the reason. May block until ready to serve. */
    void *(*start)(const struct role_env *env, struct err *err);
    /* Stops it, draining first where that has a meaning, and frees it. Blocks. */
    void (*stop)(void **self_p);
    /* On SIGHUP, with the running role as arg; null where it has nothing to read again. Must not
     * block. */
    void (*reload)(void *self);
    /* What /readyz of --admin-listen says, with the running role as arg; null where a role has
     * nothing to say. Of several roles the last one started speaks. */
    httpd_readiness *readiness;
};

struct program {
    const char *name; /* "relay", also the role's word on the command line */
    enum role_bits bit;
    const struct role *const *roles; /* null-terminated, in order of start */
    const char *help;
};

/* Starts all, waits for SIGTERM or SIGINT (and hands on SIGHUP), stops all. Returns the exit
 * status. A second signal during the stop ends the process at once. */
int role_run(const struct program *program, const struct options *options) MUST_USE;

/* True once SIGTERM or SIGINT has come: for a start that takes long, which should then give up. */
bool role_must_stop(void);

/* Makes the process stop orderly and exit with status 1, because a role cannot go on. Any thread;
 * the reason is logged. */
void role_fail(const char *role, const char *reason);

#endif
