// SPDX-License-Identifier: MIT
/*
 * push: one HTTP attempt, on a libcurl easy handle that is used again and again: prepare it, let a
 * multi handle run it, read the result. A push is either for requests or for probes, from birth on.
 * Not thread-safe; nothing blocks.
 */
#ifndef MCPD_COURIER_PUSH_H
#define MCPD_COURIER_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

#include "common/buf.h"
#include "common/err.h"
#include "courier/outcome.h"
#include "courier/upstream_spec.h"
#include "proto/request.h"

#define PUSH_EXCERPT_MAX 1024

typedef struct push push_t;

enum push_kind { PUSH_REQUEST, PUSH_PROBE };

/* owner is the caller's, for push_owner. */
push_t *push_new(enum push_kind kind, void *owner) MUST_USE;
/* It must be in no multi handle. */
void push_destroy(push_t **self_p);

/* To add to a multi handle and take out again; stays the push's. */
CURL *push_handle(push_t *self);
/* The owner of the push that a handle belongs to. */
void *push_owner(CURL *handle);

struct push_target {
    const struct upstream_spec *spec; /* must live until the result was read */
    struct slice our_authorization;   /* header value; empty: the sender's keys are passed on */
    uint64_t connection_age_s;        /* an older connection is not used again */
    bool is_fresh;                    /* uses no old connection at all */
    bool asks_first;                  /* sends the head with Expect: 100-continue and waits a second
                                         for leave to send the body */
};

/* PUSH_REQUEST. request and body must live until the result was read. -1 with the reason when the
 * request cannot be put into HTTP: no path, or control bytes where they would end a header. */
int push_prepare_request(push_t *self, const struct push_target *target,
                         const struct request *request, struct slice body,
                         struct err *err) MUST_USE;
/* PUSH_PROBE. spec has a probe path. */
void push_prepare_probe(push_t *self, const struct upstream_spec *spec);

struct push_result {
    struct attempt_facts facts;
    uint64_t retry_after_s; /* 0: none that can be understood */
    struct slice excerpt;   /* of the answer's body, at most PUSH_EXCERPT_MAX bytes */
    bool is_protobuf;       /* its type */
    uint64_t took_us;
    char detail[CURL_ERROR_SIZE]; /* status, or what libcurl says */
};

/* What became of it; code is the multi handle's. The excerpt lives until the next prepare. wall_s
 * is for a Retry-After that names a date. */
void push_result(push_t *self, CURLcode code, uint64_t wall_s, struct push_result *result);

/* Bytes that may stand in a header line. */
bool push_is_header_safe(struct slice value);

#endif
