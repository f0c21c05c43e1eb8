// SPDX-License-Identifier: MIT
/*
 * gateways: intake's sessions of gateways: who they are, where they are reached now, how much of
 * their window is used. A session outlives a dropped connection; it is found by its number in HELLO
 * and by the present routing id otherwise. Intake's thread.
 */
#ifndef MCPD_BROKER_GATEWAYS_H
#define MCPD_BROKER_GATEWAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

#define ROUTING_ID_MAX    255
#define SESSION_NAME_MAX  128
#define WINDOW_VIOLATIONS 8 /* so many, and the session is over */

struct gateway {
    struct gateway *next;
    uint64_t session;
    uint64_t heard_at_ms;
    uint64_t sent_at_ms;
    uint64_t outstanding_bytes; /* submitted, read and not answered */
    uint32_t submissions;       /* that point here; only then may it be freed */
    uint32_t violations;
    bool is_gone;
    size_t routing_id_len;
    char routing_id[ROUTING_ID_MAX];
    char name[SESSION_NAME_MAX];
};

struct gateways {
    struct gateway *first;
};

void gateways_fini(struct gateways *self);
struct gateway *gateways_find(const struct gateways *self, struct slice routing_id);
/* HELLO: the session of that number, made when new, now reached by this routing id. */
struct gateway *gateways_hello(struct gateways *self, struct slice routing_id, uint64_t session,
                               struct slice name, uint64_t now_ms);
/* Frees those that are gone and that nothing points to. */
void gateways_sweep(struct gateways *self);
struct slice gateway_routing_id(const struct gateway *gateway);

#endif
