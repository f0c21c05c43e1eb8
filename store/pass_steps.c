// SPDX-License-Identifier: MIT
#include "store/pass_steps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/metrics.h"
#include "store/daemon.h"
#include "store/pass_score.h"

#define FORGET_ROWS     2000 /* in one transaction of a store that one at a time may write to */
#define FORGET_EVERY_MS 600000

/* Tells the other replicas that this one runs, and looks whether they have the same settings. */
static enum backend_status step_replica(struct pass *pass, struct err *err)
{
    const struct daemon *daemon = pass->arg;
    const struct settings *settings = settings_watch_hold(daemon->settings);
    struct replica replica = daemon->replica;
    int configs = 0;
    replica.config_hash = settings->hash;
    int rc = pass->backend->replica_seen(pass->conn, &replica, &configs, err);
    settings_release(&settings);
    if (rc == -1)
        return BACKEND_AWAY;
    metrics_set(METRIC_config_mismatch, configs > 1);
    return BACKEND_OK;
}

/* The pass itself, in the store: proves that the claim still writes, before other steps rely on it.
 */
static enum backend_status step_pass(struct pass *pass, struct err *err)
{
    return pass->backend->pass_mark(pass->conn, &pass->claim, "pass", slice_of(""), err);
}

/* What projects keep: those of the settings' projects, then those that keys name besides. */
struct kept_list {
    struct retention *items;
    size_t count;
    bool has_some; /* one does not keep everything */
};

static void add_kept(struct kept_list *list, const char *project, uint64_t days)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].project, project) == 0)
            return;
    list->items[list->count++] = (struct retention){project, days};
    list->has_some |= days > 0;
}

/* The caller frees the items; their texts are the daemon's and the settings'. */
static struct kept_list list_kept(const struct daemon *daemon, const struct settings *settings)
{
    size_t keys = keys_count(daemon->keys);
    size_t most = settings->projects_count + settings->keys_count + keys + 1;
    struct kept_list list = {.items = calloc(most, sizeof *list.items)};
    assert(list.items);
    for (size_t i = 0; i < settings->projects_count; i++)
        add_kept(&list, settings->projects[i].name, settings->projects[i].retention_days);
    for (size_t i = 0; list.has_some && i < settings->keys_count; i++)
        add_kept(&list, settings->keys[i].project, 0);
    for (size_t i = 0; list.has_some && i < keys; i++)
        add_kept(&list, keys_project(daemon->keys, i), 0);
    if (keys == 0 && !settings->has_keys)
        add_kept(&list, GRANT_PROJECT_DEFAULT, 0);
    return list;
}

/* 1 when everything is gone that is not kept, 0 when the time was not enough, -1. */
static int forget_in(const struct pass *pass, const struct backend *backend, backend_conn_t *conn,
                     const struct kept_list *kept, struct err *err)
{
    int removed = kept->has_some ? FORGET_ROWS : 0;
    while (removed >= FORGET_ROWS && pass_goes_on(pass)) {
        uint64_t begun_ms = clock_mono_ms();
        removed = backend->forget(conn, kept->items, kept->count, FORGET_ROWS, err);
        pass_gives_way(pass, begun_ms);
    }
    return removed == -1 ? -1 : removed < FORGET_ROWS;
}

/* The same where runs have a store of their own, over a connection for this time only. */
static int forget_runs(const struct pass *pass, const struct opened_store *runs,
                       const struct kept_list *kept, struct err *err)
{
    backend_conn_t *conn = runs->store ? runs->backend->connect(runs->store, true, err) : NULL;
    if (!conn)
        return runs->store ? -1 : 1;
    int rc = forget_in(pass, runs->backend, conn, kept, err);
    runs->backend->disconnect(&conn);
    return rc;
}

/* Deletes what is past the retention of its project: at once after a change of the settings, then
 * now and then, since it is a matter of days. */
static enum backend_status step_forget(struct pass *pass, struct err *err)
{
    struct daemon *daemon = pass->arg;
    struct forgetting *last = &daemon->forgetting;
    const struct settings *settings = settings_watch_hold(daemon->settings);
    int rc = 1;
    if (clock_mono_ms() >= last->due_ms || strcmp(last->hash, settings->hash) != 0) {
        struct kept_list kept = list_kept(daemon, settings);
        rc = forget_in(pass, pass->backend, pass->conn, &kept, err);
        if (rc == 1)
            rc = forget_runs(pass, &daemon->runs, &kept, err);
        free(kept.items);
        memcpy(last->hash, settings->hash, sizeof last->hash);
        last->due_ms = rc == 1 ? clock_mono_ms() + FORGET_EVERY_MS : 0;
    }
    settings_release(&settings);
    return rc == -1 ? BACKEND_AWAY : BACKEND_OK;
}

const struct pass_step pass_steps[] = {
    {"replica", 30, true, step_replica}, {"pass", 30, false, step_pass},
    {"settle", 20, false, pass_settle},  {"score", 30, false, pass_score},
    {"forget", 20, false, step_forget},  {0},
};
