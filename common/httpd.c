// SPDX-License-Identifier: MIT
/*
 * Listeners, threads, drain. The library's handler table, its file server and its error pages are
 * not used: begin_request sees every request that parsed, http_error every one that did not.
 */
#include "common/httpd_impl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define STACK_MIN_BYTES     ((size_t)1024 * 1024)
#define ADMIN_THREADS       4
#define ADMIN_TIMEOUT_MS    2000
#define HEAD_TIMEOUT_MAX_MS 10000
#define REPLY_MAX_BYTES     ((size_t)64 * 1024 * 1024)
#define HEAD_MAX_BYTES      ((size_t)16 * 1024)
#define OUT_MAX_BYTES       (HEAD_MAX_BYTES * 3 + (size_t)64 * 1024)
#define CLOSE_PERCENT       90
#define REFUSE_PERCENT      95
#define LAST_WRITES_MS      200
#define IDLE_POLL_MS        2
#define WORKER_THREAD       1 /* what the library's init_thread calls a worker */

/* On a full machine what takes work in gives way to what carries it off, or a backlog never ends;
 * the few actors then also make fuller batches. See docs/decisions/doors-give-way.md. */
#define WORKER_NICE 5

#define WORKER_WAIT_MIN_MS    2000
#define WORKER_WAIT_SPREAD_MS 4000

/* The library gives its workers 100 KiB of stack, less than its own error path and decoders behind
 * a handler need. Its call resolves to this definition, which raises what is asked for. */
int pthread_attr_setstacksize(pthread_attr_t *attr, size_t size)
{
    int (*real)(pthread_attr_t *, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_attr_setstacksize");
    return real(attr, size < STACK_MIN_BYTES ? STACK_MIN_BYTES : size);
}

/* Idle workers wait in the library for pthread_cond_signal, and glibc 2.36 can lose a wake-up
 * (sourceware bug 25847): then an accepted connection lies there until the next one comes. So they
 * wake up by themselves now and then, which a condition's waiters must expect anyway. All of them
 * together, each after a time of its own, look often. */
static _Thread_local bool is_worker;

static int wait_a_while(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    double wait_ms = WORKER_WAIT_MIN_MS + clock_random_unit() * WORKER_WAIT_SPREAD_MS;
    uint64_t until_ms = clock_mono_ms() + (uint64_t)wait_ms;
    const struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                                   .tv_nsec = (long)(until_ms % 1000) * 1000000};
    int rc = pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
    return rc == ETIMEDOUT ? 0 : rc;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *);
    if (is_worker)
        return wait_a_while(cond, mutex);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_wait");
    return real(cond, mutex);
}

/* --- threads and connections --- */

static void *on_thread_start(const struct mg_context *context, int type)
{
    httpd_t *door = mg_get_user_data(context);
    if (type == WORKER_THREAD) {
        /* Best effort: without it the door is as important as the rest. */
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), WORKER_NICE);
        is_worker = true;
    }
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        abort();
    worker->door = door;
    worker->slot = watch_register(door->watch);
    buf_init(&worker->target, HEAD_MAX_BYTES + 1);
    buf_init(&worker->reply_body, REPLY_MAX_BYTES);
    buf_init(&worker->scratch, HEAD_MAX_BYTES);
    buf_init(&worker->out, OUT_MAX_BYTES);
    return worker;
}

static void on_thread_end(const struct mg_context *context, int type, void *pointer)
{
    (void)context;
    (void)type;
    struct worker *worker = pointer;
    watch_unregister(worker->door->watch, worker->slot);
    if (worker->door->config.worker_fini && worker->handler_data)
        worker->door->config.worker_fini(worker->handler_data);
    buf_fini(&worker->target);
    buf_fini(&worker->body);
    buf_fini(&worker->reply_body);
    buf_fini(&worker->scratch);
    buf_fini(&worker->out);
    free(worker);
}

static httpd_t *door_of(const struct mg_connection *conn)
{
    return mg_get_user_data(mg_get_context(conn));
}

static int on_connection_start(const struct mg_connection *conn, void **data)
{
    (void)data;
    atomic_fetch_add(&door_of(conn)->connections, 1);
    return 0;
}

static void on_connection_end(const struct mg_connection *conn)
{
    atomic_fetch_sub(&door_of(conn)->connections, 1);
}

static int on_message(const struct mg_connection *conn, const char *text)
{
    httpd_t *door = door_of(conn);
    if (atomic_load(&door->is_started))
        log_at(LEVEL_DEBUG, "http.library", NULL, LOG_TEXT("text", text));
    else if (!door->start_error.text[0]) /* the first says what went wrong */
        err_set(&door->start_error, "%s", text);
    return 1;
}

/* --- start and stop --- */

static int join_listen(const struct text_list *listen, struct buf *out, struct err *err)
{
    for (size_t i = 0; i < listen->count; i++) {
        const char *address = listen->items[i];
        size_t len = strlen(address);
        if (len == 0 || address[len - 1] < '0' || address[len - 1] > '9')
            return err_set(err, "cannot listen on '%s': HOST:PORT is wanted, without TLS", address);
        if (buf_printf(out, "%s%s", i > 0 ? "," : "", address) == -1)
            return err_set(err, "too many addresses to listen on");
    }
    return buf_cstr(out) ? 0 : err_set(err, "no address to listen on");
}

struct numbers {
    char threads[16];
    char head_timeout_ms[24];
    char keep_alive_ms[24];
};

static void format_numbers(const struct httpd_config *config, struct numbers *out)
{
    const struct options *options = config->options;
    uint64_t timeout_ms = options->request_timeout_seconds * 1000;
    if (timeout_ms > HEAD_TIMEOUT_MAX_MS)
        timeout_ms = HEAD_TIMEOUT_MAX_MS;
    if (config->is_admin)
        timeout_ms = ADMIN_TIMEOUT_MS;
    unsigned threads = config->is_admin ? ADMIN_THREADS : (unsigned)options->threads;
    snprintf(out->threads, sizeof out->threads, "%u", threads);
    snprintf(out->head_timeout_ms, sizeof out->head_timeout_ms, "%lu", (unsigned long)timeout_ms);
    snprintf(out->keep_alive_ms, sizeof out->keep_alive_ms, "%lu",
             (unsigned long)options->keep_alive_timeout);
}

static struct mg_context *start_library(httpd_t *self, const char *listen)
{
    struct numbers numbers;
    format_numbers(&self->config, &numbers);
    const char *options[] = {
        "listening_ports",
        listen,
        "num_threads",
        numbers.threads,
        "connection_queue",
        numbers.threads,
        "listen_backlog",
        "1024",
        "request_timeout_ms",
        numbers.head_timeout_ms,
        "keep_alive_timeout_ms",
        numbers.keep_alive_ms,
        "enable_keep_alive",
        self->keeps_alive ? "yes" : "no",
        "max_request_size",
        "16384",
        "tcp_nodelay",
        "1",
        "decode_url",
        "no",
        "access_control_allow_origin",
        "",
        "access_control_allow_methods",
        "",
        "access_control_allow_headers",
        "",
        "enable_directory_listing",
        "no",
        "enable_auth_domain_check",
        "no",
        "cgi_pattern",
        "",
        "ssi_pattern",
        "",
        NULL,
    };
    const struct mg_callbacks callbacks = {
        .begin_request = serve_request,
        .http_error = serve_error,
        .log_message = on_message,
        .init_thread = on_thread_start,
        .exit_thread = on_thread_end,
        .init_connection = on_connection_start,
        .connection_closed = on_connection_end,
    };
    struct mg_init_data init = {
        .callbacks = &callbacks, .user_data = self, .configuration_options = options};
    struct mg_error_data error = {0};
    return mg_start2(&init, &error);
}

static void sleep_ms(uint64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

/* Until no worker is between a head and the end of its answer. */
static void wait_idle(httpd_t *self, uint64_t most_ms)
{
    uint64_t end_ms = clock_mono_ms() + most_ms;
    while (watch_is_any_busy(self->watch) && clock_mono_ms() < end_ms)
        sleep_ms(IDLE_POLL_MS);
}

static int percent_up(uint64_t threads, uint64_t percent)
{
    return (int)((threads * percent + 99) / 100);
}

static httpd_t *door_alloc(const struct httpd_config *config)
{
    httpd_t *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    const struct options *options = config->options;
    self->config = *config;
    self->keeps_alive = options->keep_alive && !config->is_admin;
    self->max_body_bytes = options->max_body_bytes;
    self->max_inflight_bytes = options->max_inflight_bytes;
    uint64_t threads = config->is_admin ? ADMIN_THREADS : options->threads;
    self->close_above = percent_up(threads, CLOSE_PERCENT);
    self->refuse_above = percent_up(threads, REFUSE_PERCENT);
    for (int i = REFUSAL_NONE + 1; i < REFUSAL_COUNT && !config->is_admin; i++)
        self->refused[i] =
            metrics_series(METRIC_http_refused, refusal_row((enum refusal)i)->reason, NULL);
    return self;
}

httpd_t *httpd_new(const struct httpd_config *config, struct err *err)
{
    struct buf listen;
    buf_init(&listen, HEAD_MAX_BYTES);
    httpd_t *self = door_alloc(config);
    mg_init_library(MG_FEATURES_DEFAULT);
    if (join_listen(config->listen, &listen, err) == -1)
        goto fail;
    size_t threads = config->is_admin ? ADMIN_THREADS : config->options->threads;
    self->watch = watch_new(threads + 1, err); /* and the one that accepts */
    if (!self->watch)
        goto fail;
    self->context = start_library(self, listen.data);
    if (!self->context) {
        err_set(err, "cannot listen on %s: %s", listen.data,
                self->start_error.text[0] ? self->start_error.text : "unknown reason");
        goto fail;
    }
    atomic_store(&self->is_started, true);
    log_at(LEVEL_INFO, "http.listen", NULL, LOG_TEXT("address", listen.data));
    buf_fini(&listen);
    return self;
fail:
    buf_fini(&listen);
    httpd_destroy(&self);
    return NULL;
}

int httpd_port(const httpd_t *self)
{
    struct mg_server_port ports[1];
    return mg_get_server_ports(self->context, 1, ports) > 0 ? ports[0].port : 0;
}

void httpd_drain(httpd_t *self)
{
    int serving = PHASE_SERVING;
    if (!atomic_compare_exchange_strong(&self->phase, &serving, PHASE_LEAVING))
        return;
    if (self->config.is_admin) {
        wait_idle(self, LAST_WRITES_MS); /* a call of readiness may be under way */
        return;
    }
    const struct options *options = self->config.options;
    sleep_ms(options->drain_delay);
    atomic_store(&self->phase, PHASE_REFUSING);
    wait_idle(self, options->drain_timeout);
}

void httpd_destroy(httpd_t **self_p)
{
    httpd_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    if (self->context) {
        /* The library writes nothing any more once it is told to stop. */
        atomic_store(&self->phase, PHASE_REFUSING);
        wait_idle(self, LAST_WRITES_MS);
        watch_hurry(self->watch);
        mg_stop(self->context);
    }
    watch_destroy(&self->watch);
    mg_exit_library();
    free(self);
}
