// SPDX-License-Identifier: MIT
/*
 * span_load: sends OTLP trace requests over keep-alive connections, as fast as they are answered,
 * each request with ids and times of its own. One thread: a body is not built but copied from a
 * pattern in which a few bytes change, so that the machine's time is left to whom is measured.
 *
 *     span_load PORT SECONDS CONNECTIONS PATTERN PATCHES FIRST
 *
 * PATCHES holds lines "OFFSET trace NUMBER", "OFFSET span NUMBER" or "OFFSET time NANOSECONDS":
 * eight bytes of the pattern that become the request's id of trace or span NUMBER, or the present
 * plus NANOSECONDS. FIRST is the number of the first request. Prints one line of JSON; the rate is
 * of the answers that came within SECONDS, then what is under way is waited for.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "span_rows.h"

#define REPLY_MAX     4096
#define DRAIN_SECONDS 60.0

enum patch_kind { PATCH_TRACE, PATCH_SPAN, PATCH_TIME };

struct patch {
    size_t offset;
    enum patch_kind kind;
    int64_t value;
};

struct pattern {
    char *head; /* of the HTTP request */
    size_t head_len;
    char *body;
    size_t body_len;
    struct patch *patches;
    size_t patch_count;
};

struct connection {
    int fd;
    char *request;
    size_t request_len;
    size_t sent;
    char reply[REPLY_MAX];
    size_t reply_len;
    double began;
};

struct load {
    const struct pattern *pattern;
    uint64_t next;
    double end;
    unsigned under_way;
    uint64_t in_time; /* 2xx before the end */
    uint64_t accepted;
    uint64_t refused;
    uint64_t broken;
    double *latencies;
    size_t latency_count;
    size_t latency_capacity;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail(path);
    *len = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*len + 1);
    if (!bytes || fread(bytes, 1, *len, file) != *len)
        fail(path);
    bytes[*len] = '\0';
    fclose(file);
    return bytes;
}

static void read_patches(struct pattern *self, const char *path)
{
    static const char *const kinds[] = {"trace", "span", "time"};
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    char kind[8];
    struct patch patch;
    while (fscanf(file, "%zu %7s %ld", &patch.offset, kind, &patch.value) == 3) {
        for (patch.kind = PATCH_TRACE; strcmp(kind, kinds[patch.kind]) != 0; patch.kind++)
            ;
        self->patches = realloc(self->patches, (self->patch_count + 1) * sizeof patch);
        if (!self->patches || patch.offset + 8 > self->body_len)
            fail("patches");
        self->patches[self->patch_count++] = patch;
    }
    fclose(file);
}

static void read_pattern(struct pattern *self, const char *body, const char *patches)
{
    self->body = read_file(body, &self->body_len);
    read_patches(self, patches);
    int len = asprintf(&self->head,
                       "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       "Content-Type: application/x-protobuf\r\nContent-Length: %zu\r\n\r\n",
                       self->body_len);
    if (len == -1)
        fail("head");
    self->head_len = (size_t)len;
}

static void next_request(struct load *self, struct connection *connection)
{
    const struct pattern *pattern = self->pattern;
    char *body = connection->request + pattern->head_len;
    uint64_t request = self->next++;
    uint64_t now_ns = bench_wall_ns();
    for (size_t i = 0; i < pattern->patch_count; i++) {
        const struct patch *patch = &pattern->patches[i];
        char *at = body + patch->offset;
        uint64_t time_ns = now_ns + (uint64_t)patch->value;
        if (patch->kind == PATCH_TIME)
            memcpy(at, &time_ns, sizeof time_ns);
        else if (patch->kind == PATCH_SPAN)
            span_id_renew(at, request, (size_t)patch->value);
        else
            trace_id_renew(at, request, (size_t)patch->value);
    }
    connection->sent = 0;
    connection->reply_len = 0;
    connection->began = bench_now_seconds();
    self->under_way++;
}

static void open_connection(struct load *self, struct connection *connection, int port, int poll)
{
    const struct pattern *pattern = self->pattern;
    connection->request_len = pattern->head_len + pattern->body_len;
    connection->request = malloc(connection->request_len);
    if (!connection->request)
        fail("memory");
    memcpy(connection->request, pattern->head, pattern->head_len);
    memcpy(connection->request + pattern->head_len, pattern->body, pattern->body_len);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd == -1 ||
        connect(connection->fd, (struct sockaddr *)&address, sizeof address) == -1 ||
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == -1)
        fail("connect");
    next_request(self, connection);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, connection->fd, &event) == -1)
        fail("epoll");
}

static void end_connection(struct load *self, struct connection *connection)
{
    self->broken++;
    self->under_way--;
    close(connection->fd);
    connection->fd = -1;
}

/* The whole answer's length, or 0 while it is not there. */
static size_t reply_length(struct connection *connection)
{
    connection->reply[connection->reply_len] = '\0';
    char *end = strstr(connection->reply, "\r\n\r\n");
    if (!end)
        return 0;
    char *length = strcasestr(connection->reply, "content-length:");
    size_t body = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
    size_t whole = (size_t)(end - connection->reply) + 4 + body;
    return connection->reply_len >= whole ? whole : 0;
}

static void note_latency(struct load *self, double seconds)
{
    if (self->latency_count == self->latency_capacity) {
        self->latency_capacity = self->latency_capacity ? 2 * self->latency_capacity : 4096;
        self->latencies = realloc(self->latencies, self->latency_capacity * sizeof(double));
        if (!self->latencies)
            fail("memory");
    }
    self->latencies[self->latency_count++] = seconds;
}

static void take_reply(struct load *self, struct connection *connection)
{
    double now = bench_now_seconds();
    bool is_accepted = strncmp(connection->reply, "HTTP/1.1 2", 10) == 0;
    self->under_way--;
    self->accepted += is_accepted;
    self->refused += !is_accepted;
    self->in_time += is_accepted && now < self->end;
    note_latency(self, now - connection->began);
    if (!is_accepted && self->refused <= 3)
        fprintf(stderr, "span_load: %s\n", connection->reply);
    if (now < self->end) {
        next_request(self, connection);
        return;
    }
    close(connection->fd);
    connection->fd = -1;
}

/* Writes what is left of the request. -1 when the connection broke. */
static int send_rest(struct connection *connection)
{
    while (connection->sent < connection->request_len) {
        ssize_t done =
            send(connection->fd, connection->request + connection->sent,
                 connection->request_len - connection->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done == -1)
            return errno == EAGAIN ? 0 : -1;
        connection->sent += (size_t)done;
    }
    return 0;
}

/* 1 when a whole answer is there, 0 when not yet, -1 when the connection broke. */
static int receive_reply(struct connection *connection)
{
    for (;;) {
        ssize_t done = recv(connection->fd, connection->reply + connection->reply_len,
                            REPLY_MAX - 1 - connection->reply_len, MSG_DONTWAIT);
        if (done == -1 && errno == EAGAIN)
            return 0;
        if (done <= 0)
            return -1;
        connection->reply_len += (size_t)done;
        if (reply_length(connection) > 0)
            return 1;
    }
}

/* Goes on until the kernel has no more to give or to take: it tells of a change only once. */
static void turn(struct load *self, struct connection *connection)
{
    int received = 1;
    while (connection->fd != -1 && received == 1) {
        received = send_rest(connection) == -1 ? -1 : receive_reply(connection);
        if (received == 1)
            take_reply(self, connection);
        if (received == -1)
            end_connection(self, connection);
    }
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static void report(struct load *self, double seconds)
{
    qsort(self->latencies, self->latency_count, sizeof(double), by_value);
    double p50 = self->latency_count ? self->latencies[self->latency_count / 2] : 0;
    printf("{\"per_second\": %.3f, \"accepted\": %lu, \"refused\": %lu, \"broken\": %lu, "
           "\"p50_ms\": %.3f}\n",
           (double)self->in_time / seconds, self->accepted, self->refused, self->broken, 1e3 * p50);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: span_load PORT SECONDS CONNECTIONS PATTERN PATCHES FIRST\n");
        return 2;
    }
    double seconds = strtod(argv[2], NULL);
    size_t count = strtoul(argv[3], NULL, 10);
    struct pattern pattern = {0};
    read_pattern(&pattern, argv[4], argv[5]);
    struct load load = {.pattern = &pattern, .next = strtoul(argv[6], NULL, 10)};
    struct connection *connections = calloc(count, sizeof *connections);
    int poll = epoll_create1(0);
    if (!connections || poll == -1)
        fail("start");
    load.end = bench_now_seconds() + seconds;
    for (size_t i = 0; i < count; i++)
        open_connection(&load, &connections[i], atoi(argv[1]), poll);
    while (load.under_way > 0 && bench_now_seconds() < load.end + DRAIN_SECONDS) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 1000);
        for (int i = 0; i < ready; i++)
            turn(&load, events[i].data.ptr);
    }
    load.broken += load.under_way;
    report(&load, seconds);
    return 0;
}
