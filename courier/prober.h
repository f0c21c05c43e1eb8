// SPDX-License-Identifier: MIT
/*
 * prober: asks each upstream for its probe path every 5 s, on a connection of its own, and tells
 * `upstreams` whether it answered 2xx. One thread; nothing blocks.
 */
#ifndef MCPD_COURIER_PROBER_H
#define MCPD_COURIER_PROBER_H

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

#include "courier/upstreams.h"

typedef struct prober prober_t;

/* multi and upstreams are borrowed and must outlive the prober. The first probes are due at once.
 */
prober_t *prober_new(CURLM *multi, upstreams_t *upstreams) MUST_USE;
void prober_destroy(prober_t **self_p);

/* Starts the probes that are due. Returns when the next one is. */
uint64_t prober_turn(prober_t *self, uint64_t now_ms);

/* Takes the end of a transfer; false when it was no probe. */
bool prober_ended(prober_t *self, CURL *handle, CURLcode code, uint64_t now_ms);

#endif
