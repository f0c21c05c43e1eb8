// SPDX-License-Identifier: MIT
#include "common/status_row.h"

void status_rows_head(FILE *out)
{
    fprintf(out, "| status | code | Retry-After | meaning |\n|---|---|---|---|\n");
}

void status_row(FILE *out, int status, const char *code, int retry_after_s, const char *meaning)
{
    fprintf(out, "| %d | `%s` | ", status, code);
    if (retry_after_s > 0)
        fprintf(out, "%d s", retry_after_s);
    fprintf(out, " | %s |\n", meaning);
}
