// SPDX-License-Identifier: MIT
/*
 * The file is looked at by its path, so that a link that is swapped (Kubernetes) or a file that is
 * renamed into place is seen as one that is written over. A change counts once it has settled: what
 * an editor or a copy is still writing may be a shorter file that is in order, too.
 */
#include "store/settings_watch.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/wait.h"

#define LOOK_MS   250
#define SETTLE_NS 200000000
#define NS_PER_S  1000000000

struct settings_watch {
    const struct options *options;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_asked;                  /* to read the file whatever it looks like */
    bool is_stopping;               /* this and the former: under the lock */
    const struct settings *current; /* likewise */

    /* The thread's own: the file that was read last. */
    struct stat seen;
    bool is_seen;
    char tried[SHA256_HEX_SIZE]; /* of its bytes; empty where it could not be read */
};

/* What holds of this process and not of the file alone. */
static int check_here(const struct options *options, const struct settings *settings,
                      struct err *err)
{
    if (options_need_keys(options) && !settings->has_keys)
        return err_set(err, "an address beyond loopback is listened on, and there is neither an "
                            "--ingest-key nor a section 'keys' here: give one, or "
                            "--allow-anonymous to let every sender in");
    for (size_t i = 0; i < settings->scorers_count; i++) {
        const struct settings_judge *judge = settings->scorers[i].judge;
        if (judge && judge->key_env && !options_named_variable(judge->key_env))
            return err_set(err, "scorers[%zu].judge.key_env: the variable %s is not set", i,
                           judge->key_env);
    }
    return 0;
}

static const struct settings *parse(settings_watch_t *self, struct slice text, struct err *err)
{
    const struct settings *settings = settings_parse(text, err);
    if (settings && check_here(self->options, settings, err) == -1)
        settings_release(&settings);
    return settings;
}

static void put(settings_watch_t *self, const struct settings *settings)
{
    pthread_mutex_lock(&self->lock);
    const struct settings *old = self->current;
    self->current = settings;
    pthread_mutex_unlock(&self->lock);
    settings_release(&old);
    metrics_set(METRIC_config_time, (int64_t)clock_wall_s());
    metrics_set(METRIC_config_success, 1);
}

/* Reads the file and puts it in force; -1 with the reason. What it last tried it tries again only
 * when that is asked for. */
static int load(settings_watch_t *self, bool is_asked, struct err *err)
{
    struct buf content;
    char hash[SHA256_HEX_SIZE] = "";
    const struct settings *settings = NULL;
    buf_init(&content, SETTINGS_FILE_MAX + 1);
    int rc = settings_load(self->options->config, &content, err);
    struct slice text = {content.data, content.len};
    if (rc == 0)
        sha256_hex(text, hash);
    bool is_new = strcmp(hash, self->tried) != 0 || rc == -1;
    memcpy(self->tried, hash, sizeof hash);
    if (rc == 0 && (is_new || is_asked)) {
        settings = parse(self, text, err);
        rc = settings ? 0 : -1;
    }
    buf_fini(&content);
    if (settings) {
        log_at(LEVEL_INFO, "settings.loaded", NULL, LOG_TEXT("file", self->options->config),
               LOG_NUM("keys", settings->keys_count), LOG_NUM("projects", settings->projects_count),
               LOG_NUM("scorers", settings->scorers_count), LOG_TEXT("sha256", settings->hash));
        put(self, settings);
    }
    return rc;
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_size == other->st_size && one->st_ctim.tv_sec == other->st_ctim.tv_sec &&
           one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
}

/* From here on a further change shows in its times, also where the file system keeps whole seconds.
 * A time ahead of our clock says nothing. */
static bool is_settled(const struct stat *now)
{
    int64_t settle_ns = SETTLE_NS + (now->st_ctim.tv_nsec == 0 ? NS_PER_S : 0);
    int64_t age_ns =
        (int64_t)clock_wall_ns() - ((int64_t)now->st_ctim.tv_sec * NS_PER_S + now->st_ctim.tv_nsec);
    return age_ns < 0 || age_ns >= settle_ns;
}

/* Notes what the file looks like. True when it is to be read. */
static bool has_changed(settings_watch_t *self)
{
    struct stat now;
    bool is_there = stat(self->options->config, &now) == 0;
    if (!is_there && !self->is_seen)
        return false;
    if (is_there && self->is_seen && is_same(&now, &self->seen))
        return false;
    if (is_there && !is_settled(&now))
        return false;
    self->is_seen = is_there;
    self->seen = now;
    return true;
}

static void look(settings_watch_t *self, bool is_asked)
{
    struct err err = {{0}};
    if (!has_changed(self) && !is_asked)
        return;
    if (load(self, is_asked, &err) == 0)
        return;
    metrics_set(METRIC_config_success, 0);
    log_at(LEVEL_ERROR, "settings.refused", NULL, LOG_TEXT("file", self->options->config),
           LOG_TEXT("reason", err.text), LOG_TEXT("now", "the settings before it stay in force"));
}

static void *run(void *arg)
{
    settings_watch_t *self = arg;
    log_thread_role("daemon");
    pthread_mutex_lock(&self->lock);
    while (!self->is_stopping) {
        bool is_asked = self->is_asked;
        self->is_asked = false;
        pthread_mutex_unlock(&self->lock);
        look(self, is_asked);
        uint64_t until_ms = clock_mono_ms() + LOOK_MS;
        pthread_mutex_lock(&self->lock);
        while (!self->is_stopping && !self->is_asked)
            if (wait_until(&self->changed, &self->lock, until_ms) != 0)
                break;
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static int start(settings_watch_t *self, struct err *err)
{
    struct err reason = {{0}};
    self->is_seen = stat(self->options->config, &self->seen) == 0;
    if (load(self, true, &reason) == -1)
        return err_set(err, "--config: %.60s: %s", self->options->config, reason.text);
    if (pthread_create(&self->thread, NULL, run, self) != 0)
        return err_set(err, "cannot start the thread that watches the settings");
    self->has_thread = true;
    return 0;
}

settings_watch_t *settings_watch_new(const struct options *options, struct err *err)
{
    settings_watch_t *self = calloc(1, sizeof *self);
    assert(self);
    self->options = options;
    pthread_mutex_init(&self->lock, NULL);
    wait_init(&self->changed);
    if (!*options->config)
        put(self, settings_none());
    else if (start(self, err) == -1)
        settings_watch_destroy(&self);
    return self;
}

void settings_watch_destroy(settings_watch_t **self_p)
{
    settings_watch_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    pthread_mutex_lock(&self->lock);
    self->is_stopping = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    if (self->has_thread)
        pthread_join(self->thread, NULL);
    settings_release(&self->current);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

const struct settings *settings_watch_hold(settings_watch_t *self)
{
    pthread_mutex_lock(&self->lock);
    const struct settings *settings = settings_hold(self->current);
    pthread_mutex_unlock(&self->lock);
    return settings;
}

void settings_watch_reload(settings_watch_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->is_asked = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}
