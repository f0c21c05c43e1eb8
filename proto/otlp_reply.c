// SPDX-License-Identifier: MIT
/*
 * The messages are so small that their protobuf form is written by hand: a tag byte, a varint or a
 * length, the bytes.
 */
#include "proto/otlp_reply.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define TYPE_PROTOBUF "application/x-protobuf"
#define TYPE_JSON     "application/json"
#define TAG_VARINT(n) ((char)((n) << 3))
#define TAG_BYTES(n)  ((char)((n) << 3 | 2))
/* The longest text we put in; the specification wants responses bounded. */
#define TEXT_MAX ((size_t)4096)

static const struct signal {
    const char *path;
    const char *rejected; /* the count's JSON name */
} signals[] = {
    {"/v1/traces", "rejectedSpans"},
    {"/v1/logs", "rejectedLogRecords"},
    {"/v1/metrics", "rejectedDataPoints"},
};

static const struct signal *signal_of(const char *path)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (strcmp(path, signals[i].path) == 0)
            return &signals[i];
    return NULL;
}

bool otlp_is_path(const char *path)
{
    return signal_of(path) != NULL;
}

/* The type before any parameters. */
static bool is_media_type(const char *content_type, const char *wanted)
{
    if (!content_type)
        return false;
    struct slice type = {.data = content_type, .len = strcspn(content_type, ";")};
    return slice_equals_nocase(slice_trim(type), wanted);
}

bool otlp_is_protobuf(const char *content_type)
{
    return is_media_type(content_type, TYPE_PROTOBUF);
}

bool otlp_is_json(const char *content_type)
{
    return is_media_type(content_type, TYPE_JSON);
}

/* google.rpc.Code by HTTP status. */
static unsigned rpc_code(int status)
{
    static const struct {
        int status;
        unsigned code;
    } codes[] = {
        {401, 16},                      /* UNAUTHENTICATED */
        {403, 7},                       /* PERMISSION_DENIED */
        {404, 5},                       /* NOT_FOUND */
        {405, 12},                      /* UNIMPLEMENTED */
        {413, 8},                       /* RESOURCE_EXHAUSTED */
        {429, 8},  {431, 8}, {500, 13}, /* INTERNAL */
        {503, 14},                      /* UNAVAILABLE */
        {505, 12},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].status == status)
            return codes[i].code;
    return status >= 500 ? 13 : 3; /* INVALID_ARGUMENT */
}

static int json_text(struct buf *out, const char *text)
{
    int failed = buf_add(out, "\"", 1);
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            failed |= buf_printf(out, "\\%c", byte);
        else if (byte < 0x20 || byte >= 0x7f) /* our texts are ASCII; anything else is a guest */
            failed |= buf_printf(out, "\\u%04x", byte);
        else
            failed |= buf_add(out, c, 1);
    }
    failed |= buf_add(out, "\"", 1);
    return failed;
}

static int pb_varint(struct buf *out, char tag, uint64_t value)
{
    int failed = buf_add(out, &tag, 1);
    do {
        char byte = (char)((value & 127) | (value > 127 ? 128 : 0));
        failed |= buf_add(out, &byte, 1);
        value >>= 7;
    } while (value > 0);
    return failed;
}

static int pb_bytes(struct buf *out, char tag, const char *data, size_t len)
{
    int failed = pb_varint(out, tag, len);
    failed |= buf_add(out, data, len);
    return failed;
}

static int status_protobuf(struct buf *out, int status, const char *text)
{
    int failed = pb_varint(out, TAG_VARINT(1), rpc_code(status));
    failed |= pb_bytes(out, TAG_BYTES(2), text, strnlen(text, TEXT_MAX));
    return failed;
}

static int status_json(struct buf *out, int status, const char *text)
{
    int failed = buf_printf(out, "{\"code\":%u,\"message\":", rpc_code(status));
    failed |= json_text(out, text);
    failed |= buf_add_str(out, "}");
    return failed;
}

static int error_json(struct buf *out, const char *code, const char *text)
{
    int failed = buf_add_str(out, "{\"error\":{\"code\":");
    failed |= json_text(out, code);
    failed |= buf_add_str(out, ",\"message\":");
    failed |= json_text(out, text);
    failed |= buf_add_str(out, "}}");
    return failed;
}

static bool is_reading(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

void otlp_reply_error(void *arg, const char *method, const char *path, const char *content_type,
                      const char *code, const char *text, struct http_reply *reply)
{
    (void)arg;
    bool is_otlp = otlp_is_path(path) && !is_reading(method);
    bool is_protobuf = is_otlp && otlp_is_protobuf(content_type);
    int failed;
    if (is_protobuf)
        failed = status_protobuf(&reply->body, reply->status, text);
    else if (is_otlp)
        failed = status_json(&reply->body, reply->status, text);
    else
        failed = error_json(&reply->body, code, text);
    if (failed)
        buf_reset(&reply->body); /* the status says enough */
    reply->content_type = is_protobuf ? TYPE_PROTOBUF : TYPE_JSON;
}

static int success_protobuf(struct buf *out, uint64_t rejected, const char *message)
{
    struct buf partial;
    buf_init(&partial, 2 * TEXT_MAX);
    int failed = 0;
    if (rejected > 0)
        failed |= pb_varint(&partial, TAG_VARINT(1), rejected);
    if (message)
        failed |= pb_bytes(&partial, TAG_BYTES(2), message, strnlen(message, TEXT_MAX));
    failed |= pb_bytes(out, TAG_BYTES(1), partial.data, partial.len);
    buf_fini(&partial);
    return failed;
}

static int success_json(struct buf *out, const struct signal *signal, uint64_t rejected,
                        const char *message)
{
    int failed = buf_add_str(out, "{\"partialSuccess\":{");
    if (rejected > 0) /* 64-bit integers are strings in OTLP's JSON */
        failed |= buf_printf(out, "\"%s\":\"%llu\"%s", signal->rejected,
                             (unsigned long long)rejected, message ? "," : "");
    if (message) {
        failed |= buf_add_str(out, "\"errorMessage\":");
        failed |= json_text(out, message);
    }
    failed |= buf_add_str(out, "}}");
    return failed;
}

void otlp_reply_success(const char *path, const char *content_type, uint64_t rejected,
                        const char *message, struct http_reply *reply)
{
    bool is_protobuf = otlp_is_protobuf(content_type);
    int failed = is_protobuf ? success_protobuf(&reply->body, rejected, message)
                             : success_json(&reply->body, signal_of(path), rejected, message);
    reply->status = failed ? 500 : 200;
    reply->content_type = is_protobuf ? TYPE_PROTOBUF : TYPE_JSON;
}
