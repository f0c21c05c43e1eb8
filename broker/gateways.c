// SPDX-License-Identifier: MIT
#include "broker/gateways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gateways_fini(struct gateways *self)
{
    while (self->first != NULL) {
        struct gateway *next = self->first->next;
        free(self->first);
        self->first = next;
    }
}

struct slice gateway_routing_id(const struct gateway *gateway)
{
    return (struct slice){gateway->routing_id, gateway->routing_id_len};
}

struct gateway *gateways_find(const struct gateways *self, struct slice routing_id)
{
    struct gateway *gateway = self->first;
    while (gateway != NULL && (gateway->is_gone || gateway->routing_id_len != routing_id.len ||
                               memcmp(gateway->routing_id, routing_id.data, routing_id.len) != 0))
        gateway = gateway->next;
    return gateway;
}

static struct gateway *find_session(const struct gateways *self, uint64_t session)
{
    struct gateway *gateway = self->first;
    while (gateway != NULL && (gateway->is_gone || gateway->session != session))
        gateway = gateway->next;
    return gateway;
}

struct gateway *gateways_hello(struct gateways *self, struct slice routing_id, uint64_t session,
                               struct slice name, uint64_t now_ms)
{
    struct gateway *former = gateways_find(self, routing_id);
    struct gateway *gateway = find_session(self, session);
    if (former != NULL && former != gateway)
        former->is_gone = true; /* another session speaks from there now */
    if (gateway == NULL) {
        gateway = calloc(1, sizeof *gateway);
        if (gateway == NULL)
            abort();
        gateway->session = session;
        gateway->next = self->first;
        self->first = gateway;
    }
    gateway->heard_at_ms = now_ms;
    gateway->routing_id_len = routing_id.len;
    memcpy(gateway->routing_id, routing_id.data, routing_id.len);
    snprintf(gateway->name, sizeof gateway->name, SLICE_FORMAT, SLICE_ARGS(name));
    return gateway;
}

void gateways_sweep(struct gateways *self)
{
    struct gateway **at = &self->first;
    while (*at != NULL) {
        struct gateway *gateway = *at;
        if (gateway->is_gone && gateway->submissions == 0) {
            *at = gateway->next;
            free(gateway);
        } else {
            at = &gateway->next;
        }
    }
}
