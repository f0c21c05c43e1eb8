// SPDX-License-Identifier: MIT
/*
 * httpd_impl: what the files of the door share among themselves; nobody else includes it.
 *
 *   httpd.c        listeners, threads, drain
 *   httpd_serve.c  the way of one request
 *   httpd_gate.c   the framing gate: is it beyond doubt where this request begins and ends
 *   httpd_key.c    the sender's key
 *   httpd_route.c  which handler, or which refusal
 *   httpd_body.c   the body, whole and in time
 *   httpd_reply.c  answers, in one write
 *   httpd_watch.c  the thread that wakes workers out of a read that takes too long
 */
#ifndef MCPD_HTTPD_IMPL_H
#define MCPD_HTTPD_IMPL_H

#include <civetweb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/httpd.h"
#include "common/metrics.h"

enum refusal {
    REFUSAL_NONE,
#define REFUSAL(id, reason, status, retry_after, code, text) REFUSAL_##id,
#include "common/refusal.def"
#undef REFUSAL
    REFUSAL_COUNT
};

struct refusal_row {
    const char *reason;
    int status;
    int retry_after_s;
    const char *code;
    const char *text;
};
const struct refusal_row *refusal_row(enum refusal refusal);

/* The headers the door itself looks at. */
enum known_header {
    HEADER_HOST,
    HEADER_CONTENT_LENGTH,
    HEADER_TRANSFER_ENCODING,
    HEADER_EXPECT,
    HEADER_AUTHORIZATION,
    HEADER_MCPD_KEY,
    HEADER_IDEMPOTENCY_KEY,
    HEADER_CONTENT_TYPE,
    HEADER_CONTENT_ENCODING,
    HEADER_CONNECTION,
    HEADER_UNKNOWN,
};

/* What the gate found in a head. */
struct httpd_headers {
    const struct mg_request_info *info;
    const char *known[HEADER_UNKNOWN];
    uint64_t content_length; /* 0 when there is none */
    bool is_chunked;
    bool wants_continue;
    bool wants_close;
};

/* --- httpd_watch: one slot a thread of the library --- */

/* Written by its worker, read by the watcher. A line of its own, so that workers do not slow each
 * other down. */
struct watch_slot {
    atomic_bool is_busy;         /* between the head of a request and the end of its answer */
    atomic_bool was_woken;       /* set before each signal */
    atomic_bool is_resumable;    /* a read that was interrupted may go on */
    atomic_uint_fast64_t due_ms; /* when the read under way must have ended; 0: none is */
    atomic_uint_fast64_t since_ms;
    atomic_uint_fast64_t bytes; /* read so far */
    pthread_t thread;           /* this and the next: under the watch's lock */
    bool is_registered;
} __attribute__((aligned(64)));

typedef struct watch watch_t;

/* Starts the watcher for at most `count` threads. */
watch_t *watch_new(size_t count, struct err *err) MUST_USE;
void watch_destroy(watch_t **self_p);
/* Called by each thread of the library at its start and end. Never null. */
struct watch_slot *watch_register(watch_t *self);
void watch_unregister(watch_t *self, struct watch_slot *slot);
/* From now on every thread is woken again and again, whatever it waits for: they are to end. */
void watch_hurry(watch_t *self);
bool watch_is_any_busy(watch_t *self);

/* --- the door, its workers, one request --- */

enum phase { PHASE_SERVING, PHASE_LEAVING, PHASE_REFUSING };

#define STATUS_LIMIT 600

struct httpd {
    struct httpd_config config;
    struct mg_context *context;
    watch_t *watch;
    struct err start_error; /* the library's last message while it starts */
    atomic_bool is_started;
    atomic_int phase;
    atomic_int connections;
    int close_above;  /* connections; above it every reply closes */
    int refuse_above; /* above it requests are refused */
    bool keeps_alive;
    uint64_t max_body_bytes;
    uint64_t max_inflight_bytes;
    atomic_uint_fast64_t inflight_bytes;
    atomic_uint_fast64_t http2_log_at_ms;
    atomic_uint_fast64_t descriptors_at_ms;
    _Atomic(metric_series_t *) replies[STATUS_LIMIT];
    metric_series_t *refused[REFUSAL_COUNT];
};

/* One thread of the library and what it uses again for every request. */
struct worker {
    httpd_t *door;
    struct watch_slot *slot;
    struct buf target;
    struct buf body;
    struct buf reply_body;
    struct buf scratch;
    struct buf out;
    void *handler_data;  /* of the role's */
    uint64_t held_bytes; /* of inflight_bytes */
    uint64_t date_s;
    char date[48];
};

struct exchange {
    httpd_t *door;
    struct worker *worker;
    struct mg_connection *conn;
    struct httpd_headers headers;
    const char *path; /* "" while the request has not parsed */
    struct key_holder holder;
    uint64_t start_ms;
    uint64_t deadline_ms;
    bool is_head;
    bool must_close;
};

/* The library's callbacks for requests that parsed and that did not. */
int serve_request(struct mg_connection *conn);
int serve_error(struct mg_connection *conn, int status, const char *text);

/* 0 (REFUSAL_NONE) when the request's framing is beyond doubt; else why not. `headers` is filled as
 * far as it got. */
enum refusal gate_check(const struct mg_request_info *info, struct httpd_headers *headers);

/* The sender's key, or an empty slice. */
struct slice key_of(const struct httpd_headers *headers);
/* REFUSAL_NONE, KEY, or KEY_MISTYPED, for which no key of the options is looked at. Without a
 * find_key in a time that depends on the length of `given` and the number of keys alone. */
enum refusal key_check(const struct httpd_config *config, struct slice given,
                       struct key_holder *holder);

/* The route for a request; null with the refusal, and for METHOD the Allow line in `allow`. */
const struct http_route *route_find(const struct http_route *routes, const char *method,
                                    const char *path, enum refusal *refusal, struct buf *allow);
bool route_takes_method(const char *wanted, const char *method);

/* Reads the body into worker->body. */
enum refusal body_read(struct exchange *self);
/* Reads and forgets what the sender still sends, within bounds, so that it sees the answer. */
void body_discard(struct exchange *self);
/* Gives back what the request holds of max_inflight_bytes. */
void body_release(struct worker *worker);

/* Sends the reply; returns its status. The body is forgotten first. */
int reply_send(struct exchange *self, const struct http_reply *reply);
/* Sends a reply to a request whose body was not read, puts the worker's buffers back, closes the
 * connection. */
int reply_close(struct exchange *self, struct http_reply *reply);
/* Answers with a refusal, whose connection is always closed. `allow`: extra header lines or null.
 */
int reply_refuse(struct exchange *self, enum refusal refusal, const char *extra_headers);
/* Frees what a big request or answer left behind. */
void worker_trim(struct worker *worker);

#endif
