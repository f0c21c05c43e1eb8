// SPDX-License-Identifier: MIT
/* board: delivery's part of what a broker tells of itself, for intake and for the metrics. */
#ifndef MCPD_BROKER_BOARD_H
#define MCPD_BROKER_BOARD_H

#include "broker/couriers.h"
#include "broker/ledger.h"
#include "broker/posts.h"

/* Sets the metrics, too. That of waiting requests is counted up and down as they come and go, so
 * that it is true at any moment; here it is only corrected, by *drift, where it was off by the same
 * amount the last time (damaged records leave the spool uncounted). The post is the caller's to
 * send. */
struct post_board *board_new(spool_t *spool, const ledger_t *ledger,
                             const struct couriers *couriers, int64_t *drift) MUST_USE;

#endif
