// SPDX-License-Identifier: MIT
#include "gateway/receive.h"

#include <stdlib.h>

#include "common/clock.h"
#include "gateway/answer.h"
#include "gateway/gateway.h"
#include "gateway/validate.h"
#include "proto/idem.h"
#include "proto/request.h"

/* What a worker thread keeps from one request to the next. */
struct receiver {
    idem_t *idem;
    struct buf meta;
};

static struct receiver *receiver_of(const struct http_request *req)
{
    if (*req->worker == NULL) {
        struct receiver *self = calloc(1, sizeof *self);
        if (self == NULL)
            abort();
        self->idem = idem_new();
        buf_init(&self->meta, REQUEST_META_MAX);
        *req->worker = self;
    }
    return *req->worker;
}

void receive_worker_fini(void *worker)
{
    struct receiver *self = worker;
    idem_destroy(&self->idem);
    buf_fini(&self->meta);
    free(self);
}

static struct slice header_of(const struct http_request *req, const char *name)
{
    return slice_of(httpd_header(req, name));
}

/* The sender's key or one made of the content; `made` is its memory. -1 for a key that nobody may
 * use. */
static int key_for(const struct http_request *req, idem_t *idem, struct slice content_encoding,
                   char made[IDEM_DERIVED_LEN + 1], struct slice *key, struct err *err)
{
    const char *given = httpd_header(req, "Idempotency-Key");
    if (given)
        return idem_check(slice_trim(slice_of(given)), key, err);
    struct slice body = {.data = req->body.data, .len = req->body.len};
    idem_derive_with(idem, slice_of(req->target), content_encoding, body, made);
    *key = (struct slice){.data = made, .len = IDEM_DERIVED_LEN};
    return 0;
}

static int encode(const struct gateway *self, const struct http_request *req,
                  struct slice idempotency_key, struct slice content_encoding, struct buf *meta)
{
    struct request request = {
        .target = slice_of(req->target),
        .content_type = header_of(req, "Content-Type"),
        .content_encoding = content_encoding,
        .idempotency_key = idempotency_key,
        .user_agent = header_of(req, "User-Agent"),
        .traceparent = header_of(req, "traceparent"),
        .tracestate = header_of(req, "tracestate"),
        .arrival_ns = clock_wall_ns(),
    };
    if (self->keeps_sender_key) {
        request.authorization = header_of(req, "Authorization");
        request.mcpd_key = header_of(req, "x-mcpd-key");
    }
    return request_encode(&request, meta);
}

bool receive_admission(void *arg, const struct http_request *req, struct http_reply *reply)
{
    const struct gateway *self = arg;
    enum verdict verdict = submitter_outlook(self->submitter);
    if (verdict == VERDICT_STORED)
        return true;
    answer_verdict(req, verdict, reply);
    return false;
}

void receive_post(void *arg, struct http_request *req, struct http_reply *reply)
{
    struct gateway *self = arg;
    char made[IDEM_DERIVED_LEN + 1];
    struct slice key;
    struct err err;
    struct receiver *receiver = receiver_of(req);
    struct slice content_encoding = header_of(req, "Content-Encoding");
    if (key_for(req, receiver->idem, content_encoding, made, &key, &err) == -1) {
        const struct verdict_row *row = verdict_row(VERDICT_BAD_KEY);
        answer_refusal(req, row->http_status, row->code, err.text, reply);
        return;
    }
    if (!validate_body(self, req, reply))
        return;
    struct buf *meta = &receiver->meta;
    buf_reset(meta);
    if (encode(self, req, key, content_encoding, meta) == -1) {
        answer_verdict(req, VERDICT_HEADERS, reply);
        return;
    }
    struct slice bytes = {meta->data, meta->len};
    answer_verdict(req, submitter_submit(self->submitter, bytes, &req->body, req->deadline_ms),
                   reply);
}
