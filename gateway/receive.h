// SPDX-License-Identifier: MIT
/* receive: the handler of every POST. Runs on the door's worker threads. */
#ifndef MCPD_RECEIVE_H
#define MCPD_RECEIVE_H

#include "common/httpd.h"

/* Checks or derives the Idempotency-Key, submits, waits for the verdict, answers. arg: the
 * gateway. */
http_handler receive_post;

/* Refuses what the broker is known to refuse, so that its body need not be read. arg: the gateway.
 */
http_admission receive_admission;

/* Frees what receive_post keeps for its thread. */
void receive_worker_fini(void *worker);

#endif
