// SPDX-License-Identifier: MIT
#include "gateway/gateway.h"

#include <stdlib.h>

#include "gateway/health.h"
#include "gateway/receive.h"
#include "gateway/validate.h"
#include "proto/otlp_reply.h"

/* Any POST on any path but the probes', which the door keeps for itself. */
static const struct http_route routes[] = {
    {.method = "POST", .path = NULL, .handler = receive_post},
    {0},
};

int gateway_readiness(void *arg, struct buf *text)
{
    struct gateway *self = arg;
    struct broker_health broker;
    submitter_health(self->submitter, &broker);
    return health_readiness(&broker, text);
}

struct gateway *gateway_start(const struct role_env *env, struct err *err)
{
    struct gateway *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    /* With a key of our own for the upstreams the sender's is of no use, so it is not stored. */
    self->keeps_sender_key = !*env->options->upstream_key;
    self->validates_otlp = env->options->validate_otlp;
    self->max_body_bytes = env->options->max_body_bytes;
    sem_init(&self->decoders, 0, VALIDATE_DECODERS);
    self->submitter = submitter_new(env, err);
    if (self->submitter) {
        struct httpd_config config = {
            .options = env->options,
            .listen = &env->options->listen,
            .roles = env->roles,
            .routes = routes,
            .admission = receive_admission,
            .error_body = otlp_reply_error,
            .readiness = gateway_readiness,
            .worker_fini = receive_worker_fini,
            .arg = self,
        };
        self->door = httpd_new(&config, err);
    }
    if (!self->door)
        gateway_stop(&self);
    return self;
}

void gateway_stop(struct gateway **self_p)
{
    struct gateway *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    if (self->door)
        httpd_drain(self->door);
    httpd_destroy(&self->door);
    submitter_destroy(&self->submitter);
    sem_destroy(&self->decoders);
    free(self);
}
