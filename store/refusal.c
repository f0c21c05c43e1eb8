// SPDX-License-Identifier: MIT
#include "store/refusal.h"

#include <assert.h>

#include "common/status_row.h"
#include "proto/otlp_reply.h"

struct refusal_row {
    int status;
    int retry_after_s;
    const char *code;
    const char *meaning;
};

static const struct refusal_row rows[] = {
#define REFUSAL(id, status, retry_after_s, code, meaning) {status, retry_after_s, code, meaning},
#include "store/refusal.def"
#undef REFUSAL
};

void refuse(const struct http_request *req, struct http_reply *reply, enum refusal refusal,
            const char *text)
{
    assert(refusal < REFUSAL_COUNT);
    const struct refusal_row *row = &rows[refusal];
    reply->status = row->status;
    reply->retry_after_s = row->retry_after_s;
    otlp_reply_error(NULL, req->method, req->path, httpd_header(req, "Content-Type"), row->code,
                     text, reply);
}

void refusal_markdown(FILE *out)
{
    status_rows_head(out);
    for (size_t i = 0; i < REFUSAL_COUNT; i++)
        status_row(out, rows[i].status, rows[i].code, rows[i].retry_after_s, rows[i].meaning);
}
