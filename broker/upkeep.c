// SPDX-License-Identifier: MIT
/*
 * A turn: take the posts, buffer acks, bury, sync the dead letters of the turn together, let acks_t
 * write what is due. Dead letters that cannot be written stay here and are tried again; their
 * entries stay in the ledger meanwhile, so nothing is delivered that was refused for good.
 */
#include "broker/upkeep.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "broker/acks.h"
#include "broker/dead.h"
#include "broker/posts.h"
#include "common/actor.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"

#define STATVFS_MS       5000
#define RECOUNT_MS       60000
#define RETRY_MS         5000
#define LONGEST_SLEEP_MS 1000
#define LOW_DISK_BYTES   ((uint64_t)256 * 1024 * 1024)
#define LOW_DISK_PERCENT 2
#define ALLOCATION_STEPS ((uint64_t)8 * 1024 * 1024) /* two steps of a segment */

struct upkeep {
    struct broker_core *core;
    struct actor actor;
    acks_t *acks;
    dead_t *dead;
    struct mailbox_item *unburied; /* POST_DEADs, oldest first */
    struct mailbox_item **unburied_end;
    uint64_t retry_at_ms;
    uint64_t statvfs_at_ms;
    bool is_low_disk; /* by the last look */
    uint64_t recount_at_ms;
};

static void answer_buried(upkeep_t *self, const struct record_id *id)
{
    struct post_buried *post = post_new(POST_BURIED, sizeof *post);
    post->id = *id;
    mailbox_post(&self->core->to_delivery, &post->post.item);
}

static void lose(upkeep_t *self, const struct record_ref *ref, uint64_t now_ms)
{
    acks_lose(self->acks, ref, now_ms);
    atomic_fetch_add(&self->core->corrupt_records, ref->lost > 0 ? ref->lost : 1);
    answer_buried(self, &ref->id);
}

static void on_outcomes(upkeep_t *self, struct post *post, uint64_t now_ms)
{
    static const enum ack_kind kinds[] = {
        [OUTCOME_DONE] = ACK_DONE, [OUTCOME_EXPIRY] = ACK_EXPIRY, [OUTCOME_SUSPECT] = ACK_SUSPECT};
    const struct post_outcomes *outcomes = (const struct post_outcomes *)post;
    for (uint32_t i = 0; i < outcomes->count; i++) {
        const struct outcome *outcome = &outcomes->at[i];
        if (outcome->kind == OUTCOME_LOST)
            lose(self, &outcome->ref, now_ms);
        else
            acks_add(self->acks, &outcome->ref.id, kinds[outcome->kind], outcome->rounds,
                     outcome->value, now_ms);
    }
    free(post);
}

/* Behind the others. */
static void put_order(upkeep_t *self, struct post_dead *order)
{
    order->post.item.next = NULL;
    *self->unburied_end = &order->post.item;
    self->unburied_end = &order->post.item.next;
}

static struct post_dead *take_order(upkeep_t *self)
{
    struct post_dead *order = (struct post_dead *)self->unburied;
    self->unburied = order->post.item.next;
    if (self->unburied == NULL)
        self->unburied_end = &self->unburied;
    order->post.item.next = NULL;
    return order;
}

static void on_dead(upkeep_t *self, struct post *post, uint64_t now_ms)
{
    (void)now_ms;
    put_order(self, (struct post_dead *)post);
}

typedef void on_post(upkeep_t *self, struct post *post, uint64_t now_ms);
static on_post *const handlers[POST_KINDS] = {[POST_OUTCOMES] = on_outcomes, [POST_DEAD] = on_dead};

static void take_posts(upkeep_t *self, uint64_t now_ms)
{
    struct mailbox_item *item = mailbox_take(&self->core->to_upkeep);
    while (item != NULL) {
        struct mailbox_item *next = item->next;
        struct post *post = (struct post *)item;
        handlers[post->kind](self, post, now_ms);
        item = next;
    }
}

/* The letters are durable: forget their records and say so. */
static void finish_burial(upkeep_t *self, struct mailbox_item *buried, uint64_t now_ms)
{
    while (buried != NULL) {
        struct mailbox_item *next = buried->next;
        struct post_dead *order = (struct post_dead *)buried;
        log_at(LEVEL_WARN, "request.dead", NULL, LOG_TEXT("reason", order->texts),
               LOG_NUM("status", order->note.status),
               LOG_TEXT("upstream", order->texts + order->note.reason.len + 1),
               LOG_NUM("segment", order->ref.id.segno), LOG_NUM("ordinal", order->ref.id.ordinal));
        metrics_add(METRIC_relay_dead_letter, 1);
        acks_add(self->acks, &order->ref.id, ACK_DEAD, 0, 0, now_ms);
        answer_buried(self, &order->ref.id);
        free(order);
        buried = next;
    }
}

/* Copies the first letter behind those of *end; false: it has to wait, and the others with it. */
static bool bury_one(upkeep_t *self, struct mailbox_item ***end, uint64_t now_ms, struct err *err)
{
    struct post_dead *order = take_order(self);
    enum read_result result = READ_OK;
    if (dead_add(self->dead, &order->ref, &order->note, &result, err) == 0) {
        **end = &order->post.item;
        *end = &order->post.item.next;
        return true;
    }
    if (result == READ_OK || result == READ_BAD || result == READ_LATER) {
        put_order(self, order); /* one that cannot be read holds up the others once only */
        return false;
    }
    if (result == READ_CORRUPT)
        lose(self, &order->ref, now_ms);
    else
        answer_buried(self, &order->ref.id);
    free(order);
    return true;
}

/* Copies every unburied letter to dead/ with one sync. On failure they stay for later. */
static void bury(upkeep_t *self, uint64_t now_ms)
{
    struct err err = {.text = ""}, commit_err = {.text = ""};
    struct mailbox_item *buried = NULL, **end = &buried;
    bool is_done = true;
    while (is_done && self->unburied != NULL)
        is_done = bury_one(self, &end, now_ms, &err);
    /* Also when nothing was copied: it ends the failure of a write. */
    if (dead_commit(self->dead, &commit_err) == 0) {
        finish_burial(self, buried, now_ms);
    } else if (buried != NULL) {
        *end = self->unburied;
        if (self->unburied == NULL)
            self->unburied_end = end;
        self->unburied = buried;
        is_done = false;
    }
    if (!is_done) {
        log_at(LEVEL_ERROR, "dead.write", NULL,
               LOG_TEXT("reason", err.text[0] != '\0' ? err.text : commit_err.text));
        self->retry_at_ms = now_ms + RETRY_MS;
    }
}

/* Free space below min(256 MiB, 2 %) of the file system, but at least two allocation steps, or
 * inodes below 2 %, counts as full. */
static bool is_low(const struct statvfs *fs)
{
    uint64_t total = (uint64_t)fs->f_blocks * fs->f_frsize;
    uint64_t available = (uint64_t)fs->f_bavail * fs->f_frsize;
    uint64_t limit = total / 100 * LOW_DISK_PERCENT;
    limit = limit < LOW_DISK_BYTES ? limit : LOW_DISK_BYTES;
    limit = limit > ALLOCATION_STEPS ? limit : ALLOCATION_STEPS;
    bool is_out_of_inodes = fs->f_files > 0 && fs->f_favail < fs->f_files / 100 * LOW_DISK_PERCENT;
    return available < limit || is_out_of_inodes;
}

static void watch_disk(upkeep_t *self, uint64_t now_ms)
{
    struct statvfs fs;
    self->statvfs_at_ms = now_ms + STATVFS_MS;
    if (statvfs(self->core->env->spool_path, &fs) == -1)
        return;
    bool now_low = is_low(&fs);
    if (now_low == self->is_low_disk)
        return;
    self->is_low_disk = now_low;
    spool_set_low_disk(self->core->spool, now_low);
    log_at(now_low ? LEVEL_ERROR : LEVEL_INFO, now_low ? "disk.low" : "disk.ok", NULL,
           LOG_NUM("free_bytes", (uint64_t)fs.f_bavail * fs.f_frsize));
}

/* One pass; returns milliseconds to sleep. */
static uint64_t turn(upkeep_t *self)
{
    uint64_t now_ms = clock_mono_ms();
    take_posts(self, now_ms);
    if (self->unburied != NULL && now_ms >= self->retry_at_ms)
        bury(self, now_ms);
    if (now_ms >= self->statvfs_at_ms)
        watch_disk(self, now_ms);
    if (now_ms >= self->recount_at_ms) {
        int64_t off_by = spool_recount(self->core->spool);
        if (off_by != 0)
            log_at(LEVEL_WARN, "spool.recount", NULL, LOG_NUM("off_by_bytes", off_by));
        self->recount_at_ms = now_ms + RECOUNT_MS;
    }
    uint64_t wait_ms = clock_sooner_ms(acks_tick(self->acks, now_ms), LONGEST_SLEEP_MS);
    if (self->unburied != NULL)
        wait_ms = clock_sooner_ms(wait_ms, clock_until_ms(self->retry_at_ms, now_ms));
    return wait_ms;
}

static void sleep_until_called(upkeep_t *self, uint64_t wait_ms)
{
    struct mailbox *mailbox = &self->core->to_upkeep;
    int fd = mailbox_fd(mailbox);
    if (!mailbox_may_sleep(mailbox))
        return;
    mailbox_woken(mailbox, actor_sleep(&fd, 1, wait_ms) != 0);
}

static void *run(void *arg)
{
    upkeep_t *self = arg;
    log_thread_role("upkeep");
    while (!mailbox_is_closed(&self->core->to_upkeep))
        sleep_until_called(self, turn(self));
    (void)turn(self);
    (void)!acks_flush(self->acks, clock_mono_ms());
    return NULL;
}

upkeep_t *upkeep_new(struct broker_core *core, struct err *err)
{
    upkeep_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->core = core;
    self->unburied_end = &self->unburied;
    self->recount_at_ms = clock_mono_ms() + RECOUNT_MS;
    self->acks = acks_new(core->spool);
    self->dead = dead_new(core->spool, err);
    if (self->dead == NULL || actor_start(&self->actor, run, self, err) == -1)
        upkeep_destroy(&self);
    return self;
}

void upkeep_destroy(upkeep_t **self_p)
{
    upkeep_t *self = *self_p;
    if (self == NULL)
        return;
    mailbox_close(&self->core->to_upkeep);
    actor_join(&self->actor);
    while (self->unburied != NULL) {
        struct mailbox_item *next = self->unburied->next;
        free(self->unburied);
        self->unburied = next;
    }
    dead_destroy(&self->dead);
    acks_destroy(&self->acks);
    free(self);
    *self_p = NULL;
}
