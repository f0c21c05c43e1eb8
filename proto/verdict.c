// SPDX-License-Identifier: MIT
#include "proto/verdict.h"

#include <assert.h>

#include "common/status_row.h"

const struct verdict_row *verdict_row(enum verdict verdict)
{
    static const struct verdict_row rows[] = {
#define VERDICT(id, name, status, retry_after, code, text) {name, status, retry_after, code, text},
#include "proto/verdict.def"
#undef VERDICT
    };
    assert(verdict < VERDICT_COUNT);
    return &rows[verdict];
}

void verdict_markdown(FILE *out)
{
    status_rows_head(out);
    for (unsigned i = VERDICT_STORED + 1; i < VERDICT_COUNT; i++) {
        const struct verdict_row *row = verdict_row((enum verdict)i);
        status_row(out, row->http_status, row->code, row->retry_after_s, row->text);
    }
}
