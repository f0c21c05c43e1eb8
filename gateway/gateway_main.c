// SPDX-License-Identifier: MIT
#include "gateway/gateway_main.h"

#include "gateway/gateway.h"

static void *start(const struct role_env *env, struct err *err)
{
    return gateway_start(env, err);
}

static void stop(void **self_p)
{
    struct gateway *self = *self_p;
    *self_p = NULL;
    gateway_stop(&self);
}

const struct role gateway_role = {
    .name = "gateway",
    .bit = R_GATEWAY,
    .start = start,
    .stop = stop,
    .readiness = gateway_readiness,
};
