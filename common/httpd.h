// SPDX-License-Identifier: MIT
/*
 * httpd: the HTTP/1.1 door that gateway and daemon share, on civetweb. It owns what is the same for
 * both: listeners, the framing gate, the key check, reading the body whole under limits and a
 * deadline, one-write replies, probes, drain. A handler sees only requests whose framing is beyond
 * doubt, whose key is right and whose body is complete.
 *
 * Handlers run on the door's worker threads, one request a thread, and may block.
 */
#ifndef MCPD_HTTPD_H
#define MCPD_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/grant.h"
#include "common/options.h"

typedef struct httpd httpd_t;

/* A request whose body has been read. All pointers live until the handler returned. */
struct http_request {
    const char *method;
    const char *target; /* as received, query included */
    const char *path;   /* target without the query; never decoded */
    const char *query;  /* behind '?', or "" */
    struct slice key;   /* the sender's key: Bearer token or x-mcpd-key; empty when none came */
    struct key_holder holder; /* who that is, as find_key said */
    struct buf body;          /* the handler may buf_steal it */
    uint64_t deadline_ms;     /* clock_mono_ms by which the request must be answered */
    const struct httpd_headers *headers;
    void **worker; /* the handler's own, one a worker thread, null at first; see worker_fini */
};

/* A header's value by its name (any case), or null. Each header the door cares for is single;
 * others give the first. */
const char *httpd_header(const struct http_request *req, const char *name);

/* Who presents this key (empty: none came): false when nobody known does. Must not block. */
typedef bool http_find_key(void *arg, struct slice key, struct key_holder *holder);

/* What a handler answers. Zeroed before the handler runs. */
struct http_reply {
    int status;
    const char *content_type;  /* static text; null: text/plain */
    const char *extra_headers; /* null or whole lines, each ended by \r\n; must outlive the handler
                                  call: static, or in `scratch` */
    struct buf body;           /* ready for use; the door frees it */
    struct buf scratch;        /* ready for use; the door frees it */
    int retry_after_s;         /* 0: no Retry-After header */
};

typedef void http_handler(void *arg, struct http_request *req, struct http_reply *reply);

/* Fills the reply's body for a refusal that the door makes itself (401, 405, 413, 503, ...), so
 * that each role answers errors in its own forms. status, retry_after_s and extra_headers are set
 * already; content_type is the request's, or null. For requests that did not parse, method and path
 * are "". */
typedef void http_error_body(void *arg, const char *method, const char *path,
                             const char *content_type, const char *code, const char *text,
                             struct http_reply *reply);

/* Asked before a request's body is read (req has none yet), when its key and length are in order:
 * false with the answer, after which the connection is closed, or true to read it. Must not block.
 */
typedef bool http_admission(void *arg, const struct http_request *req, struct http_reply *reply);

struct http_route {
    const char *method; /* "GET", "POST" */
    const char *path;   /* exact; one ending in '/' matches every path below it; null: any path */
    http_handler *handler;
    bool is_open; /* needs no key */
};

/* Written by the role into *text (static or owned by it); status 200 or 503. Called often; must not
 * block. */
typedef int httpd_readiness(void *arg, struct buf *text);

struct httpd_config {
    const struct options *options; /* the door's options of options.def */
    const struct text_list *listen;
    bool is_admin;  /* only probes and metrics: few threads, no keep-alive, no key */
    unsigned roles; /* role_bits whose metrics /metrics shows */
    const struct http_route *routes; /* ended by a null handler; tried in order; a path that is
                                        known under another method only gets 405 with Allow */
    http_find_key *find_key;         /* null: the keys of --ingest-key are known, all alike */
    http_admission *admission;       /* null: whatever the door admits */
    http_error_body *error_body;     /* null for an admin door */
    httpd_readiness *readiness;
    void (*worker_fini)(void *worker); /* frees what handlers left in *req->worker; may be null */
    void *arg;                         /* given to all callbacks but worker_fini */
};

/* Opens the listeners and starts serving: /healthz, /readyz, /metrics (no key) and the routes.
 * Null with the reason (a port in use, named; a TLS port, which is refused). The config is copied,
 * what it points to must outlive the door. */
httpd_t *httpd_new(const struct httpd_config *config, struct err *err) MUST_USE;

/* The port of the first address, for those who asked for port 0. */
int httpd_port(const httpd_t *self);

/* Drain: /readyz answers 503 `draining` at once and serving goes on for drain_delay; then replies
 * close their connections, new requests get 503 with Retry-After: 1, and the call returns when no
 * request is under way or after drain_timeout. A second call returns at once.
 * An admin door goes on answering, with /readyz at `draining`; its readiness is not called any more
 * and may go away. */
void httpd_drain(httpd_t *self);

/* The rows of docs/statuses.md: what the door refuses itself. */
void httpd_markdown(FILE *out);

/* Closes everything. Requests still in a handler are waited for: let them go first. */
void httpd_destroy(httpd_t **self_p);

#endif
