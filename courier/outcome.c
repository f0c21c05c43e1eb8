// SPDX-License-Identifier: MIT
#include "courier/outcome.h"

#include <assert.h>
#include <stddef.h>

#include <curl/curl.h>

#define COUNT_OF(rows) (sizeof(rows) / sizeof(rows)[0])

struct status_row {
    int first;
    int last;
    enum outcome_class class;
    enum outcome_class class_with_our_key;
    bool is_braked;
};

struct curl_row {
    int code;
    enum outcome_class class;
    bool is_ambiguous;
};

static const struct status_row status_rows[] = {
#define STATUS_OUTCOME(first, last, class, class_with_our_key, is_braked) \
    {first, last, OUTCOME_##class, OUTCOME_##class_with_our_key, is_braked},
#include "courier/outcome.def"
};

static const struct curl_row curl_rows[] = {
#define CURL_OUTCOME(code, class, is_ambiguous) {code, OUTCOME_##class, is_ambiguous},
#include "courier/outcome.def"
};

static struct outcome of_status(const struct attempt_facts *facts)
{
    if ((facts->status == 503 && facts->says_in_flight) ||
        (facts->status == 429 && facts->says_quota))
        return (struct outcome){.class = OUTCOME_WAIT};
    if (facts->status == 417 && facts->has_asked)
        return (struct outcome){.class = OUTCOME_AGAIN};
    for (size_t i = 0; i < COUNT_OF(status_rows); i++) {
        const struct status_row *row = &status_rows[i];
        if (facts->status < row->first || facts->status > row->last)
            continue;
        return (struct outcome){
            .class = facts->has_our_key ? row->class_with_our_key : row->class,
            .is_braked = row->is_braked,
        };
    }
    return (struct outcome){.class = OUTCOME_SOFT, .is_ambiguous = true};
}

static struct outcome of_curl(const struct attempt_facts *facts)
{
    if (facts->curl_code == CURLE_OPERATION_TIMEDOUT && !facts->is_sent)
        return (struct outcome){.class = OUTCOME_HARD};
    for (size_t i = 0; i < COUNT_OF(curl_rows); i++) {
        const struct curl_row *row = &curl_rows[i];
        if (row->code == facts->curl_code)
            return (struct outcome){.class = row->class, .is_ambiguous = row->is_ambiguous};
    }
    return (struct outcome){.class = OUTCOME_LOCAL};
}

/* A status line that is an error stands even where the connection broke behind it: an upstream that
 * refuses a body early often closes without reading the rest. A success does not: its answer may
 * have been cut because the upstream died. */
struct outcome outcome_of(const struct attempt_facts *facts)
{
    bool is_whole = facts->curl_code == CURLE_OK || facts->is_cut;
    if (is_whole || facts->status >= 400)
        return of_status(facts);
    return of_curl(facts);
}

const char *outcome_class_name(enum outcome_class class)
{
    static const char *const names[OUTCOME_CLASS_COUNT] = {
        [OUTCOME_DELIVERED] = "delivered", [OUTCOME_HARD] = "hard",   [OUTCOME_SOFT] = "soft",
        [OUTCOME_CONFIG] = "config",       [OUTCOME_WAIT] = "wait",   [OUTCOME_FINAL] = "final",
        [OUTCOME_LOCAL] = "local",         [OUTCOME_AGAIN] = "again",
    };
    assert(class < OUTCOME_CLASS_COUNT);
    return names[class];
}
