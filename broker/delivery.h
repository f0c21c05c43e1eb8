// SPDX-License-Identifier: MIT
/*
 * delivery: the actor that leases requests to couriers and hears what became of them. It owns the
 * couriers' ROUTER, the ledger and all leases. It never syncs, so that a slow disk expires no
 * lease.
 */
#ifndef MCPD_BROKER_DELIVERY_H
#define MCPD_BROKER_DELIVERY_H

#include "broker/core.h"

typedef struct delivery delivery_t;

/* Binds env->courier_endpoint and starts the thread. core must outlive it. Null with the reason. */
delivery_t *delivery_new(struct broker_core *core, struct err *err) MUST_USE;
/* Gives out nothing more, hands what it knows to upkeep, tells couriers BYE, ends. */
void delivery_destroy(delivery_t **self_p);

#endif
