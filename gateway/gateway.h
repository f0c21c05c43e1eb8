// SPDX-License-Identifier: MIT
/*
 * gateway: the door towards senders, and the submitter behind it. Started and stopped by the role's
 * thread; in between only its callbacks run.
 */
#ifndef MCPD_GATEWAY_H
#define MCPD_GATEWAY_H

#include <semaphore.h>
#include <stdbool.h>

#include "common/httpd.h"
#include "common/role.h"
#include "gateway/submitter.h"

struct gateway {
    submitter_t *submitter;
    httpd_t *door;
    bool keeps_sender_key; /* Authorization and x-mcpd-key travel with the request */
    bool validates_otlp;
    uint64_t max_body_bytes;
    sem_t decoders; /* how many more bodies may be decoded now */
};

/* Null with the reason: a port in use, an endpoint that cannot be used. */
struct gateway *gateway_start(const struct role_env *env, struct err *err) MUST_USE;

/* Drains (requests under way are answered, later ones get 503), then closes. */
void gateway_stop(struct gateway **self_p);

/* What /readyz says; an httpd_readiness. arg: the gateway. */
int gateway_readiness(void *arg, struct buf *text);

#endif
