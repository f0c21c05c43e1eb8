// SPDX-License-Identifier: MIT
/*
 * courier: the actor that delivers. Its one thread owns the socket to the broker and all transfers
 * to the upstreams.
 */
#ifndef MCPD_COURIER_COURIER_H
#define MCPD_COURIER_COURIER_H

#include "common/buf.h"
#include "common/err.h"
#include "common/options.h"

typedef struct courier courier_t;

/* Starts it. options and the texts must outlive it. Null with the reason: an upstream, a key or an
 * endpoint that cannot be used. */
courier_t *courier_new(const struct options *options, const char *endpoint, const char *name,
                       struct err *err) MUST_USE;

/* Stops it: nothing new is begun, what is under way may take a few seconds to end, all other leases
 * go back to the broker. Blocks. */
void courier_destroy(courier_t **self_p);

/* The httpd_readiness of a process that is a courier only: the first word is ok or degraded. Any
 * thread. */
int courier_readiness(void *arg, struct buf *text);

#endif
