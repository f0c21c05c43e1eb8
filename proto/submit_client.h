// SPDX-License-Identifier: MIT
/*
 * submit_client: the gateway's half of the queue protocol: one DEALER to one broker, SUBMIT out,
 * STORED and STATUS in. It keeps no requests: who submits remembers what a seq stands for. All
 * calls from the one thread that made it.
 */
#ifndef MCPD_SUBMIT_CLIENT_H
#define MCPD_SUBMIT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

typedef struct submit_client submit_client_t;

/* Connects in the background. silence_ms: a broker not heard for so long is gone. */
submit_client_t *submit_client_new(const char *endpoint, const char *name, uint64_t silence_ms,
                                   struct err *err) MUST_USE;
/* Sends BYE. */
void submit_client_destroy(submit_client_t **self_p);

/* A descriptor to poll for reading, but only while submit_client_may_sleep; ask anew before every
 * poll. */
int submit_client_fd(const submit_client_t *self);
/* Nothing was sent since submit_client_recv last returned SUBMIT_NOTHING: no event can be missed.
 */
bool submit_client_may_sleep(const submit_client_t *self);

/* There is a session and the broker was heard of within silence_ms. */
bool submit_client_is_alive(const submit_client_t *self, uint64_t now_ms);
/* Bytes that may be submitted now without going over the broker's window. */
uint64_t submit_client_window(const submit_client_t *self);
/* Largest body the broker takes; 0 until it was heard of. */
uint64_t submit_client_max_record(const submit_client_t *self);

/* Begins a SUBMIT of count requests of that many bytes in all, within the limits of proto/wire.h.
 * 0: exactly count calls of submit_client_add must follow. -1: the broker cannot be reached. */
int submit_client_begin(submit_client_t *self, uint64_t seq, uint32_t count, uint64_t bytes,
                        uint64_t now_ms) MUST_USE;
/* One request, without a copy: release is called twice with hint, from any thread, when meta and
 * when body are no longer needed. */
typedef void submit_release(void *data, void *hint);
void submit_client_add(submit_client_t *self, struct slice meta, struct slice body,
                       submit_release *release, void *hint, bool is_last);
/* Who submitted no longer waits for an answer to these bytes, or got it. */
void submit_client_forget(submit_client_t *self, uint64_t bytes);

enum submit_event {
    SUBMIT_NOTHING, /* nothing more to read now */
    SUBMIT_STORED,  /* seq and verdicts (wire bytes, enum verdict) */
    SUBMIT_STATUS,  /* the fields of status */
    SUBMIT_LOST     /* the broker is gone or forgot this session: nothing will be answered */
};

struct submit_status {
    uint64_t used_bytes;
    uint64_t max_bytes;
    struct slice intake; /* until the next recv, as note */
    uint32_t upstreams_up;
    uint32_t upstreams_total;
    uint32_t oldest_s;
    struct slice note;
};

struct submit_news {
    uint64_t seq;
    struct slice verdicts;
    struct submit_status status;
};

enum submit_event submit_client_recv(submit_client_t *self, struct submit_news *news,
                                     uint64_t now_ms) MUST_USE;
/* Heartbeats and re-connecting. Returns the milliseconds until it wants to be called again. */
uint64_t submit_client_tick(submit_client_t *self, uint64_t now_ms);

#endif
