// SPDX-License-Identifier: MIT
/* A list by project, as long as the settings ever named projects with a quota; they are few. */
#include "store/quotas.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"

struct usage {
    struct usage *next;
    char project[GRANT_PROJECT_MAX + 1];
    struct quota_window windows[QUOTA_DIMENSION_COUNT];
};

struct quotas {
    pthread_mutex_t lock;
    struct usage *first;
};

const char *quota_dimension_name(enum quota_dimension dimension)
{
    static const char *const names[QUOTA_DIMENSION_COUNT] = {
        [QUOTA_REQUESTS] = "requests",
        [QUOTA_EVENTS] = "events",
        [QUOTA_BYTES] = "bytes",
    };
    return names[dimension];
}

quotas_t *quotas_new(void)
{
    quotas_t *self = calloc(1, sizeof *self);
    assert(self);
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

void quotas_destroy(quotas_t **self_p)
{
    quotas_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    while (self->first) {
        struct usage *usage = self->first;
        self->first = usage->next;
        free(usage);
    }
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static uint64_t ceiling_of(const struct settings_quota *quota, enum quota_dimension dimension)
{
    return dimension == QUOTA_REQUESTS ? quota->requests
           : dimension == QUOTA_EVENTS ? quota->events
                                       : quota->bytes;
}

/* The lock is held. */
static struct usage *usage_of(quotas_t *self, const char *project)
{
    for (struct usage *usage = self->first; usage; usage = usage->next)
        if (strcmp(usage->project, project) == 0)
            return usage;
    struct usage *usage = calloc(1, sizeof *usage);
    assert(usage);
    snprintf(usage->project, sizeof usage->project, "%s", project);
    usage->next = self->first;
    self->first = usage;
    return usage;
}

static bool fits(struct usage *usage, const struct settings_quota *quota,
                 enum quota_dimension dimension, uint64_t amount, uint64_t now_s,
                 struct quota_refusal *refusal)
{
    uint64_t ceiling = ceiling_of(quota, dimension);
    *refusal = (struct quota_refusal){.dimension = dimension, .ceiling = ceiling};
    return ceiling == 0 ||
           quota_fits(&usage->windows[dimension], ceiling, amount, now_s, &refusal->lack);
}

static void count_refusal(const char *project, enum quota_dimension dimension)
{
    metric_series_add(
        metrics_series(METRIC_quota_refused, project, quota_dimension_name(dimension)), 1);
}

bool quotas_take_request(quotas_t *self, const struct settings_project *project, uint64_t bytes,
                         uint64_t now_s, struct quota_refusal *refusal)
{
    if (!project || !project->quota)
        return true;
    pthread_mutex_lock(&self->lock);
    struct usage *usage = usage_of(self, project->name);
    bool is_taken = fits(usage, project->quota, QUOTA_REQUESTS, 1, now_s, refusal) &&
                    fits(usage, project->quota, QUOTA_BYTES, bytes, now_s, refusal);
    if (is_taken) {
        quota_add(&usage->windows[QUOTA_REQUESTS], 1, now_s);
        quota_add(&usage->windows[QUOTA_BYTES], bytes, now_s);
    }
    pthread_mutex_unlock(&self->lock);
    if (!is_taken)
        count_refusal(project->name, refusal->dimension);
    return is_taken;
}

bool quotas_take_events(quotas_t *self, const struct settings_project *project, uint64_t events,
                        uint64_t now_s, struct quota_charge *charge, struct quota_refusal *refusal)
{
    *charge = (struct quota_charge){0};
    if (!project || !project->quota)
        return true;
    pthread_mutex_lock(&self->lock);
    struct usage *usage = usage_of(self, project->name);
    bool is_taken = fits(usage, project->quota, QUOTA_EVENTS, events, now_s, refusal);
    if (is_taken) {
        quota_add(&usage->windows[QUOTA_EVENTS], events, now_s);
        *charge = (struct quota_charge){events, usage->windows[QUOTA_EVENTS].newest_s};
    }
    pthread_mutex_unlock(&self->lock);
    if (!is_taken)
        count_refusal(project->name, refusal->dimension);
    return is_taken;
}

void quotas_give_back(quotas_t *self, const struct settings_project *project,
                      const struct quota_charge *charge, uint64_t events, uint64_t now_s)
{
    if (charge->events == 0 || events == 0)
        return;
    assert(events <= charge->events);
    pthread_mutex_lock(&self->lock);
    quota_give_back(&usage_of(self, project->name)->windows[QUOTA_EVENTS], events, charge->at_s,
                    now_s);
    pthread_mutex_unlock(&self->lock);
}
