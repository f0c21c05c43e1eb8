// SPDX-License-Identifier: MIT
#include "proto/verdict.h"

#include <assert.h>

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
