// SPDX-License-Identifier: MIT
/*
 * Every answer is put together here and leaves in one write, because the library's own helpers
 * write line by line, and head and body in two segments cost a round of delayed acknowledgement.
 */
#include "common/httpd_impl.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/status_row.h"

/* Bodies above it go in a second write instead of being copied. */
#define COPY_MAX       ((size_t)64 * 1024)
#define KEEP_MAX_BYTES ((size_t)64 * 1024)

const struct refusal_row *refusal_row(enum refusal refusal)
{
    static const struct refusal_row rows[] = {
        {0},
#define REFUSAL(id, reason, status, retry_after, code, text) \
    {reason, status, retry_after, code, text},
#include "common/refusal.def"
#undef REFUSAL
    };
    assert(refusal > REFUSAL_NONE && refusal < REFUSAL_COUNT);
    return &rows[refusal];
}

void httpd_markdown(FILE *out)
{
    status_rows_head(out);
    for (unsigned i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        const struct refusal_row *row = refusal_row((enum refusal)i);
        status_row(out, row->status, row->code, row->retry_after_s, row->text);
    }
}

/* The Date header's value, made once a second. */
static const char *date_now(struct worker *worker)
{
    uint64_t now_s = clock_wall_s();
    if (now_s != worker->date_s) {
        time_t seconds = (time_t)now_s;
        struct tm tm;
        gmtime_r(&seconds, &tm);
        strftime(worker->date, sizeof worker->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        worker->date_s = now_s;
    }
    return worker->date;
}

static void count_reply(httpd_t *door, int status)
{
    if (door->config.is_admin || status <= 0 || status >= STATUS_LIMIT)
        return;
    metric_series_t *series = atomic_load_explicit(&door->replies[status], memory_order_relaxed);
    if (!series) {
        char label[8];
        snprintf(label, sizeof label, "%d", status);
        series = metrics_series(METRIC_http_replies, label, NULL);
        atomic_store_explicit(&door->replies[status], series, memory_order_relaxed);
    }
    metric_series_add(series, 1);
}

static const char *connection_line(const struct exchange *self)
{
    if (self->must_close)
        return "Connection: close\r\n";
    if (self->headers.info && strcmp(self->headers.info->http_version, "1.1") == 0)
        return "";
    return "Connection: keep-alive\r\n";
}

static int add_number(struct buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    return buf_add(out, digits + at, sizeof digits - at);
}

/* Formatted text would cost as much as everything else the door does for a small request. */
static int head_add(struct exchange *self, const struct http_reply *reply, bool has_body)
{
    struct buf *out = &self->worker->out;
    buf_reset(out);
    int failed = buf_add_str(out, "HTTP/1.1 ");
    failed |= add_number(out, (uint64_t)reply->status);
    failed |= buf_add_str(out, " ");
    failed |= buf_add_str(out, mg_get_response_code_text(self->conn, reply->status));
    failed |= buf_add_str(out, "\r\nDate: ");
    failed |= buf_add_str(out, date_now(self->worker));
    if (has_body) {
        failed |= buf_add_str(out, "\r\nContent-Type: ");
        failed |= buf_add_str(out, reply->content_type ? reply->content_type : "text/plain");
        failed |= buf_add_str(out, "\r\nContent-Length: ");
        failed |= add_number(out, reply->body.len);
    }
    if (reply->retry_after_s > 0) {
        failed |= buf_add_str(out, "\r\nRetry-After: ");
        failed |= add_number(out, (uint64_t)reply->retry_after_s);
    }
    failed |= buf_add(out, "\r\n", 2);
    if (reply->extra_headers)
        failed |= buf_add_str(out, reply->extra_headers);
    failed |= buf_add_str(out, connection_line(self));
    failed |= buf_add(out, "\r\n", 2);
    return failed;
}

static bool write_all(struct mg_connection *conn, const char *data, size_t len)
{
    return mg_write(conn, data, len) == (int)len;
}

int reply_send(struct exchange *self, const struct http_reply *reply)
{
    /* Before the sender can know that its request is over and send the next one. */
    buf_fini(&self->worker->body);
    body_release(self->worker);
    bool has_body = reply->status != 204 && reply->status != 304;
    int failed = head_add(self, reply, has_body);
    assert(!failed); /* what makes a head is ours or bounded by the request's head */
    if (self->must_close)
        mg_disable_connection_keep_alive(self->conn);
    struct buf *out = &self->worker->out;
    bool sends_body = has_body && !self->is_head && reply->body.len > 0;
    bool is_copied = sends_body && buf_add(out, reply->body.data, reply->body.len) == 0;
    bool is_sent = write_all(self->conn, out->data, out->len);
    if (is_sent && sends_body && !is_copied)
        is_sent = write_all(self->conn, reply->body.data, reply->body.len);
    if (!is_sent) {
        mg_disable_connection_keep_alive(self->conn);
        metrics_add(METRIC_http_write_failures, 1);
    }
    count_reply(self->door, reply->status);
    return reply->status;
}

static void refusal_body(struct exchange *self, const struct refusal_row *row,
                         struct http_reply *reply)
{
    const struct httpd_config *config = &self->door->config;
    const struct mg_request_info *info = self->headers.info;
    const char *method = info && info->request_method ? info->request_method : "";
    if (config->error_body)
        config->error_body(config->arg, method, self->path,
                           self->headers.known[HEADER_CONTENT_TYPE], row->code, row->text, reply);
    else if (buf_add_str(&reply->body, row->text) == -1)
        buf_reset(&reply->body);
}

int reply_close(struct exchange *self, struct http_reply *reply)
{
    self->must_close = true;
    int status = reply_send(self, reply);
    self->worker->reply_body = reply->body;
    self->worker->scratch = reply->scratch;
    body_discard(self);
    return status;
}

int reply_refuse(struct exchange *self, enum refusal refusal, const char *extra_headers)
{
    const struct refusal_row *row = refusal_row(refusal);
    struct worker *worker = self->worker;
    struct http_reply reply = {
        .status = row->status,
        .extra_headers = extra_headers,
        .body = worker->reply_body,
        .scratch = worker->scratch,
        .retry_after_s = row->retry_after_s,
    };
    refusal_body(self, row, &reply);
    if (self->door->refused[refusal])
        metric_series_add(self->door->refused[refusal], 1);
    return reply_close(self, &reply);
}

static void buf_trim(struct buf *buf)
{
    if (buf->capacity > KEEP_MAX_BYTES)
        buf_fini(buf);
    buf_reset(buf);
}

void worker_trim(struct worker *worker)
{
    buf_trim(&worker->reply_body);
    buf_trim(&worker->scratch);
    buf_trim(&worker->out);
}
