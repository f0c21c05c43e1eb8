// SPDX-License-Identifier: MIT
/* Whatever a judge answers, it is a score in the bounds that were asked for, or a reason. */
#include <math.h>

#include "store/judge_text.h"
#include "tests/lib/batch_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (enum score_type type = 0; type < SCORE_TYPE_COUNT; type++) {
        struct settings_output output = {.type = type, .min = -1, .max = 1};
        struct judge_answer answer;
        struct err err = {""};
        struct slice body = {(const char *)data, size};
        if (judge_read_answer(body, &output, &answer, &err) == -1) {
            BATCH_CHECK(err.text[0] != '\0');
            continue;
        }
        bool is_number = type == SCORE_NUMBER || type == SCORE_BOOLEAN;
        BATCH_CHECK(answer.has_number == is_number && fabs(answer.number) <= 1);
        BATCH_CHECK(is_number || answer.text[0] != '\0');
        BATCH_CHECK(utf8_is_clean(slice_of(answer.text)));
        BATCH_CHECK(utf8_is_clean(slice_of(answer.comment)));
    }
    return 0;
}
