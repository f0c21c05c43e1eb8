// SPDX-License-Identifier: MIT
/*
 * deliveries: the leased requests of this courier, from the lease to its end. It holds as many as
 * workers may be under way at once and a few more, so that none waits for the broker; gives each to
 * the upstream that `upstreams` chooses, then to the next one when that failed, and ends the lease
 * by what came out. One thread; nothing blocks.
 */
#ifndef MCPD_COURIER_DELIVERIES_H
#define MCPD_COURIER_DELIVERIES_H

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

#include "courier/upstreams.h"
#include "proto/lease_client.h"

typedef struct deliveries deliveries_t;

struct deliveries_config {
    unsigned workers;               /* attempts under way at once, 1 and up */
    struct slice our_authorization; /* see push.h; must outlive the deliveries */
    CURLM *multi;                   /* these three are borrowed and must outlive them too */
    lease_client_t *lease_client;
    upstreams_t *upstreams;
};

deliveries_t *deliveries_new(const struct deliveries_config *config) MUST_USE;
/* What is under way is broken off and its leases are released. */
void deliveries_destroy(deliveries_t **self_p);

/* Takes over a lease. */
void deliveries_add(deliveries_t *self, lease_t **lease_p);

/* Starts what can be started and ends the round of what no upstream is left for. True when a
 * transfer was started. */
bool deliveries_turn(deliveries_t *self, uint64_t now_ms);

/* The end of a transfer that deliveries_turn started. */
void deliveries_ended(deliveries_t *self, CURL *handle, CURLcode code, uint64_t now_ms);

/* Asks the broker for as many leases as there is room for; none while no upstream is open. */
void deliveries_ask(deliveries_t *self, uint64_t now_ms);

/* Releases what is not under way; nothing new is started or asked for from now on. */
void deliveries_stop(deliveries_t *self);
/* Nothing is under way. */
bool deliveries_are_idle(const deliveries_t *self);

#endif
