// SPDX-License-Identifier: MIT
/* refusal: what the daemon's handlers answer instead of a success, from one table, refusal.def. */
#ifndef MCPD_STORE_REFUSAL_H
#define MCPD_STORE_REFUSAL_H

#include <stdio.h>

#include "common/httpd.h"

enum refusal {
#define REFUSAL(id, status, retry_after_s, code, meaning) REFUSAL_##id,
#include "store/refusal.def"
#undef REFUSAL
    REFUSAL_COUNT
};

/* Fills the reply, in the form that the request's path asks for. */
void refuse(const struct http_request *req, struct http_reply *reply, enum refusal refusal,
            const char *text);

/* The rows of docs/statuses.md. */
void refusal_markdown(FILE *out);

#endif
