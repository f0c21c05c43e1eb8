// SPDX-License-Identifier: MIT
/*
 * identity: what tells whether an event that has no id of its own was stored before. Outlives the
 * request's key.
 */
#ifndef MCPD_STORE_IDENTITY_H
#define MCPD_STORE_IDENTITY_H

#include "store/backend.h"

/* Of the index-th event of a request: the digest of its key, then the index. Those of one request
 * stand beside each other in an index of the store. */
#define IDENTITY_LEN (BACKEND_DIGEST_LEN + 4)
void identity_of_event(const struct backend_request *request, const struct event *event,
                       uint8_t out[IDENTITY_LEN]);

/* Of a score without an id: a digest of source, name, target, scorer and version, as text with a
 * terminating NUL. */
#define IDENTITY_SCORE_SIZE (2 * BACKEND_DIGEST_LEN + 1)
void identity_of_score(const struct score *score, char out[IDENTITY_SCORE_SIZE]);

#endif
