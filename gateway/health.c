// SPDX-License-Identifier: MIT
#include "gateway/health.h"

#include <string.h>

/* A word that intake says of itself, and what that means for senders. */
static const struct {
    const char *intake;
    const char *word;
    const char *detail; /* null: the word says it all */
    enum verdict verdict;
} refusing[] = {
    {"full", "full", NULL, VERDICT_FULL},
    {"low disk", "full", "low disk", VERDICT_FULL},
    {"write error", "write error", NULL, VERDICT_FAILED},
};

enum verdict health_verdict(const struct broker_health *broker)
{
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++)
        if (strcmp(broker->intake, refusing[i].intake) == 0)
            return refusing[i].verdict;
    return VERDICT_STORED;
}

/* At 80 % a relay without an upstream sends its senders elsewhere while it still can. */
static bool is_full_soon(const struct broker_health *broker)
{
    uint64_t max_bytes = broker->max_bytes;
    return max_bytes > 0 && broker->used_bytes >= max_bytes - max_bytes / 5;
}

static int add(struct buf *text, const char *word)
{
    if (text->len > 0 && buf_add_str(text, "; ") == -1)
        return -1;
    return buf_add_str(text, word);
}

/* Nobody upstream: still taking requests, or no longer wise to. */
static int judge_without_upstream(const struct broker_health *broker, struct buf *text)
{
    bool is_soon = is_full_soon(broker);
    int failed = add(text, is_soon ? "no upstream" : "degraded");
    if (!broker->has_upstreams)
        failed |= add(text, "no courier has reported yet");
    else
        failed |= buf_printf(text, "; none of %u upstream(s) answered in the last 30 s",
                             broker->upstreams_total);
    return failed || is_soon ? 503 : 200;
}

static int judge(const struct broker_health *broker, struct buf *text)
{
    if (!broker->is_alive)
        return add(text, "no broker") == 0 ? 503 : 500;
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++) {
        if (strcmp(broker->intake, refusing[i].intake) != 0)
            continue;
        int failed = add(text, refusing[i].word);
        if (refusing[i].detail)
            failed |= add(text, refusing[i].detail);
        return failed ? 500 : 503;
    }
    if (broker->has_upstreams && broker->upstreams_up > 0)
        return add(text, "ok") == 0 ? 200 : 500;
    return judge_without_upstream(broker, text);
}

int health_readiness(const struct broker_health *broker, struct buf *text)
{
    int status = judge(broker, text);
    if (broker->is_alive && broker->note[0] && add(text, broker->note) == -1)
        return 503;
    return status;
}
