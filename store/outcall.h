// SPDX-License-Identifier: MIT
/*
 * outcall: one JSON request to a service that the settings name, on a libcurl handle: prepare it,
 * let a multi handle run it, read the result. Not thread-safe; nothing blocks.
 */
#ifndef MCPD_STORE_OUTCALL_H
#define MCPD_STORE_OUTCALL_H

#include <stdint.h>

#include <curl/curl.h>

#include "common/buf.h"

#define OUTCALL_ANSWER_MAX ((size_t)64 * 1024)

typedef struct outcall outcall_t;

/* owner is the caller's, for outcall_owner. */
outcall_t *outcall_new(void *owner) MUST_USE;
void outcall_destroy(outcall_t **self_p); /* it must be in no multi handle */
CURL *outcall_handle(outcall_t *self);
void *outcall_owner(CURL *handle);

struct outcall_target {
    const char *url;
    const char *key; /* presented as a Bearer token; null: none */
    uint64_t timeout_ms;
};

/* The body must live until the result was read. -1 with the reason where the key is none that can
 * stand in a header. */
int outcall_prepare(outcall_t *self, const struct outcall_target *target, struct slice body,
                    struct err *err) MUST_USE;

/* code is the multi handle's. 0 with the answer's body, which lives until the next prepare, for a
 * 2xx; else -1 with the reason. */
int outcall_result(outcall_t *self, CURLcode code, struct slice *answer, struct err *err) MUST_USE;

#endif
