// SPDX-License-Identifier: MIT
/*
 * intake: the actor that takes requests from gateways, makes them durable and says so. It owns the
 * gateways' ROUTER and the active segment.
 */
#ifndef MCPD_BROKER_INTAKE_H
#define MCPD_BROKER_INTAKE_H

#include "broker/core.h"

typedef struct intake intake_t;

/* Binds env->gateway_endpoint and starts the thread. core must outlive it. Null with the reason. */
intake_t *intake_new(struct broker_core *core, struct err *err) MUST_USE;
/* Finishes what was read, tells gateways BYE, seals the segment, ends. */
void intake_destroy(intake_t **self_p);

#endif
