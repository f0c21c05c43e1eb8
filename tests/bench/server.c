// SPDX-License-Identifier: MIT
#include "server.h"

#include <civetweb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct server {
    bench_handler *handler;
    void *arg;
};

static const char reply_ok[] = "HTTP/1.1 202 Accepted\r\n"
                               "Content-Type: application/json\r\n"
                               "mcpd-relay: spooled\r\n"
                               "Content-Length: 41\r\n\r\n"
                               "{\"accepted\":0,\"duplicate\":0,\"rejected\":0}";
static const char reply_ready[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static const char reply_failed[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                   "Content-Length: 0\r\n\r\n";

/* One buffer a worker thread, made at its first request. */
static void *init_thread(const struct mg_context *context, int thread_type)
{
    (void)context;
    return thread_type == 1 ? malloc(BENCH_HEAD + BENCH_BODY_MAX) : NULL;
}

static void exit_thread(const struct mg_context *context, int thread_type, void *buffer)
{
    (void)context;
    if (thread_type == 1)
        free(buffer);
}

static int handle(struct mg_connection *conn)
{
    const struct server *self = mg_get_user_data(mg_get_context(conn));
    char *body = (char *)mg_get_thread_pointer(conn) + BENCH_HEAD;
    const struct mg_request_info *info = mg_get_request_info(conn);
    if (strcmp(info->request_method, "GET") == 0) { /* a relay's probe */
        mg_write(conn, reply_ready, sizeof reply_ready - 1);
        return 200;
    }
    long long want = info->content_length;
    if (want < 0 || (size_t)want > BENCH_BODY_MAX) {
        mg_disable_connection_keep_alive(conn);
        return 413;
    }
    size_t len = 0;
    while (len < (size_t)want) {
        int got = mg_read(conn, body + len, (size_t)want - len);
        if (got <= 0) {
            mg_disable_connection_keep_alive(conn);
            return 400;
        }
        len += (size_t)got;
    }
    if (self->handler(self->arg, body, len) == 0) {
        mg_write(conn, reply_ok, sizeof reply_ok - 1);
        return 202;
    }
    mg_write(conn, reply_failed, sizeof reply_failed - 1);
    return 503;
}

int bench_serve(const char *port, bench_handler *handler, void *arg)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    /* As common/httpd sets them. */
    const char *options[] = {"listening_ports",
                             address,
                             "num_threads",
                             "512",
                             "connection_queue",
                             "512",
                             "listen_backlog",
                             "1024",
                             "request_timeout_ms",
                             "10000",
                             "keep_alive_timeout_ms",
                             "5000",
                             "enable_keep_alive",
                             "yes",
                             "max_request_size",
                             "16384",
                             "tcp_nodelay",
                             "1",
                             "decode_url",
                             "no",
                             "enable_directory_listing",
                             "no",
                             "cgi_pattern",
                             "",
                             "ssi_pattern",
                             "",
                             "enable_auth_domain_check",
                             "no",
                             "access_control_allow_origin",
                             "",
                             "access_control_allow_methods",
                             "",
                             "access_control_allow_headers",
                             "",
                             NULL};
    struct server server = {handler, arg};
    struct mg_callbacks callbacks = {
        .begin_request = handle, .init_thread = init_thread, .exit_thread = exit_thread};

    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    signal(SIGPIPE, SIG_IGN);
    mg_init_library(0);
    struct mg_context *context = mg_start(&callbacks, &server, options);
    if (context == NULL) {
        fprintf(stderr, "bench: cannot serve on %s\n", address);
        return -1;
    }
    int number;
    sigwait(&ending, &number);
    mg_stop(context);
    return 0;
}
