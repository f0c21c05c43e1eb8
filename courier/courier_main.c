// SPDX-License-Identifier: MIT
#include "courier/courier_main.h"

#include <curl/curl.h>

#include "courier/courier.h"

static void *start(const struct role_env *env, struct err *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        err_set(err, "libcurl cannot be set up");
        return NULL;
    }
    return courier_new(env->options, env->courier_endpoint, env->name, err);
}

static void stop(void **self_p)
{
    courier_t *self = *self_p;
    courier_destroy(&self);
    *self_p = NULL;
}

const struct role courier_role = {
    .name = "courier",
    .bit = R_COURIER,
    .start = start,
    .stop = stop,
    .readiness = courier_readiness,
};
