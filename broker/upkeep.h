// SPDX-License-Identifier: MIT
/*
 * upkeep: the actor that writes what became of records (ack files), buries dead letters, removes
 * segments that are done and watches the file system. Nothing waits for it but dead letters.
 */
#ifndef MCPD_BROKER_UPKEEP_H
#define MCPD_BROKER_UPKEEP_H

#include "broker/core.h"

typedef struct upkeep upkeep_t;

/* Starts the thread. core must outlive it. Null with the reason. */
upkeep_t *upkeep_new(struct broker_core *core, struct err *err) MUST_USE;
/* Works off what was posted, flushes, ends. */
void upkeep_destroy(upkeep_t **self_p);

#endif
