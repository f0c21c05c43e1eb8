// SPDX-License-Identifier: MIT
#include "courier/prober.h"

#include <stdlib.h>

#include "common/clock.h"
#include "courier/push.h"

#define PROBE_EVERY_MS  5000 /* give or take a tenth, so that couriers do not march in step */
#define PROBE_SPREAD_MS 500

struct probe {
    push_t *push; /* null: not probed */
    bool is_running;
    uint64_t due_ms;
};

struct prober {
    CURLM *multi;
    upstreams_t *upstreams;
    size_t count;
    struct probe probes[];
};

prober_t *prober_new(CURLM *multi, upstreams_t *upstreams)
{
    size_t count = upstreams_count(upstreams);
    prober_t *self = calloc(1, sizeof *self + count * sizeof self->probes[0]);
    if (!self)
        abort();
    self->multi = multi;
    self->upstreams = upstreams;
    self->count = count;
    for (size_t i = 0; i < count; i++) {
        if (upstreams_spec(upstreams, i)->probe_path)
            self->probes[i].push = push_new(PUSH_PROBE, &self->probes[i]);
    }
    return self;
}

void prober_destroy(prober_t **self_p)
{
    prober_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->count; i++) {
        if (self->probes[i].is_running)
            curl_multi_remove_handle(self->multi, push_handle(self->probes[i].push));
        push_destroy(&self->probes[i].push);
    }
    free(self);
    *self_p = NULL;
}

static void start(prober_t *self, size_t index, uint64_t now_ms)
{
    struct probe *probe = &self->probes[index];
    push_prepare_probe(probe->push, upstreams_spec(self->upstreams, index));
    probe->due_ms = now_ms + PROBE_EVERY_MS - PROBE_SPREAD_MS +
                    (uint64_t)(2 * PROBE_SPREAD_MS * clock_random_unit());
    probe->is_running = curl_multi_add_handle(self->multi, push_handle(probe->push)) == CURLM_OK;
}

uint64_t prober_turn(prober_t *self, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < self->count; i++) {
        struct probe *probe = &self->probes[i];
        if (!probe->push || probe->is_running)
            continue;
        if (now_ms >= probe->due_ms)
            start(self, i, now_ms);
        else if (probe->due_ms < next_ms)
            next_ms = probe->due_ms;
    }
    return next_ms;
}

bool prober_ended(prober_t *self, CURL *handle, CURLcode code, uint64_t now_ms)
{
    for (size_t i = 0; i < self->count; i++) {
        struct probe *probe = &self->probes[i];
        if (!probe->push || push_handle(probe->push) != handle)
            continue;
        struct push_result result;
        push_result(probe->push, code, clock_wall_s(), &result);
        curl_multi_remove_handle(self->multi, handle);
        probe->is_running = false;
        upstreams_probed(self->upstreams, i, outcome_of(&result.facts).class == OUTCOME_DELIVERED,
                         now_ms);
        return true;
    }
    return false;
}
