// SPDX-License-Identifier: MIT
/*
 * status: what a broker tells gateways of itself, and whether it has news. Intake's thread.
 */
#ifndef MCPD_BROKER_STATUS_H
#define MCPD_BROKER_STATUS_H

#include "broker/appender.h"
#include "broker/core.h"
#include "broker/posts.h"
#include "proto/wire.h"

struct status {
    struct wire_STATUS told; /* what gateways were told last */
    char note[256];          /* what told.note points to */
    uint64_t due_at_ms;      /* of the next one, even without news */
};

/* True when gateways are to be told, *out; good until the next call. board: delivery's part. */
bool status_is_due(struct status *self, struct broker_core *core, const appender_t *appender,
                   const struct post_board *board, uint64_t now_ms, struct wire_STATUS *out);
/* Until it is worth to ask again. */
uint64_t status_wait_ms(const struct status *self, uint64_t now_ms);
/* The next status_is_due says yes: somebody new is there. */
void status_hurry(struct status *self);

#endif
