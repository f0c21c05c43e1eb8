// SPDX-License-Identifier: MIT
/*
 * Signals are blocked in every thread from the start and taken by the main thread alone, so that no
 * handler ever runs and no library loop is interrupted. ZeroMQ's own handling of them is off.
 */
#include "common/role.h"

#include <assert.h>
#include <czmq.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/grant.h"
#include "common/log.h"
#include "common/metrics.h"

#define ROLES_MAX            4
#define DESCRIPTORS_WANTED   65536
#define DESCRIPTORS_RESERVED 512 /* segments, sockets, upstream connections */
#define ZMQ_SOCKETS_MAX      4096
#define SHORT_KEY_LEN        16
#define NAME_MAX_BYTES       128

static _Atomic bool has_failed;

void role_fail(const char *role, const char *reason)
{
    log_at(LEVEL_ERROR, "role.failed", NULL, LOG_TEXT("failed", role), LOG_TEXT("reason", reason));
    atomic_store(&has_failed, true);
    kill(getpid(), SIGTERM);
}

/* The two that end the process, and SIGHUP where a role wants it: a blocked signal that is ignored
 * may be thrown away before sigwait sees it. */
static void block_signals(const struct program *program, sigset_t *taken)
{
    bool has_reload = false;
    for (const struct role *const *role = program->roles; *role; role++)
        has_reload |= (*role)->reload != NULL;
    sigemptyset(taken);
    sigaddset(taken, SIGTERM);
    sigaddset(taken, SIGINT);
    if (has_reload)
        sigaddset(taken, SIGHUP);
    pthread_sigmask(SIG_BLOCK, taken, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, has_reload ? SIG_DFL : SIG_IGN);
}

/* Each thread of the door needs a descriptor for its connection and one for a connection that waits
 * for it; running out later is ugly in both network libraries, so it is refused now. */
static int raise_descriptor_limit(const struct options *options, enum role_bits role,
                                  struct err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        return err_set(err, "getrlimit: %s", strerror(errno));
    rlim_t wanted = DESCRIPTORS_WANTED;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
        return err_set(err, "setrlimit: %s", strerror(errno));
    bool has_door = role & (R_RELAY | R_GATEWAY | R_DAEMON);
    rlim_t needed = DESCRIPTORS_RESERVED + (has_door ? 2 * options->threads : 0);
    if (limit.rlim_cur < needed)
        return err_set(err,
                       "%llu file descriptors are allowed but %llu needed: raise the limit "
                       "(ulimit -n) or lower --threads",
                       (unsigned long long)limit.rlim_cur, (unsigned long long)needed);
    return 0;
}

/* Set whatever the environment says: ZSYS_ variables must not change what durability rests on. */
static void start_zeromq(void)
{
    zsys_handler_set(NULL);
    zsys_init();
    zsys_handler_set(NULL);
    zsys_set_max_sockets(ZMQ_SOCKETS_MAX);
    zsys_set_linger(0);
    zsys_set_sndhwm(0);
    zsys_set_rcvhwm(0);
    zsys_set_max_msgsz(INT_MAX);
}

static char *process_name(const struct options *options, const struct program *program)
{
    char host[64] = "localhost", name[NAME_MAX_BYTES];
    if (*options->name)
        return slice_dup(slice_of(options->name));
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s-%s-%d", program->name, host, (int)getpid());
    return slice_dup(slice_of(name));
}

/* Where the roles meet: inside a relay over inproc, else ipc beside the spool unless told. */
static char *endpoint(const struct role_env *env, enum role_bits role, const char *given,
                      const char *socket_name)
{
    char text[8192];
    if (role == R_RELAY)
        snprintf(text, sizeof text, "inproc://mcpd-%s", socket_name);
    else if (role == R_BROKER && !*given)
        snprintf(text, sizeof text, "ipc://%s/%s.sock", env->spool_path, socket_name);
    else if (role == R_BROKER)
        snprintf(text, sizeof text, "%s", given);
    else if (env->options->broker.count > 0)
        snprintf(text, sizeof text, "%s", env->options->broker.items[0]);
    else
        text[0] = 0;
    return slice_dup(slice_of(text));
}

struct running {
    const struct role *role;
    void *self;
};

static int start_all(const struct program *program, const struct role_env *env,
                     struct running running[ROLES_MAX], size_t *count, struct err *err)
{
    for (const struct role *const *role = program->roles; *role; role++) {
        assert(*count < ROLES_MAX);
        void *self = (*role)->start(env, err);
        if (!self)
            return -1;
        running[(*count)++] = (struct running){*role, self};
    }
    return 0;
}

static int always_ready(void *arg, struct buf *text)
{
    (void)arg;
    return buf_add_str(text, "ok") == 0 ? 200 : 503;
}

/* The extra port for probes and metrics, where one is asked for; *door stays null where not. */
static int open_admin_door(const struct role_env *env, const struct running *last, httpd_t **door,
                           struct err *err)
{
    if (env->options->admin_listen.count == 0)
        return 0;
    struct httpd_config config = {
        .options = env->options,
        .listen = &env->options->admin_listen,
        .is_admin = true,
        .roles = env->roles,
        .readiness = last->role->readiness ? last->role->readiness : always_ready,
        .arg = last->self,
    };
    *door = httpd_new(&config, err);
    return *door ? 0 : -1;
}

/* The signals are blocked, so one that came waits. */
bool role_must_stop(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

/* A second signal means that somebody has lost patience: what was accepted is on disk. */
static void *end_on_second_signal(void *arg)
{
    int signal_number;
    do
        sigwait(arg, &signal_number);
    while (signal_number == SIGHUP);
    _exit(EXIT_FAILURE);
}

static void reload(const struct running *running, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (running[i].role->reload)
            running[i].role->reload(running[i].self);
}

static void wait_for_end(const struct program *program, const struct running *running, size_t count,
                         sigset_t *taken)
{
    int signal_number;
    while (sigwait(taken, &signal_number) == 0 && signal_number == SIGHUP)
        reload(running, count);
    log_at(LEVEL_INFO, "stopping", NULL, LOG_TEXT("program", program->name),
           LOG_TEXT("signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"));
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_on_second_signal, taken) == 0)
        pthread_detach(thread);
}

/* A mistyped project or scope is no mistake in the form: the whole text is a key then. */
static void warn_of_doubtful_keys(const struct options *options)
{
    for (size_t i = 0; i < options->ingest_key.count; i++)
        if (grant_is_doubtful(options->ingest_key.items[i]))
            log_at(LEVEL_WARN, "key.doubtful", NULL, LOG_TEXT("option", "ingest-key"),
                   LOG_NUM("number", i + 1),
                   LOG_TEXT("reason", "this is no PROJECT/SCOPE=KEY with one of the scopes in, rd, "
                                      "sc, ad; all of it is taken for a key"));
}

static void warn_of_short_keys(const struct options *options)
{
    for (size_t i = 0; i < options->ingest_key.count; i++)
        if (grant_parse(options->ingest_key.items[i]).secret.len < SHORT_KEY_LEN) {
            log_at(LEVEL_WARN, "key.short", NULL, LOG_TEXT("option", "ingest-key"),
                   LOG_NUM("characters_advised", SHORT_KEY_LEN));
            return;
        }
}

static int start_and_serve(const struct program *program, const struct role_env *env,
                           sigset_t *taken, struct err *err)
{
    struct running running[ROLES_MAX];
    size_t count = 0;
    httpd_t *admin = NULL;
    int rc = start_all(program, env, running, &count, err);
    if (rc == 0) {
        assert(count > 0); /* a program has a role */
        rc = open_admin_door(env, &running[count - 1], &admin, err);
    }
    if (rc == 0) {
        log_at(LEVEL_INFO, "started", NULL, LOG_TEXT("program", program->name),
               LOG_TEXT("name", env->name));
        wait_for_end(program, running, count, taken);
    }
    if (admin)
        httpd_drain(admin);
    while (count > 0) {
        count--;
        running[count].role->stop(&running[count].self);
    }
    httpd_destroy(&admin);
    return rc;
}

int role_run(const struct program *program, const struct options *options)
{
    sigset_t taken;
    struct err err = {{0}};
    log_open(strcmp(options->log_level, "debug") == 0  ? LEVEL_DEBUG
             : strcmp(options->log_level, "info") == 0 ? LEVEL_INFO
             : strcmp(options->log_level, "warn") == 0 ? LEVEL_WARN
                                                       : LEVEL_ERROR,
             strcmp(options->log_format, "json") == 0);
    log_process_role(program->name);
    metrics_start();
    umask(077);
    block_signals(program, &taken);
    warn_of_short_keys(options);
    warn_of_doubtful_keys(options);

    struct role_env env = {.options = options};
    for (const struct role *const *role = program->roles; *role; role++)
        env.roles |= (*role)->bit;
    char *name = process_name(options, program);
    char *spool_path = options_spool_path(options);
    env.name = name;
    env.spool_path = spool_path;
    char *gateway = endpoint(&env, program->bit, options->gateway_endpoint, "gateway");
    char *courier = endpoint(&env, program->bit, options->courier_endpoint, "courier");
    env.gateway_endpoint = gateway;
    env.courier_endpoint = courier;

    int rc = raise_descriptor_limit(options, program->bit, &err);
    if (rc == 0) {
        start_zeromq();
        rc = start_and_serve(program, &env, &taken, &err);
        zsys_shutdown();
    }
    if (rc == -1)
        log_at(LEVEL_ERROR, "start.failed", NULL, LOG_TEXT("reason", err.text));
    free(courier);
    free(gateway);
    free(spool_path);
    free(name);
    log_at(LEVEL_INFO, "stopped", NULL, LOG_TEXT("program", program->name));
    return rc == -1 || atomic_load(&has_failed) ? EXIT_FAILURE : EXIT_SUCCESS;
}
