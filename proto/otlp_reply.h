// SPDX-License-Identifier: MIT
/*
 * otlp_reply: answers in the forms that senders expect: on the OTLP paths what OTLP/HTTP 1.11
 * prescribes, in the request's encoding (protobuf or JSON; any other type gets JSON); elsewhere our
 * own JSON.
 */
#ifndef MCPD_OTLP_REPLY_H
#define MCPD_OTLP_REPLY_H

#include <stdbool.h>

#include "common/httpd.h"

/* path is exactly /v1/traces, /v1/logs or /v1/metrics. */
bool otlp_is_path(const char *path);
/* The media type is application/x-protobuf (parameters allowed, any case); content_type may be
 * null. */
bool otlp_is_protobuf(const char *content_type);
bool otlp_is_json(const char *content_type);

/* An http_error_body: google.rpc.Status for what is sent to OTLP paths, else (also for what is read
 * from them, GET and HEAD) {"error":{"code","message"}}. */
void otlp_reply_error(void *arg, const char *method, const char *path, const char *content_type,
                      const char *code, const char *text, struct http_reply *reply);

/* 200 with Export<signal>ServiceResponse: an empty partialSuccess when rejected is 0 and message is
 * null, else the count (under the signal's own name) and the message. */
void otlp_reply_success(const char *path, const char *content_type, uint64_t rejected,
                        const char *message, struct http_reply *reply);

#endif
