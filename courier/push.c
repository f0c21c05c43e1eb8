// SPDX-License-Identifier: MIT
/*
 * The header lines of a request stand one after the other, each ended by a NUL, in one buffer that
 * is kept, and libcurl's list is an array of nodes that point into it: preparing a request
 * allocates nothing.
 *
 * The URL that libcurl sees is the upstream's origin only. The target goes out through
 * CURLOPT_REQUEST_TARGET, so that no URL parser stands between its bytes and the wire.
 */
#include "courier/push.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http_client.h"
#include "courier/backoff.h"
#include "proto/idem.h"
#include "proto/otlp_reply.h"

#define ANSWER_MAX_BYTES  ((size_t)64 * 1024) /* read and dropped; behind it the connection goes */
#define TEXT_MAX_BYTES    (2 * REQUEST_META_MAX + 4096)
#define HEADERS_MAX       16
#define PROBE_TIMEOUT_MS  3000L
#define IDLE_CONNECTION_S 4L /* far below the 25 s after which our daemon closes */
#define SLOW_BYTES_PER_S  1024L
#define SLOW_S            15L
#define WAIT_HEADER       "mcpd-wait"
#define WAIT_IN_FLIGHT    "in-flight"
#define WAIT_QUOTA        "quota"

struct push {
    CURL *easy;
    void *owner;
    const struct upstream_spec *spec; /* the handle is set up for */
    struct buf text;
    struct curl_slist headers[HEADERS_MAX];
    size_t line_starts[HEADERS_MAX]; /* in text, which moves while it grows */
    bool has_our_key;
    bool has_asked;
    bool is_cut;
    size_t answer_bytes;
    size_t excerpt_len;
    char excerpt[PUSH_EXCERPT_MAX];
    char error[CURL_ERROR_SIZE];
    char derived_key[IDEM_DERIVED_LEN + 1];
};

static size_t take_answer(char *data, size_t size, size_t count, void *arg)
{
    push_t *self = arg;
    size_t len = size * count;
    size_t room = sizeof self->excerpt - self->excerpt_len;
    size_t kept = len < room ? len : room;
    memcpy(self->excerpt + self->excerpt_len, data, kept);
    self->excerpt_len += kept;
    self->answer_bytes += len;
    self->is_cut = self->answer_bytes > ANSWER_MAX_BYTES;
    return self->is_cut ? 0 : len;
}

static void set_common(push_t *self)
{
    http_client_set_up(self->easy);
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES_PER_S));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_LOW_SPEED_TIME, SLOW_S));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_MAXAGE_CONN, IDLE_CONNECTION_S));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_ERRORBUFFER, self->error));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_PRIVATE, self));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_WRITEFUNCTION, take_answer));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_WRITEDATA, self));
}

push_t *push_new(enum push_kind kind, void *owner)
{
    push_t *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    self->easy = curl_easy_init();
    if (!self->easy)
        abort();
    self->owner = owner;
    buf_init(&self->text, TEXT_MAX_BYTES);
    set_common(self);
    if (kind == PUSH_REQUEST) {
        http_client_must(curl_easy_setopt(self->easy, CURLOPT_POST, 1L));
    } else {
        http_client_must(curl_easy_setopt(self->easy, CURLOPT_TIMEOUT_MS, PROBE_TIMEOUT_MS));
        http_client_must(curl_easy_setopt(self->easy, CURLOPT_FRESH_CONNECT, 1L));
        http_client_must(curl_easy_setopt(self->easy, CURLOPT_FORBID_REUSE, 1L));
    }
    return self;
}

void push_destroy(push_t **self_p)
{
    push_t *self = *self_p;
    if (!self)
        return;
    curl_easy_cleanup(self->easy);
    buf_fini(&self->text);
    free(self);
    *self_p = NULL;
}

CURL *push_handle(push_t *self)
{
    return self->easy;
}

void *push_owner(CURL *handle)
{
    push_t *self = NULL;
    http_client_must(curl_easy_getinfo(handle, CURLINFO_PRIVATE, &self));
    return self->owner;
}

static void forget_answer(push_t *self)
{
    self->is_cut = false;
    self->answer_bytes = 0;
    self->excerpt_len = 0;
    self->error[0] = '\0';
}

bool push_is_header_safe(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.data[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool is_target_safe(struct slice target)
{
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.data[i];
        if (c <= ' ' || c == 0x7f)
            return false;
    }
    return target.len > 0 && target.data[0] == '/';
}

struct header {
    const char *name;
    struct slice value;
};

static int check_headers(const struct header *headers, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!push_is_header_safe(headers[i].value))
            return err_set(err, "control bytes in its %s", headers[i].name);
    }
    return 0;
}

/* Writes "name: value", or "name:" without a value, which takes out what libcurl would send of its
 * own. Unknown senders decide the sizes, but proto/request limits them below the buffer's. */
static void add_line(push_t *self, size_t *count, const char *name, struct slice value)
{
    assert(*count < HEADERS_MAX);
    self->line_starts[(*count)++] = self->text.len;
    if (buf_printf(&self->text, value.len ? "%s: " : "%s:", name) == -1 ||
        buf_add(&self->text, value.data, value.len) == -1 || buf_add(&self->text, "", 1) == -1)
        abort();
}

static void link_lines(push_t *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        self->headers[i].data = self->text.data + self->line_starts[i];
        self->headers[i].next = i + 1 < count ? &self->headers[i + 1] : NULL;
    }
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_HTTPHEADER, self->headers));
}

/* Nothing leaves without a key, whoever put it into the queue. */
static struct slice key_of(push_t *self, const struct request *request, struct slice body)
{
    if (request->idempotency_key.len > 0)
        return request->idempotency_key;
    idem_derive(request->target, request->content_encoding, body, self->derived_key);
    return slice_of(self->derived_key);
}

static int set_headers(push_t *self, const struct push_target *target,
                       const struct request *request, struct slice body, struct err *err)
{
    struct slice ours = target->our_authorization;
    bool is_ours = ours.len > 0;
    struct slice none = {NULL, 0};
    const struct header rows[] = {
        {"Content-Type", request->content_type},
        {"Content-Encoding", request->content_encoding},
        {"Idempotency-Key", key_of(self, request, body)},
        {"Authorization", is_ours ? ours : request->authorization},
        {"x-mcpd-key", is_ours ? none : request->mcpd_key},
        {"User-Agent", request->user_agent},
        {"traceparent", request->traceparent},
        {"tracestate", request->tracestate},
    };
    size_t row_count = sizeof rows / sizeof rows[0];
    size_t count = 0;
    if (check_headers(rows, row_count, err) == -1)
        return -1;
    /* Left to itself, libcurl asks for leave to send a large body and waits a second for it. */
    add_line(self, &count, "Expect", target->asks_first ? slice_of("100-continue") : none);
    if (request->content_type.len == 0)
        add_line(self, &count, "Content-Type", none);
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].value.len > 0)
            add_line(self, &count, rows[i].name, rows[i].value);
    }
    link_lines(self, count);
    return 0;
}

static void set_target(push_t *self, const char *prefix, struct slice target)
{
    buf_reset(&self->text);
    if (buf_add_str(&self->text, prefix) == -1 ||
        buf_add(&self->text, target.data, target.len) == -1)
        abort(); /* both are limited below the buffer's maximum */
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_REQUEST_TARGET, buf_cstr(&self->text)));
    buf_reset(&self->text);
}

/* What depends on the upstream only is set again when it changes. */
static void set_spec(push_t *self, const struct upstream_spec *spec)
{
    if (self->spec == spec)
        return;
    self->spec = spec;
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_URL, spec->origin));
    http_client_must(
        curl_easy_setopt(self->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)spec->connect_timeout_ms));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_CAINFO, spec->ca_file));
}

int push_prepare_request(push_t *self, const struct push_target *target,
                         const struct request *request, struct slice body, struct err *err)
{
    if (!is_target_safe(request->target))
        return err_set(err, "its target is no path");
    forget_answer(self);
    set_spec(self, target->spec);
    set_target(self, target->spec->prefix, request->target);
    if (set_headers(self, target, request, body, err) == -1)
        return -1;
    self->has_our_key = target->our_authorization.len > 0;
    self->has_asked = target->asks_first;
    http_client_must(
        curl_easy_setopt(self->easy, CURLOPT_TIMEOUT_MS, (long)target->spec->timeout_ms));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_POSTFIELDS, body.len ? body.data : ""));
    http_client_must(
        curl_easy_setopt(self->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_FRESH_CONNECT, (long)target->is_fresh));
    http_client_must(
        curl_easy_setopt(self->easy, CURLOPT_MAXLIFETIME_CONN, (long)target->connection_age_s));
    return 0;
}

void push_prepare_probe(push_t *self, const struct upstream_spec *spec)
{
    forget_answer(self);
    set_spec(self, spec);
    set_target(self, "", slice_of(spec->probe_path));
}

/* The last header of that name; empty where there is none. */
static struct slice answer_header(push_t *self, const char *name)
{
    struct curl_header *header = NULL;
    if (curl_easy_header(self->easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return (struct slice){NULL, 0};
    size_t last = header->amount - 1;
    if (last > 0 &&
        curl_easy_header(self->easy, name, last, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return (struct slice){NULL, 0};
    return slice_of(header->value);
}

static void read_headers(push_t *self, uint64_t wall_s, struct push_result *result)
{
    struct slice wait = slice_trim(answer_header(self, WAIT_HEADER));
    result->facts.says_in_flight = slice_equals_nocase(wait, WAIT_IN_FLIGHT);
    result->facts.says_quota = slice_equals_nocase(wait, WAIT_QUOTA);
    /* Two lookups, each of which moves libcurl's scratch header: the first value is copied. */
    struct slice value = answer_header(self, "Retry-After");
    if (value.len == 0)
        return;
    char *copy = slice_dup(value);
    result->retry_after_s =
        backoff_parse_retry_after(slice_of(copy), answer_header(self, "Date"), wall_s);
    free(copy);
}

void push_result(push_t *self, CURLcode code, uint64_t wall_s, struct push_result *result)
{
    long status = 0;
    long request_bytes = 0;
    curl_off_t took_us = 0;
    const char *type = NULL; /* of the answer */
    http_client_must(curl_easy_getinfo(self->easy, CURLINFO_RESPONSE_CODE, &status));
    http_client_must(curl_easy_getinfo(self->easy, CURLINFO_REQUEST_SIZE, &request_bytes));
    http_client_must(curl_easy_getinfo(self->easy, CURLINFO_TOTAL_TIME_T, &took_us));
    http_client_must(curl_easy_getinfo(self->easy, CURLINFO_CONTENT_TYPE, &type));
    *result = (struct push_result){
        .facts = {.curl_code = (int)code,
                  .status = (int)status,
                  .is_sent = request_bytes > 0,
                  .is_cut = self->is_cut,
                  .has_our_key = self->has_our_key,
                  .has_asked = self->has_asked},
        .excerpt = {self->excerpt, self->excerpt_len},
        .is_protobuf = otlp_is_protobuf(type),
        .took_us = (uint64_t)took_us,
    };
    if (status >= 300) /* a success has none that we ask for */
        read_headers(self, wall_s, result);
    if (code == CURLE_OK || self->is_cut || status >= 400)
        snprintf(result->detail, sizeof result->detail, "%ld", status);
    else
        snprintf(result->detail, sizeof result->detail, "%s",
                 self->error[0] ? self->error : curl_easy_strerror(code));
}
