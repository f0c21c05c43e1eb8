// SPDX-License-Identifier: MIT
#include "store/passes.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"

#define LOG_EVERY_MS 10000

struct passes {
    struct passes_config config;
    backend_conn_t *conn;
    struct log_limit log_limit;
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopping;
};

bool pass_goes_on(const struct pass *pass)
{
    const struct passes *self = pass->passes;
    if (atomic_load(&self->is_stopping) || clock_mono_ms() >= pass->deadline_ms)
        return false;
    return pass->claim.fence == 0 || leading_holds(self->config.leading, &pass->claim) > 0;
}

void pass_gives_way(const struct pass *pass, uint64_t begun_ms)
{
    leading_t *leading = pass->passes->config.leading;
    uint64_t now_ms = clock_mono_ms();
    unsigned seen = 0;
    if (pass->backend->writers != 1)
        return;
    leading_wait(leading, now_ms, &seen); /* what has happened before wakes nobody */
    leading_wait(leading, now_ms + (now_ms - begun_ms) + 1, &seen);
}

static void note_failure(passes_t *self, const struct pass_step *step, const struct err *err)
{
    if (log_allowed(&self->log_limit, LOG_EVERY_MS, clock_mono_ms()))
        log_at(LEVEL_WARN, "pass.failing", NULL, LOG_TEXT("step", step->name),
               LOG_TEXT("reason", err->text), LOG_NUM("swallowed", self->log_limit.swallowed));
}

/* False when there is no claim to run the step under. */
static bool prepare(passes_t *self, const struct pass_step *step, struct pass *pass)
{
    const struct passes_config *config = &self->config;
    uint64_t budget_ms = config->pass_ms * step->budget_percent / 100;
    *pass = (struct pass){
        .backend = config->backend,
        .conn = self->conn,
        .pass_ms = config->pass_ms,
        .arg = config->arg,
        .passes = self,
    };
    if (!step->is_everywhere) {
        uint64_t trust_ms = leading_claim(config->leading, &pass->claim);
        if (trust_ms == 0)
            return false;
        budget_ms = clock_sooner_ms(budget_ms, trust_ms);
    }
    pass->deadline_ms = clock_mono_ms() + budget_ms;
    return true;
}

static void run_step(passes_t *self, const struct pass_step *step)
{
    struct err err = {{0}};
    struct pass pass;
    if (!prepare(self, step, &pass))
        return;
    uint64_t begun_us = clock_mono_us();
    enum backend_status status = step->run(&pass, &err);
    metric_series_observe_us(metrics_series(METRIC_pass_seconds, step->name, NULL),
                             clock_mono_us() - begun_us);
    if (status == BACKEND_OK)
        return;
    metric_series_add(metrics_series(METRIC_pass_failures, step->name, NULL), 1);
    if (status == BACKEND_FENCED)
        leading_fenced(self->config.leading, &pass.claim);
    else
        note_failure(self, step, &err);
}

static void *run(void *arg)
{
    passes_t *self = arg;
    unsigned seen = 0;
    log_thread_role("daemon");
    while (!atomic_load(&self->is_stopping)) {
        uint64_t begun_ms = clock_mono_ms();
        for (const struct pass_step *step = self->config.steps; step->name; step++)
            if (!atomic_load(&self->is_stopping))
                run_step(self, step);
        leading_wait(self->config.leading, begun_ms + self->config.pass_ms, &seen);
    }
    return NULL;
}

passes_t *passes_new(const struct passes_config *config, struct err *err)
{
    passes_t *self = calloc(1, sizeof *self);
    assert(self);
    self->config = *config;
    self->conn = config->backend->connect(config->store, true, err);
    if (self->conn) {
        self->is_started = pthread_create(&self->thread, NULL, run, self) == 0;
        if (!self->is_started)
            err_set(err, "cannot start the thread of the passes");
    }
    if (!self->is_started)
        passes_destroy(&self);
    return self;
}

void passes_destroy(passes_t **self_p)
{
    passes_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    if (self->is_started) {
        atomic_store(&self->is_stopping, true);
        leading_wake(self->config.leading);
        pthread_join(self->thread, NULL);
    }
    self->config.backend->disconnect(&self->conn);
    free(self);
}
