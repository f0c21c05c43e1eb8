// SPDX-License-Identifier: MIT
/*
 * One request: decode (bounded to a few at once), make its key, hand it to the writer, answer with
 * what the writer's transaction says. The decoded batch is all that waits for the disk; the
 * inflated body is let go before.
 */
#include "store/ingest.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/sha256.h"
#include "proto/idem.h"
#include "proto/otlp_reply.h"
#include "store/ingest_reply.h"
#include "store/refusal.h"
#include "store/rows.h"

/* How long a key is kept that the daemon made itself: only a resend of the same bytes has it. */
#define DERIVED_KEY_TTL_S 3600

static const char otlp_types[] = "this path takes application/x-protobuf and application/json";
static const char *const door_types[DOOR_COUNT] = {
    [DOOR_TRACES] = otlp_types,
    [DOOR_LOGS] = otlp_types,
    [DOOR_METRICS] = otlp_types,
    [DOOR_NATIVE] = "this path takes application/json and application/msgpack",
};

/* A request while it is dealt with. */
struct intake {
    struct daemon *daemon;
    enum ingest_door door;
    const struct http_request *req;
    struct http_reply *reply;
    const struct settings_project *project; /* of the key; null: the settings have nothing of it */
};

static void digest(struct slice text, uint8_t out[BACKEND_DIGEST_LEN])
{
    uint8_t full[SHA256_LEN];
    sha256(text, full);
    memcpy(out, full, BACKEND_DIGEST_LEN);
}

/* The request's key: the body's own, else the header's, else one made of what was sent. */
static int make_key(const struct daemon *daemon, const struct http_request *req, struct slice body,
                    struct backend_request *request, struct err *err)
{
    struct slice key;
    const char *given = httpd_header(req, "Idempotency-Key");
    request->key_ttl_s = daemon->options->idempotency_ttl / 1000;
    if (given && idem_check(slice_of(given), &key, err) == -1)
        return -1;
    if (request->batch.idempotency_key.len > 0) {
        key = request->batch.idempotency_key;
    } else if (!given) {
        char derived[IDEM_DERIVED_LEN + 1];
        idem_derive(slice_of(req->target), slice_of(httpd_header(req, "Content-Encoding")), body,
                    derived);
        digest(slice_of(derived), request->key);
        if (request->key_ttl_s > DERIVED_KEY_TTL_S)
            request->key_ttl_s = DERIVED_KEY_TTL_S;
        return 0;
    }
    digest(key, request->key);
    return 0;
}

/* From when on events are taken. */
static uint64_t oldest_ns(const struct settings_project *project, uint64_t now_ns)
{
    uint64_t kept_ns = project ? project->retention_days * DAY_NS : 0;
    return kept_ns > 0 && kept_ns < now_ns ? now_ns - kept_ns : 0;
}

/* Inflates and decodes the body into the request. */
static enum batch_result decode(const struct intake *intake, const struct body_format *format,
                                unsigned types, struct backend_request *request, struct err *err)
{
    const struct http_request *req = intake->req;
    struct slice body = {.data = req->body.data, .len = req->body.len};
    uint64_t now_ns = clock_wall_ns();
    struct batch_policy policy = {
        .now_ns = now_ns, .oldest_ns = oldest_ns(intake->project, now_ns), .types = types};
    struct slice plain;
    struct buf inflated;
    buf_init(&inflated, BODY_INFLATE_FACTOR * intake->daemon->options->max_body_bytes);
    enum batch_result result = body_decode(format, slice_of(httpd_header(req, "Content-Encoding")),
                                           body, &policy, &inflated, &request->batch, &plain, err);
    if (result == BATCH_OK)
        digest(plain, request->body);
    buf_fini(&inflated);
    if (result == BATCH_OK && make_key(intake->daemon, req, body, request, err) == -1)
        result = BATCH_BAD_KEY;
    return result;
}

static void count_results(const struct ingest_series *series, const struct backend_counts *counts)
{
    metric_series_add(series->accepted, counts->accepted);
    metric_series_add(series->duplicate, counts->duplicate);
    metric_series_add(series->rejected, counts->rejected);
}

/* Stores the runs of a request first: what fails then is sent again as a whole, and they are known
 * by their own key. */
static enum writer_verdict store_apart(struct daemon *daemon, struct backend_request **request_p,
                                       uint64_t deadline_ms)
{
    struct backend_request *runs = runs_take_out(*request_p);
    enum writer_verdict verdict = WRITER_STORED;
    if (runs)
        verdict = writer_store(daemon->runs.writer, &runs, deadline_ms);
    /* Rejected events are kept with the rest even where all of that is rejected. */
    bool has_rest =
        (*request_p)->batch.event_count > 0 || (runs && (*request_p)->batch.rejected > 0);
    if (verdict == WRITER_STORED && has_rest)
        verdict = writer_store(daemon->main.writer, request_p, deadline_ms);
    if (verdict == WRITER_STORED && runs)
        runs_add_counts(*request_p, runs);
    backend_request_destroy(&runs);
    return verdict;
}

/* Hands the request's events to the writer. Those that turn out to be no new ones, and those that
 * the store did not take, are not charged; nobody knows of a request that ran out of time, nor
 * which of two stores took its part. */
static enum writer_verdict write_events(const struct intake *intake,
                                        struct backend_request **request_p,
                                        const struct quota_charge *charge)
{
    struct daemon *daemon = intake->daemon;
    uint64_t deadline_ms = intake->req->deadline_ms;
    uint64_t unused = charge->events;
    bool is_apart = daemon->runs_place == RUNS_APART;
    enum writer_verdict verdict = is_apart
                                      ? store_apart(daemon, request_p, deadline_ms)
                                      : writer_store(daemon->main.writer, request_p, deadline_ms);
    if (verdict == WRITER_TIMED_OUT || (verdict != WRITER_STORED && is_apart))
        return verdict;
    if (verdict == WRITER_STORED)
        unused -= charge->events > 0 ? (*request_p)->counts.accepted : 0;
    quotas_give_back(daemon->quotas, intake->project, charge, unused, clock_mono_ms() / 1000);
    return verdict;
}

/* Stores the decoded request and answers. */
static void store(const struct intake *intake, struct backend_request **request_p)
{
    const struct http_request *req = intake->req;
    struct backend_request *request = *request_p;
    struct quota_refusal refusal;
    struct quota_charge charge;
    enum writer_verdict verdict = WRITER_STORED;
    if (request->batch.event_count == 0) {
        request->counts.rejected = request->batch.rejected; /* nothing to store, not even a key */
    } else if (!quotas_take_events(intake->daemon->quotas, intake->project,
                                   request->batch.event_count, clock_mono_ms() / 1000, &charge,
                                   &refusal)) {
        ingest_reply_quota(req, &refusal, intake->reply);
        return;
    } else {
        verdict = write_events(intake, request_p, &charge);
    }
    if (verdict == WRITER_AWAY) {
        refuse(req, intake->reply, REFUSAL_STORE_AWAY,
               "the store cannot take this now; send again");
        return;
    }
    if (verdict == WRITER_IN_FLIGHT) {
        refuse(req, intake->reply, REFUSAL_IN_FLIGHT,
               "the same request is being stored; send again");
        intake->reply->extra_headers = "mcpd-wait: in-flight\r\n";
        return;
    }
    if (verdict == WRITER_TIMED_OUT) {
        refuse(req, intake->reply, REFUSAL_BUSY, "the request was not stored in time; send again");
        return;
    }
    count_results(&intake->daemon->series[intake->door], &request->counts);
    if (request->is_mismatch)
        metrics_add(METRIC_idempotency_mismatch, 1);
    ingest_reply(req, request, intake->reply);
}

static void refuse_body(const struct http_request *req, enum batch_result result,
                        const struct err *err, struct http_reply *reply)
{
    const struct batch_result_row *row = batch_result_row(result);
    reply->status = row->http_status;
    otlp_reply_error(NULL, req->method, req->path, httpd_header(req, "Content-Type"), row->code,
                     err->text, reply);
    if (result == BATCH_TOO_MANY_EVENTS && !otlp_is_path(req->path)) {
        buf_reset(&reply->body);
        if (buf_printf(&reply->body,
                       "{\"error\":{\"code\":\"%s\",\"limit\":%d,\"message\":\"%s\"}}", row->code,
                       BATCH_NATIVE_EVENTS_MAX, "a batch holds too many events") == -1)
            buf_reset(&reply->body);
    }
}

static size_t batch_bytes(const struct batch *batch)
{
    return batch->arena.total_bytes +
           (batch->event_capacity + batch->derived_capacity) * sizeof *batch->events;
}

/* A request whose key may send here. */
static void take(const struct intake *intake)
{
    struct daemon *daemon = intake->daemon;
    const struct http_request *req = intake->req;
    struct quota_refusal refusal;
    const struct body_format *format =
        body_format_find(intake->door, httpd_header(req, "Content-Type"));
    if (!quotas_take_request(daemon->quotas, intake->project, req->body.len, clock_mono_ms() / 1000,
                             &refusal)) {
        ingest_reply_quota(req, &refusal, intake->reply);
        return;
    }
    if (!format) {
        refuse(req, intake->reply, REFUSAL_BAD_TYPE, door_types[intake->door]);
        return;
    }
    if (!gate_enter(&daemon->gate, req->deadline_ms)) {
        refuse(req, intake->reply, REFUSAL_BUSY, "too many requests are being decoded; send again");
        return;
    }
    struct err err = {{0}};
    struct backend_request *request = backend_request_new();
    backend_request_of(request, req->holder.project);
    unsigned types = req->holder.scope == GRANT_SC ? EVENT_BIT(EVENT_SCORE) : EVENT_BITS_ALL;
    if (daemon->runs_place == RUNS_OFF)
        types &= ~EVENT_BIT(EVENT_RUN);
    enum batch_result result = decode(intake, format, types, request, &err);
    size_t held_bytes = batch_bytes(&request->batch);
    gate_leave(&daemon->gate, held_bytes);
    if (result == BATCH_OK)
        store(intake, &request);
    else
        refuse_body(req, result, &err, intake->reply);
    gate_release(&daemon->gate, held_bytes);
    backend_request_destroy(&request);
}

static void ingest(struct daemon *daemon, enum ingest_door door, const struct http_request *req,
                   struct http_reply *reply)
{
    uint64_t started_us = clock_mono_us();
    enum grant_scope scope = req->holder.scope;
    if (!keys_allow(scope, RIGHT_SEND) || (scope == GRANT_SC && door != DOOR_NATIVE)) {
        refuse(req, reply, REFUSAL_WRONG_SCOPE, "this key does not send to this path");
        return;
    }
    const struct settings *settings = settings_watch_hold(daemon->settings);
    struct intake intake = {
        .daemon = daemon,
        .door = door,
        .req = req,
        .reply = reply,
        .project = settings_project(settings, req->holder.project),
    };
    take(&intake);
    settings_release(&settings);
    metrics_observe_us(METRIC_ingest_seconds, clock_mono_us() - started_us);
}

void ingest_traces(void *arg, struct http_request *req, struct http_reply *reply)
{
    ingest(arg, DOOR_TRACES, req, reply);
}

void ingest_logs(void *arg, struct http_request *req, struct http_reply *reply)
{
    ingest(arg, DOOR_LOGS, req, reply);
}

void ingest_metrics(void *arg, struct http_request *req, struct http_reply *reply)
{
    ingest(arg, DOOR_METRICS, req, reply);
}

void ingest_native(void *arg, struct http_request *req, struct http_reply *reply)
{
    ingest(arg, DOOR_NATIVE, req, reply);
}
