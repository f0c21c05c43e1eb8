// SPDX-License-Identifier: MIT
/* ingest_reply: what a sender is told of a request that was decoded and dealt with. */
#ifndef MCPD_STORE_INGEST_REPLY_H
#define MCPD_STORE_INGEST_REPLY_H

#include "common/httpd.h"
#include "store/backend.h"
#include "store/quotas.h"

/* Fills the reply from the request's results: 200, or 400 when every event was rejected; the three
 * counts as headers on every path, and in the body as the path's protocol has it. */
void ingest_reply(const struct http_request *req, const struct backend_request *request,
                  struct http_reply *reply);

/* What a project's quota refuses: 429 with the time to wait, or 413 where the request alone is more
 * than the ceiling and so can never pass. */
void ingest_reply_quota(const struct http_request *req, const struct quota_refusal *refusal,
                        struct http_reply *reply);

#endif
