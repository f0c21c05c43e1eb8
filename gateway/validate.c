// SPDX-License-Identifier: MIT
/*
 * The body is decoded as a daemon would and the result thrown away, so that the two never disagree.
 * What a daemon leaves out of a batch that it can read is no reason to refuse it here.
 */
#include "gateway/validate.h"

#include "common/clock.h"
#include "common/metrics.h"
#include "common/wait.h"
#include "gateway/answer.h"
#include "proto/body_format.h"
#include "proto/otlp_reply.h"

static enum batch_result try(const struct gateway *self, const struct http_request *req,
                             const struct body_format *format, struct err *err)
{
    struct slice body = {.data = req->body.data, .len = req->body.len};
    struct batch_policy policy = {.now_ns = clock_wall_ns(), .types = EVENT_BITS_ALL};
    struct batch batch;
    struct slice plain;
    struct buf inflated;
    batch_init(&batch);
    buf_init(&inflated, BODY_INFLATE_FACTOR * self->max_body_bytes);
    enum batch_result result = body_decode(format, slice_of(httpd_header(req, "Content-Encoding")),
                                           body, &policy, &inflated, &batch, &plain, err);
    buf_fini(&inflated);
    batch_fini(&batch);
    return result;
}

bool validate_body(struct gateway *self, const struct http_request *req, struct http_reply *reply)
{
    if (!self->validates_otlp || !otlp_is_path(req->path))
        return true;
    const struct body_format *format =
        body_format_find(body_door(req->path), httpd_header(req, "Content-Type"));
    if (!format)
        return true;
    if (!wait_for(&self->decoders, req->deadline_ms)) {
        answer_verdict(req, VERDICT_TIMED_OUT, reply);
        return false;
    }
    struct err err = {{0}};
    enum batch_result result = try(self, req, format, &err);
    sem_post(&self->decoders);
    if (result == BATCH_OK || result == BATCH_UNKNOWN_ENCODING)
        return true;
    const struct batch_result_row *row = batch_result_row(result);
    metrics_add(METRIC_relay_refused_invalid, 1);
    answer_refusal(req, row->http_status, row->code, err.text, reply);
    return false;
}
