// SPDX-License-Identifier: MIT
/*
 * The way of one request: gate, probe or route, drain and load, key, length, body, handler, answer.
 * Whatever fails on the way is answered at once, and its connection closed, since what the sender
 * goes on sending is not worth a guess.
 */
#include "common/httpd_impl.h"

#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/descriptors.h"
#include "common/log.h"

#define HTTP2_LOG_EVERY_MS   60000
#define DESCRIPTORS_EVERY_MS 1000
#define DESCRIPTORS_PERCENT  80 /* above it /readyz says so */

const char *httpd_header(const struct http_request *req, const char *name)
{
    const struct mg_request_info *info = req->headers->info;
    for (int i = 0; i < info->num_headers; i++)
        if (strcasecmp(info->http_headers[i].name, name) == 0)
            return info->http_headers[i].value;
    return NULL;
}

/* --- what is served without a key --- */

static void serve_healthz(httpd_t *self, struct http_reply *reply)
{
    (void)self;
    reply->status = buf_add_str(&reply->body, "ok") == 0 ? 200 : 500;
}

/* True for one caller in so many milliseconds. */
static bool is_my_turn(atomic_uint_fast64_t *due_ms, uint64_t every_ms)
{
    uint64_t now_ms = clock_mono_ms();
    uint64_t due = atomic_load(due_ms);
    return now_ms >= due && atomic_compare_exchange_strong(due_ms, &due, now_ms + every_ms);
}

static void look_at_descriptors(httpd_t *self)
{
    uint64_t used, max;
    if (!is_my_turn(&self->descriptors_at_ms, DESCRIPTORS_EVERY_MS) ||
        descriptors_count(&used, &max) == -1)
        return;
    metrics_set(METRIC_open_fds, (int64_t)used);
    metrics_set(METRIC_max_fds, (int64_t)max);
}

static void add_descriptors(httpd_t *self, struct http_reply *reply)
{
    look_at_descriptors(self);
    int64_t used = metrics_get(METRIC_open_fds), max = metrics_get(METRIC_max_fds);
    int64_t percent = max > 0 ? used * 100 / max : 0;
    if (percent > DESCRIPTORS_PERCENT &&
        buf_printf(&reply->body, "; fds %lld %%", (long long)percent) == -1)
        reply->status = 503;
}

static void serve_readyz(httpd_t *self, struct http_reply *reply)
{
    if (atomic_load(&self->phase) == PHASE_SERVING)
        reply->status = self->config.readiness(self->config.arg, &reply->body);
    else
        reply->status = buf_add_str(&reply->body, "draining") == 0 ? 503 : 500;
    add_descriptors(self, reply);
}

static void serve_metrics(httpd_t *self, struct http_reply *reply)
{
    look_at_descriptors(self);
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply->status = metrics_render(self->config.roles, &reply->body) == 0 ? 200 : 500;
}

struct probe {
    const char *path;
    void (*serve)(httpd_t *self, struct http_reply *reply);
};

static const struct probe *probe_find(const char *path)
{
    static const struct probe probes[] = {
        {"/healthz", serve_healthz},
        {"/readyz", serve_readyz},
        {"/metrics", serve_metrics},
    };
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++)
        if (strcmp(path, probes[i].path) == 0)
            return &probes[i];
    return NULL;
}

/* --- one request --- */

static struct http_reply reply_begin(struct worker *worker)
{
    return (struct http_reply){.body = worker->reply_body, .scratch = worker->scratch};
}

static bool must_close(const struct exchange *self)
{
    httpd_t *door = self->door;
    return !door->keeps_alive || self->headers.wants_close ||
           atomic_load_explicit(&door->phase, memory_order_relaxed) == PHASE_REFUSING ||
           atomic_load_explicit(&door->connections, memory_order_relaxed) > door->close_above;
}

/* Sends and puts the buffers back. */
static int reply_end(struct exchange *self, struct http_reply *reply)
{
    self->must_close = must_close(self); /* now: a drain may have begun meanwhile */
    int status = reply_send(self, reply);
    self->worker->reply_body = reply->body;
    self->worker->scratch = reply->scratch;
    return status;
}

static int serve_probe(struct exchange *self, const struct probe *probe)
{
    if (!route_takes_method("GET", self->headers.info->request_method))
        return reply_refuse(self, REFUSAL_METHOD, "Allow: GET, HEAD\r\n");
    struct http_reply reply = reply_begin(self->worker);
    probe->serve(self->door, &reply);
    return reply_end(self, &reply);
}

/* Whether the door takes on one more request at all. */
static enum refusal admit(struct exchange *self, const struct http_route *route)
{
    httpd_t *door = self->door;
    if (atomic_load(&door->phase) == PHASE_REFUSING)
        return REFUSAL_DRAINING;
    if (atomic_load_explicit(&door->connections, memory_order_relaxed) > door->refuse_above)
        return REFUSAL_BUSY;
    if (!route->is_open) {
        enum refusal refusal = key_check(&door->config, key_of(&self->headers), &self->holder);
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
    if (self->headers.content_length > door->max_body_bytes)
        return REFUSAL_TOO_LARGE;
    return REFUSAL_NONE;
}

static enum refusal invite_body(struct exchange *self)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!self->headers.wants_continue)
        return REFUSAL_NONE;
    self->headers.wants_continue = false;
    int written = mg_write(self->conn, text, sizeof text - 1);
    return written == (int)sizeof text - 1 ? REFUSAL_NONE : REFUSAL_BODY_SHORT;
}

/* The target as it was received: the library has cut it at the '?'. */
static const char *target_of(struct exchange *self)
{
    const char *query = self->headers.info->query_string;
    if (!query)
        return self->path;
    struct buf *target = &self->worker->target;
    buf_reset(target);
    if (buf_add_str(target, self->path) == -1 || buf_add_str(target, "?") == -1 ||
        buf_add_str(target, query) == -1)
        return NULL;
    return buf_cstr(target);
}

static struct http_request request_of(struct exchange *self, const char *target)
{
    const struct mg_request_info *info = self->headers.info;
    return (struct http_request){
        .method = info->request_method,
        .target = target,
        .path = self->path,
        .query = info->query_string ? info->query_string : "",
        .key = key_of(&self->headers),
        .holder = self->holder,
        .deadline_ms = self->deadline_ms,
        .headers = &self->headers,
        .worker = &self->worker->handler_data,
    };
}

/* The role has its say before the body is read; false: it has answered. */
static bool is_admitted(struct exchange *self, const char *target, int *status)
{
    const struct httpd_config *config = &self->door->config;
    if (!config->admission)
        return true;
    struct http_request req = request_of(self, target);
    struct http_reply reply = reply_begin(self->worker);
    if (config->admission(config->arg, &req, &reply))
        return true;
    *status = reply_close(self, &reply);
    return false;
}

static int run_handler(struct exchange *self, const struct http_route *route, const char *target)
{
    struct worker *worker = self->worker;
    struct http_request req = request_of(self, target);
    req.body = worker->body;
    struct http_reply reply = reply_begin(worker);
    route->handler(self->door->config.arg, &req, &reply);
    worker->body = req.body;
    return reply_end(self, &reply);
}

static int serve_route(struct exchange *self)
{
    struct worker *worker = self->worker;
    enum refusal refusal = REFUSAL_NONE;
    buf_reset(&worker->target);
    const struct http_route *route =
        route_find(self->door->config.routes, self->headers.info->request_method, self->path,
                   &refusal, &worker->target);
    if (!route)
        return reply_refuse(self, refusal, refusal == REFUSAL_METHOD ? worker->target.data : NULL);
    refusal = admit(self, route);
    if (refusal != REFUSAL_NONE)
        return reply_refuse(self, refusal,
                            refusal_row(refusal)->status == 401 ? "WWW-Authenticate: Bearer\r\n"
                                                                : NULL);
    const char *target = target_of(self);
    if (!target)
        return reply_refuse(self, REFUSAL_REQUEST_LINE, NULL);
    int status;
    if (!is_admitted(self, target, &status))
        return status;
    refusal = invite_body(self);
    if (refusal == REFUSAL_NONE)
        refusal = body_read(self);
    return refusal == REFUSAL_NONE ? run_handler(self, route, target)
                                   : reply_refuse(self, refusal, NULL);
}

static int serve(struct exchange *self, const struct mg_request_info *info)
{
    self->is_head = strcmp(info->request_method, "HEAD") == 0;
    self->path = info->local_uri_raw;
    enum refusal refusal = gate_check(info, &self->headers);
    if (refusal != REFUSAL_NONE)
        return reply_refuse(self, refusal, NULL);
    const struct probe *probe = probe_find(self->path);
    if (probe)
        return serve_probe(self, probe);
    uint64_t began_us = clock_mono_us();
    int status = serve_route(self);
    metrics_observe_us(METRIC_http_request_seconds, clock_mono_us() - began_us);
    return status;
}

static struct exchange exchange_begin(struct mg_connection *conn)
{
    struct worker *worker = mg_get_thread_pointer(conn);
    httpd_t *door = worker->door;
    uint64_t now_ms = clock_mono_ms();
    return (struct exchange){
        .door = door,
        .worker = worker,
        .conn = conn,
        .path = "",
        .start_ms = now_ms,
        .deadline_ms = now_ms + door->config.options->request_timeout_seconds * 1000,
    };
}

int serve_request(struct mg_connection *conn)
{
    struct exchange exchange = exchange_begin(conn);
    struct worker *worker = exchange.worker;
    /* Before the phase is looked at: httpd_drain sets the phase and then looks for busy workers. */
    atomic_store(&worker->slot->is_busy, true);
    int status = serve(&exchange, mg_get_request_info(conn));
    worker_trim(worker);
    atomic_store(&worker->slot->is_busy, false);
    return status;
}

/* --- what the library refuses itself --- */

static void log_http2(httpd_t *door, const struct mg_request_info *info)
{
    if (!is_my_turn(&door->http2_log_at_ms, HTTP2_LOG_EVERY_MS))
        return;
    log_at(LEVEL_WARN, "http.http2", NULL, LOG_TEXT("peer", info->remote_addr),
           LOG_TEXT("hint", "this port speaks OTLP/HTTP, not gRPC"));
}

static enum refusal refusal_of(httpd_t *door, const struct mg_request_info *info, int status)
{
    if (info->request_method && strcmp(info->request_method, "PRI") == 0) {
        log_http2(door, info);
        return REFUSAL_HTTP2;
    }
    if (status == 505)
        return REFUSAL_VERSION;
    if (status == 411) /* it has a Content-Length, only no number in it */
        return REFUSAL_CONTENT_LENGTH;
    return REFUSAL_MALFORMED;
}

int serve_error(struct mg_connection *conn, int status, const char *text)
{
    (void)text;
    struct exchange exchange = exchange_begin(conn);
    enum refusal refusal = refusal_of(exchange.door, mg_get_request_info(conn), status);
    reply_refuse(&exchange, refusal, NULL);
    worker_trim(exchange.worker);
    return 0;
}
