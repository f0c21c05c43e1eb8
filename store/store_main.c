// SPDX-License-Identifier: MIT
/*
 * Order of life: settings, store, writers, readers, the lease and the passes under it, door. At the
 * end the lease goes first, so that another replica leads while this one drains; then the door is
 * drained before anything behind it goes, so that every request under way gets its answer.
 */
#include "store/store_main.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/version.h"
#include "proto/otlp_reply.h"
#include "store/api.h"
#include "store/daemon.h"
#include "store/ingest.h"
#include "store/pass_steps.h"
#include "store/score_plan.h"

static const struct http_route routes[] = {
    {.method = "POST", .path = "/v1/traces", .handler = ingest_traces},
    {.method = "POST", .path = "/v1/logs", .handler = ingest_logs},
    {.method = "POST", .path = "/v1/metrics", .handler = ingest_metrics},
    {.method = "POST", .path = "/v1/ingest", .handler = ingest_native},
    {.method = "GET", .path = "/v1/traces", .handler = api_list},
    {.method = "GET", .path = "/v1/traces/", .handler = api_read_trace},
    {.method = "GET", .path = "/v1/sessions", .handler = api_list},
    {.method = "GET", .path = "/v1/sessions/", .handler = api_read_session},
    {.method = "GET", .path = "/v1/logs", .handler = api_list},
    {.method = "GET", .path = "/v1/metrics", .handler = api_list},
    {.method = "GET", .path = "/v1/scores", .handler = api_list},
    {.method = "GET", .path = "/v1/runs", .handler = api_list},
    {.method = "GET", .path = "/v1/rejects", .handler = api_list},
    {.method = "GET", .path = "/v1/replicas", .handler = api_list},
    {0},
};

static const char *const door_labels[DOOR_COUNT] = {
    [DOOR_TRACES] = "traces",
    [DOOR_LOGS] = "logs",
    [DOOR_METRICS] = "metrics",
    [DOOR_NATIVE] = "ingest",
};

static int readiness(void *arg, struct buf *text)
{
    struct daemon *self = arg;
    uint64_t now_ms = clock_mono_ms();
    const char *state = "ok";
    if (!opened_store_is_ready(&self->main, now_ms))
        state = "store unavailable";
    else if (!opened_store_is_ready(&self->runs, now_ms))
        state = "store of runs unavailable";
    return buf_add_str(text, state) == 0 && strcmp(state, "ok") == 0 ? 200 : 503;
}

static bool find_key(void *arg, struct slice key, struct key_holder *holder)
{
    struct daemon *self = arg;
    const struct settings *settings = settings_watch_hold(self->settings);
    bool is_known = keys_find(self->keys, settings, key, clock_wall_s(), holder);
    settings_release(&settings);
    return is_known;
}

static httpd_t *open_door(struct daemon *self, unsigned roles, struct err *err)
{
    struct httpd_config config = {
        .options = self->options,
        .listen = &self->options->listen,
        .roles = roles,
        .routes = routes,
        .find_key = find_key,
        .error_body = otlp_reply_error,
        .readiness = readiness,
        .arg = self,
    };
    return httpd_new(&config, err);
}

static void stop(void **self_p)
{
    struct daemon *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    judges_destroy(&self->judges);
    passes_destroy(&self->passes);
    score_plan_destroy(&self->plan);
    leading_destroy(&self->leading);
    if (self->door)
        httpd_drain(self->door);
    httpd_destroy(&self->door);
    opened_store_close(&self->runs);
    opened_store_close(&self->main);
    keys_destroy(&self->keys);
    quotas_destroy(&self->quotas);
    settings_watch_destroy(&self->settings);
    gate_fini(&self->gate);
    free(self);
}

static void open_series(struct daemon *self)
{
    for (size_t i = 0; i < DOOR_COUNT; i++) {
        const char *door = door_labels[i];
        self->series[i] = (struct ingest_series){
            .accepted = metrics_series(METRIC_ingest_events, door, "accepted"),
            .duplicate = metrics_series(METRIC_ingest_events, door, "duplicate"),
            .rejected = metrics_series(METRIC_ingest_events, door, "rejected"),
        };
    }
}

static int start_passes(struct daemon *self, const char *name, struct err *err)
{
    uint64_t pass_ms = self->options->pass_interval;
    self->leading = leading_new(self->main.backend, self->main.store, pass_ms, err);
    if (!self->leading)
        return -1;
    self->replica = (struct replica){
        .id = name,
        .holder = leading_holder(self->leading),
        .url = self->options->listen.items[0],
        .version = MCPD_VERSION,
        .recent_ms = 3 * pass_ms,
    };
    struct passes_config config = {
        .backend = self->main.backend,
        .store = self->main.store,
        .leading = self->leading,
        .pass_ms = pass_ms,
        .steps = pass_steps,
        .arg = self,
    };
    self->passes = passes_new(&config, err);
    if (!self->passes)
        return -1;
    struct judges_config judges = {
        .backend = self->main.backend,
        .store = self->main.store,
        .leading = self->leading,
        .settings = self->settings,
        .pass_ms = pass_ms,
    };
    self->judges = judges_new(&judges, err);
    return self->judges ? 0 : -1;
}

static int open_stores(struct daemon *self, struct err *err)
{
    const struct options *options = self->options;
    const char *where_runs = NULL;
    if (opened_store_open(&self->main, *options->store ? options->store : options->data, err) == -1)
        return -1;
    self->runs_place = runs_place(options, &where_runs);
    return self->runs_place == RUNS_APART ? opened_store_open(&self->runs, where_runs, err) : 0;
}

static int open_parts(struct daemon *self, const struct role_env *env, struct err *err)
{
    self->keys = keys_new(&self->options->ingest_key, err);
    if (!self->keys)
        return -1;
    self->settings = settings_watch_new(self->options, err);
    if (!self->settings)
        return -1;
    if (open_stores(self, err) == -1)
        return -1;
    if (start_passes(self, env->name, err) == -1)
        return -1;
    self->door = open_door(self, env->roles, err);
    return self->door ? 0 : -1;
}

static void *start(const struct role_env *env, struct err *err)
{
    struct daemon *self = calloc(1, sizeof *self);
    assert(self);
    self->options = env->options;
    gate_init(&self->gate, INGEST_DECODERS, self->options->max_inflight_bytes);
    self->quotas = quotas_new();
    open_series(self);
    if (open_parts(self, env, err) == 0) {
        log_at(LEVEL_INFO, "store.open", NULL, LOG_TEXT("backend", self->main.backend->name),
               LOG_TEXT("data", *self->options->store ? "(shared)" : self->options->data));
        return self;
    }
    void *failed = self;
    stop(&failed);
    return NULL;
}

static void reload(void *self)
{
    settings_watch_reload(((struct daemon *)self)->settings);
}

const struct role daemon_role = {
    .name = "daemon",
    .bit = R_DAEMON,
    .start = start,
    .stop = stop,
    .reload = reload,
    .readiness = readiness,
};
