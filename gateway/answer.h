// SPDX-License-Identifier: MIT
/* answer: what a sender is told about the verdict on its request. Any thread. */
#ifndef MCPD_ANSWER_H
#define MCPD_ANSWER_H

#include "common/httpd.h"
#include "proto/verdict.h"

/* Stored: 200 with an empty partialSuccess on the OTLP paths, 202 `mcpd-relay: spooled` with counts
 * of zero elsewhere (the real ones belong to the upstream). All else: the verdict's row, in the
 * form of an error. */
void answer_verdict(const struct http_request *req, enum verdict verdict, struct http_reply *reply);

/* A refusal of the gateway's own. */
void answer_refusal(const struct http_request *req, int status, const char *code, const char *text,
                    struct http_reply *reply);

#endif
