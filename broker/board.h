// SPDX-License-Identifier: MIT
/* board: delivery's part of what a broker tells of itself, for intake and for the metrics. */
#ifndef MCPD_BROKER_BOARD_H
#define MCPD_BROKER_BOARD_H

#include "broker/couriers.h"
#include "broker/ledger.h"
#include "broker/posts.h"

/* Sets the metrics, too, but for the number of waiting requests, which is counted up and down as
 * they come and go; with is_recount it is set anew. The post is the caller's to send. */
struct post_board *board_new(spool_t *spool, const ledger_t *ledger,
                             const struct couriers *couriers, bool is_recount) MUST_USE;

#endif
