// SPDX-License-Identifier: MIT
/* validate: with --validate-otlp, whether an OTLP body can be read at all. Any thread. */
#ifndef MCPD_VALIDATE_H
#define MCPD_VALIDATE_H

#include <stdbool.h>

#include "gateway/gateway.h"

/* Bodies decoded at once, so that hostile ones cannot add up. */
#define VALIDATE_DECODERS 4

/* False with the answer when the body is none of its path's. True for all that this cannot judge:
 * other paths, other content types, encodings it does not know. Blocks while others decode, until
 * the request's deadline. */
bool validate_body(struct gateway *self, const struct http_request *req, struct http_reply *reply);

#endif
