// SPDX-License-Identifier: MIT
/*
 * health: what /readyz says, from what the broker last said of itself. Pure; any thread.
 *
 *   200 ok                  an upstream answered or took a delivery in the last 30 seconds
 *   200 degraded; DETAIL    none did, but there is room to buffer
 *   503 full                the spool takes nothing more, or its disk does not
 *   503 no upstream         none is reachable and the spool is at least 80 % full
 *   503 no broker           nobody answers on the other side
 *   503 write error         the broker cannot write
 *
 * What else is wrong follows behind a semicolon: "ok; 3 corrupt records".
 */
#ifndef MCPD_HEALTH_H
#define MCPD_HEALTH_H

#include "common/buf.h"
#include "gateway/submitter.h"

/* Returns the HTTP status and adds the text. */
int health_readiness(const struct broker_health *broker, struct buf *text);

/* What the broker would say to a request now: STORED as far as anyone knows, or why not. */
enum verdict health_verdict(const struct broker_health *broker);

#endif
