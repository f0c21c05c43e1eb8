// SPDX-License-Identifier: MIT
#include "store/ingest_reply.h"

#include <string.h>

#include "common/clock.h"
#include "proto/otlp_reply.h"
#include "proto/json_out.h"
#include "store/refusal.h"

#define REPLY_MAX_BYTES (256 * 1024)
#define ERRORS_MAX      100
#define MESSAGE_MAX     1024

static const char refused_code[] = "store_refused";
static const char refused_text[] = "the store cannot hold this event";

static void write_count(struct json_out *out, const char *key, uint64_t count)
{
    json_out_str(out, key);
    json_out_int(out, (int64_t)count);
}

static void write_error(struct json_out *out, uint32_t index, struct slice id, const char *code,
                        struct slice message)
{
    write_count(out, "{\"index\":", index);
    if (id.len > 0) {
        json_out_str(out, ",\"id\":");
        json_out_text(out, id);
    }
    json_out_str(out, ",\"code\":");
    json_out_text(out, slice_of(code));
    json_out_str(out, ",\"message\":");
    json_out_text(out, message);
    json_out_str(out, "}");
}

/* ,"errors":[...] and how many of the rejected have no place in it. */
static void write_errors(struct json_out *out, const struct backend_request *request)
{
    const struct batch *batch = &request->batch;
    size_t written = 0;
    json_out_str(out, ",\"errors\":[");
    for (size_t i = 0; i < batch->reject_count && written < ERRORS_MAX; i++, written++) {
        const struct reject *reject = &batch->rejects[i];
        json_out_str(out, written ? "," : "");
        write_error(out, reject->index, reject->id, reject_code_name(reject->code),
                    reject->message);
    }
    for (size_t i = 0; i < request->refused_count && written < ERRORS_MAX; i++, written++) {
        json_out_str(out, written ? "," : "");
        write_error(out, batch->events[request->refused[i]].index, (struct slice){0}, refused_code,
                    slice_of(refused_text));
    }
    json_out_str(out, "]");
    if (request->counts.rejected > written)
        write_count(out, ",\"errors_omitted\":", request->counts.rejected - written);
}

static void reply_native(const struct backend_request *request, struct http_reply *reply)
{
    struct json_out out;
    json_out_init(&out, REPLY_MAX_BYTES, NULL);
    write_count(&out, "{\"accepted\":", request->counts.accepted);
    write_count(&out, ",\"duplicate\":", request->counts.duplicate);
    write_count(&out, ",\"rejected\":", request->counts.rejected);
    if (request->counts.rejected > 0)
        write_errors(&out, request);
    json_out_str(&out, "}");
    buf_fini(&reply->body);
    reply->body = out.buf;
    reply->content_type = "application/json";
}

/* The first reason stands for all: "rejected 3 of 5 spans; the first, at 0: bad_id: ...". */
static void write_summary(const struct backend_request *request, struct buf *message)
{
    const struct batch *batch = &request->batch;
    const char *code = refused_code;
    struct slice text = slice_of(refused_text);
    uint32_t index = request->refused_count ? batch->events[request->refused[0]].index : 0;
    if (batch->reject_count > 0) {
        code = reject_code_name(batch->rejects[0].code);
        text = batch->rejects[0].message;
        index = batch->rejects[0].index;
    }
    if (buf_printf(message, "rejected %llu of %zu; the first, at index %u: %s: " SLICE_FORMAT,
                   (unsigned long long)request->counts.rejected, batch->sent, index, code,
                   SLICE_ARGS(text)) == -1)
        buf_reset(message);
}

static bool has_bad_ids_only(const struct batch *batch)
{
    for (size_t i = 0; i < batch->reject_count; i++)
        if (batch->rejects[i].code != REJECT_BAD_ID && batch->rejects[i].code != REJECT_MISSING)
            return false;
    return batch->reject_count > 0;
}

static void reply_otlp(const struct http_request *req, const struct backend_request *request,
                       bool is_all_rejected, struct http_reply *reply)
{
    struct buf message;
    buf_init(&message, MESSAGE_MAX);
    uint64_t rejected = request->counts.rejected;
    if (rejected > 0)
        write_summary(request, &message);
    if (is_all_rejected && strcmp(req->path, "/v1/traces") == 0 &&
        has_bad_ids_only(&request->batch) &&
        buf_add_str(&message, " (if these are logs, post them to /v1/logs)") == -1)
        buf_reset(&message);
    const char *text = message.len > 0 ? buf_cstr(&message) : NULL;
    if (is_all_rejected)
        refuse(req, reply, REFUSAL_ALL_REJECTED, text ? text : "everything was rejected");
    else
        otlp_reply_success(req->path, httpd_header(req, "Content-Type"), rejected, text, reply);
    buf_fini(&message);
}

static void add_count_headers(const struct backend_counts *counts, struct http_reply *reply)
{
    if (buf_printf(&reply->scratch,
                   "mcpd-accepted: %llu\r\nmcpd-duplicate: %llu\r\nmcpd-rejected: %llu\r\n",
                   (unsigned long long)counts->accepted, (unsigned long long)counts->duplicate,
                   (unsigned long long)counts->rejected) == 0)
        reply->extra_headers = buf_cstr(&reply->scratch);
}

void ingest_reply(const struct http_request *req, const struct backend_request *request,
                  struct http_reply *reply)
{
    const struct backend_counts *counts = &request->counts;
    bool is_all_rejected = counts->rejected > 0 && counts->accepted + counts->duplicate == 0;
    reply->status = 200;
    if (otlp_is_path(req->path))
        reply_otlp(req, request, is_all_rejected, reply);
    else
        reply_native(request, reply);
    if (is_all_rejected)
        reply->status = 400;
    add_count_headers(counts, reply);
}

/* The header mcpd-wait tells a courier that the upstream is well. */
static void add_quota_headers(const struct quota_refusal *refusal, struct http_reply *reply)
{
    const char *dimension = quota_dimension_name(refusal->dimension);
    if (buf_printf(&reply->scratch,
                   "RateLimit-Policy: \"%s\";q=%llu;w=%d\r\nRateLimit: \"%s\";r=%llu;t=%llu\r\n"
                   "mcpd-wait: quota\r\n",
                   dimension, (unsigned long long)refusal->ceiling, QUOTA_SECONDS, dimension,
                   (unsigned long long)refusal->lack.left,
                   (unsigned long long)refusal->lack.wait_s) == 0)
        reply->extra_headers = buf_cstr(&reply->scratch);
}

void ingest_reply_quota(const struct http_request *req, const struct quota_refusal *refusal,
                        struct http_reply *reply)
{
    bool is_final = refusal->lack.wait_s == 0;
    const char *dimension = quota_dimension_name(refusal->dimension);
    char text[MESSAGE_MAX];
    snprintf(text, sizeof text,
             is_final ? "the request has more %s than the project's ceiling for a minute, %llu: "
                        "send it in smaller parts"
                      : "the project has used up its %s for a minute, %llu; send again",
             dimension, (unsigned long long)refusal->ceiling);
    refuse(req, reply, is_final ? REFUSAL_OVER_CEILING : REFUSAL_QUOTA, text);
    if (!is_final) {
        /* Those who were refused together do not come back together. */
        reply->retry_after_s = (int)refusal->lack.wait_s + (clock_random_unit() < 0.5 ? 0 : 1);
        add_quota_headers(refusal, reply);
    }
    if (otlp_is_path(req->path))
        return;
    buf_reset(&reply->body);
    if (buf_printf(&reply->body,
                   "{\"error\":{\"code\":\"%s\",\"dimension\":\"%s\",\"limit\":%llu,"
                   "\"message\":\"%s\"}}",
                   is_final ? "over_ceiling" : "quota", dimension,
                   (unsigned long long)refusal->ceiling, text) == -1)
        buf_reset(&reply->body);
}
