// SPDX-License-Identifier: MIT
/*
 * Order matters: the lock of the spool is taken before any socket is bound, as a second bind on an
 * ipc path would silently take it over. The end goes from intake over delivery to upkeep, so that
 * what one actor still says the next one still hears.
 */
#include "broker/broker_main.h"

#include <stdlib.h>
#include <string.h>
#include <string.h>

#include "broker/core.h"
#include "broker/delivery.h"
#include "broker/intake.h"
#include "broker/posts.h"
#include "broker/upkeep.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"

struct broker {
    struct broker_core core;
    upkeep_t *upkeep;
    delivery_t *delivery;
    intake_t *intake;
};

static void free_posts(struct mailbox *mailbox)
{
    struct mailbox_item *item = mailbox_take(mailbox);
    while (item != NULL) {
        struct mailbox_item *next = item->next;
        free(item);
        item = next;
    }
    mailbox_fini(mailbox);
}

static void broker_stop(void **self_p)
{
    struct broker *self = *self_p;
    if (self == NULL)
        return;
    intake_destroy(&self->intake);
    delivery_destroy(&self->delivery);
    upkeep_destroy(&self->upkeep);
    free_posts(&self->core.to_intake);
    free_posts(&self->core.to_delivery);
    free_posts(&self->core.to_upkeep);
    spool_close(&self->core.spool);
    free(self);
    *self_p = NULL;
}

static int open_spool(struct broker_core *core, struct err *err)
{
    const struct options *options = core->env->options;
    struct spool_config config = {
        .path = core->env->spool_path,
        .max_bytes = options->spool_max_bytes,
        .max_body_bytes = options->max_body_bytes,
        .must_stop = role_must_stop,
        .refuse_on_corruption = strcmp(options->spool_on_corruption, "refuse") == 0,
    };
    core->spool = spool_open(&config, &core->report, err);
    if (core->spool == NULL)
        return -1;
    const struct spool_report *report = &core->report;
    atomic_store(&core->corrupt_records, report->corrupt_records);
    log_at(LEVEL_INFO, "spool.open", NULL, LOG_TEXT("path", config.path),
           LOG_NUM("waiting", report->waiting), LOG_NUM("segments", report->segments),
           LOG_NUM("torn_bytes", report->torn_bytes),
           LOG_NUM("corrupt_records", report->corrupt_records),
           LOG_NUM("missing_segments", report->missing_segments),
           LOG_NUM("took_ms", report->took_ms));
    return 0;
}

static int start_all(struct broker *self, struct err *err)
{
    if (open_spool(&self->core, err) == -1)
        return -1;
    /* Both sockets are bound before upkeep makes files: binding changes the umask. */
    self->delivery = delivery_new(&self->core, err);
    if (self->delivery == NULL)
        return -1;
    self->intake = intake_new(&self->core, err);
    if (self->intake == NULL)
        return -1;
    self->upkeep = upkeep_new(&self->core, err);
    return self->upkeep == NULL ? -1 : 0;
}

static void *broker_start(const struct role_env *env, struct err *err)
{
    struct broker *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->core.env = env;
    atomic_init(&self->core.intake_word, "ok");
    self->core.to_intake.fd = self->core.to_delivery.fd = self->core.to_upkeep.fd = -1;
    clock_random(&self->core.boot_id, sizeof self->core.boot_id);
    if (mailbox_init(&self->core.to_intake, err) == -1 ||
        mailbox_init(&self->core.to_delivery, err) == -1 ||
        mailbox_init(&self->core.to_upkeep, err) == -1 || start_all(self, err) == -1)
        broker_stop((void **)&self);
    return self;
}

/* A broker alone is ready as long as it takes requests. */
static int broker_readiness(void *arg, struct buf *text)
{
    struct broker *self = arg;
    const char *word = atomic_load(&self->core.intake_word);
    bool is_low = strcmp(word, "low disk") == 0;
    if (buf_add_str(text, is_low ? "full; low disk" : word) == -1)
        return 503;
    return strcmp(word, "ok") == 0 ? 200 : 503;
}

const struct role broker_role = {
    .name = "broker",
    .bit = R_BROKER,
    .start = broker_start,
    .stop = broker_stop,
    .readiness = broker_readiness,
};
