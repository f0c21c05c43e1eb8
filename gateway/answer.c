// SPDX-License-Identifier: MIT
#include "gateway/answer.h"

#include "common/metrics.h"
#include "proto/otlp_reply.h"

static void answer_stored(const struct http_request *req, struct http_reply *reply)
{
    static const char counts[] = "{\"accepted\":0,\"duplicate\":0,\"rejected\":0}";
    metrics_add(METRIC_relay_accepted, 1);
    if (otlp_is_path(req->path)) {
        otlp_reply_success(req->path, httpd_header(req, "Content-Type"), 0, NULL, reply);
        return;
    }
    reply->status = verdict_row(VERDICT_STORED)->http_status;
    reply->content_type = "application/json";
    reply->extra_headers = "mcpd-relay: spooled\r\n";
    if (buf_add(&reply->body, counts, sizeof counts - 1) == -1)
        reply->status = 500;
}

void answer_refusal(const struct http_request *req, int status, const char *code, const char *text,
                    struct http_reply *reply)
{
    reply->status = status;
    otlp_reply_error(NULL, req->method, req->path, httpd_header(req, "Content-Type"), code, text,
                     reply);
}

void answer_verdict(const struct http_request *req, enum verdict verdict, struct http_reply *reply)
{
    if (verdict == VERDICT_STORED) {
        answer_stored(req, reply);
        return;
    }
    if (verdict == VERDICT_FULL)
        metrics_add(METRIC_relay_refused_full, 1);
    const struct verdict_row *row = verdict_row(verdict);
    reply->retry_after_s = row->retry_after_s;
    answer_refusal(req, row->http_status, row->code, row->text, reply);
}
