// SPDX-License-Identifier: MIT
/*
 * lease_client: the courier's half of the queue protocol. It owns one DEALER to the broker: HELLO,
 * heartbeats, renewing of leases under way, re-connecting. All calls from the one thread that made
 * it.
 *
 * A lost broker is not an error: leases of the old session are forgotten (the broker gives them out
 * again, the idempotency key absorbs the double), the client goes on trying. What the courier says
 * of a lease from before is dropped silently.
 */
#ifndef MCPD_LEASE_CLIENT_H
#define MCPD_LEASE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/request.h"

typedef struct lease_client lease_client_t;

/* A request leased to this courier. The caller's until lease_destroy; whatever was said of it must
 * be said before. */
struct lease {
    struct request request; /* slices into memory the lease owns */
    struct slice meta;      /* as stored */
    struct slice body;
    uint32_t rounds; /* failed rounds so far */
    bool is_suspect;
    uint64_t first_fail_s; /* unix seconds, 0 = never failed */
    void *opaque;          /* lease_client's own */
};
typedef struct lease lease_t;

/* Connects in the background. Null with the reason for an endpoint that cannot be used at all. */
lease_client_t *lease_client_new(const char *endpoint, const char *name, struct err *err) MUST_USE;
/* Sends BYE; leases not ended are freed and go back to the broker at once. */
void lease_client_destroy(lease_client_t **self_p);

/* A descriptor to poll for reading. Edge-triggered: call lease_client_recv until it returns null
 * before every poll. Ask anew before every poll: re-connecting changes it. */
int lease_client_fd(lease_client_t *self);

/* The next lease, or null when there is none now. Also handles every other message of the broker.
 */
lease_t *lease_client_recv(lease_client_t *self, uint64_t now_ms) MUST_USE;

/* Heartbeats, renewals, re-connecting. Returns the milliseconds until it wants to be called again.
 */
uint64_t lease_client_tick(lease_client_t *self, uint64_t now_ms);

/* n more leases may be sent. After a re-connect the client itself grants what is outstanding
 * again. */
void lease_client_credit(lease_client_t *self, uint32_t n);
/* Tells the broker (for STATUS and /readyz) how many upstreams answered in the last 30 s. Sent on
 * change and each second. */
void lease_client_upstreams(lease_client_t *self, uint32_t up, uint32_t total, const char *note);

/* The end of a lease; each frees it. */
void lease_done(lease_client_t *self, lease_t **lease_p);
/* Failed everywhere this round: leased again after after_ms, with these counts. */
void lease_retry(lease_client_t *self, lease_t **lease_p, uint64_t after_ms, uint32_t rounds,
                 bool is_suspect, uint64_t first_fail_s);
/* Not attempted (no upstream open): leased again after after_ms, nothing counted. */
void lease_release(lease_client_t *self, lease_t **lease_p, uint64_t after_ms);
/* Refused for good: goes to dead/. reason is a word ("refused"), status the HTTP status or 0,
 * excerpt at most 1 KiB of the answer. */
void lease_dead(lease_client_t *self, lease_t **lease_p, const char *reason, int status,
                const char *upstream, struct slice excerpt);

#endif
