// SPDX-License-Identifier: MIT
/*
 * upstream_spec: what one --upstream says: "URL [option=value]...", options separated by blanks.
 * Plain data once parsed. Any thread.
 */
#ifndef MCPD_COURIER_UPSTREAM_SPEC_H
#define MCPD_COURIER_UPSTREAM_SPEC_H

#include <stdint.h>

#include "common/err.h"

struct upstream_spec {
    char *name;          /* label in metrics and logs; the URL as given unless name= is */
    char *origin;        /* scheme://host[:port]/, normalised */
    char *prefix;        /* path put before every target; no slash at its end; may be empty */
    char *probe_path;    /* target of the probe, prefix included; null: not probed */
    char *ca_file;       /* null: the system's store */
    uint64_t timeout_ms; /* of one attempt */
    uint64_t connect_timeout_ms; /* of its connecting */
};

/* -1 with the reason, which names the option and what is allowed; then nothing is owned. */
int upstream_spec_parse(struct upstream_spec *self, const char *text, struct err *err) MUST_USE;
void upstream_spec_fini(struct upstream_spec *self);

#endif
