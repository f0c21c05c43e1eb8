// SPDX-License-Identifier: MIT
/* verdict: what became of a request, from one table, verdict.def. */
#ifndef MCPD_VERDICT_H
#define MCPD_VERDICT_H

#include <stdio.h>

enum verdict {
#define VERDICT(id, name, status, retry_after, code, text) VERDICT_##id,
#include "proto/verdict.def"
#undef VERDICT
    VERDICT_COUNT
};

struct verdict_row {
    const char *name;
    int http_status;
    int retry_after_s; /* 0: none */
    const char *code;  /* for the JSON error body */
    const char *text;
};

/* The rows of docs/statuses.md. */
void verdict_markdown(FILE *out);

/* verdict must be a value of the enum. */
const struct verdict_row *verdict_row(enum verdict verdict);

#endif
