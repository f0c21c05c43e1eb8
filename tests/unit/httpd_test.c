// SPDX-License-Identifier: MIT
/*
 * The door with a handler of three lines behind it, spoken to over plain sockets: what gets
 * through, what does not, and that nothing behind a refused request is ever run.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/httpd.h"
#include "common/log.h"
#include "proto/otlp_reply.h"

#define BODY_MAX 2048

struct fixture {
    struct options options;
    httpd_t *door;
    char *keys[2];
    char *listen[1];
    atomic_int handled;
    atomic_int bytes;
    atomic_size_t stack_bytes;
};

static void echo(void *arg, struct http_request *req, struct http_reply *reply)
{
    struct fixture *self = arg;
    atomic_fetch_add(&self->handled, 1);
    atomic_fetch_add(&self->bytes, (int)req->body.len);
    pthread_attr_t attr;
    size_t stack_bytes = 0;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstacksize(&attr, &stack_bytes);
    pthread_attr_destroy(&attr);
    atomic_store(&self->stack_bytes, stack_bytes);
    reply->status = 202;
    assert_int_equal(buf_printf(&reply->body, "%s %s %s [" SLICE_FORMAT "]", req->method, req->path,
                                req->query, (int)req->body.len, req->body.data),
                     0);
}

static int ready(void *arg, struct buf *text)
{
    (void)arg;
    return buf_add_str(text, "ok") == 0 ? 200 : 503;
}

static const struct http_route routes[] = {
    {"GET", "/v1/things/", echo, false},
    {"POST", NULL, echo, false},
    {0},
};

static int open_door(void **state)
{
    struct fixture *self = calloc(1, sizeof *self);
    struct err err = {""};
    self->listen[0] = (char *)"127.0.0.1:0";
    self->keys[0] = (char *)"first-key";
    self->keys[1] = (char *)"second";
    self->options = (struct options){
        .listen = {self->listen, 1},
        .ingest_key = {self->keys, 2},
        .max_body_bytes = BODY_MAX,
        .request_timeout_seconds = 2,
        .threads = 8,
        .keep_alive = true,
        .keep_alive_timeout = 5000,
        .max_inflight_bytes = 1 << 20,
        .drain_timeout = 2000,
    };
    struct httpd_config config = {
        .options = &self->options,
        .listen = &self->options.listen,
        .roles = R_GATEWAY,
        .routes = routes,
        .error_body = otlp_reply_error,
        .readiness = ready,
        .arg = self,
    };
    self->door = httpd_new(&config, &err);
    if (!self->door)
        fprintf(stderr, "%s\n", err.text);
    *state = self;
    return self->door ? 0 : -1;
}

static int close_door(void **state)
{
    struct fixture *self = *state;
    httpd_destroy(&self->door);
    free(self);
    return 0;
}

static int dial(struct fixture *self)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)httpd_port(self->door)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 8};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Everything the door says until it closes. */
static char *hear_all(int fd)
{
    static char heard[65536];
    size_t len = 0;
    ssize_t got;
    while (len < sizeof heard - 1 && (got = recv(fd, heard + len, sizeof heard - 1 - len, 0)) > 0)
        len += (size_t)got;
    heard[len] = 0;
    close(fd);
    return heard;
}

static char *say(struct fixture *self, const char *bytes, size_t len)
{
    int fd = dial(self);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
    return hear_all(fd);
}

static int count_answers(const char *heard)
{
    int count = 0;
    for (const char *at = heard; (at = strstr(at, "HTTP/1.1 ")); at++)
        count += at[strlen("HTTP/1.1 ")] >= '0' && at[strlen("HTTP/1.1 ")] <= '9';
    return count;
}

#define KEY   "x-mcpd-key: second\r\n"
#define HOST  "Host: here\r\n"
#define CLOSE "Connection: close\r\n"
/* Behind each refused request comes this one, which must never be run. */
#define BEHIND "POST /behind HTTP/1.1\r\n" HOST KEY CLOSE "Content-Length: 0\r\n\r\n"
#define POST   "POST /x HTTP/1.1\r\n" HOST KEY

struct row {
    const char *what;
    const char *bytes;
    int status;
};

static const struct row refused[] = {
    {"two empty lines first", "\r\n\r\n" POST "Content-Length: 5\r\n\r\nhello", 400},
    {"one empty line first", "\r\n" POST "Content-Length: 5\r\n\r\nhello", 400},
    {"a blank first", " " POST "Content-Length: 5\r\n\r\nhello", 400},
    {"both lengths", POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"two lengths", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
    {"same length twice", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"signed length", POST "Content-Length: +5\r\n\r\nhello", 400},
    {"length with a tail", POST "Content-Length: 5abc\r\n\r\nhello", 400},
    {"list of lengths", POST "Content-Length: 5, 5\r\n\r\nhello", 400},
    {"hex length", POST "Content-Length: 0x5\r\n\r\nhello", 400},
    {"no number", POST "Content-Length: five\r\n\r\nhello", 400},
    {"negative", POST "Content-Length: -5\r\n\r\nhello", 400},
    {"19 digits", POST "Content-Length: 1000000000000000000\r\n\r\n", 400},
    {"identity, then chunked",
     POST "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"identity", POST "Transfer-Encoding: identity\r\n\r\n", 400},
    {"gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
    {"blank before the colon", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
    {"folded line", POST "A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"folded first line", "POST /x HTTP/1.1\r\n A: b\r\n" HOST KEY "Content-Length: 0\r\n\r\n",
     400},
    {"LF, empty line", POST "A: b\n\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"bare LF", POST "A: b\nContent-Length: 5\r\n\r\nhello", 400},
    {"bare LFs", "POST /x HTTP/1.1\nHost: x\nContent-Length: 0\n\n", 400},
    {"line without a colon", POST "nonsense\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"line of a colon", POST ": x\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"8-bit name", POST "\xc3\xa9: x\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"name not a token", POST "a(b): x\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"TAB", POST "A: b\tc\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"HTTP/1.0 chunked", "POST /x HTTP/1.0\r\n" KEY "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400},
    {"no length", POST "\r\n", 411},
    {"no Host", "POST /x HTTP/1.1\r\n" KEY "Content-Length: 0\r\n\r\n", 400},
    {"two Hosts", POST HOST "Content-Length: 0\r\n\r\n", 400},
    {"two keys", POST KEY "Content-Length: 0\r\n\r\n", 400},
    {"GET with a body", "GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 400},
    {"GET with chunks",
     "GET /healthz HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"two blanks", "POST  /x HTTP/1.1\r\n" HOST KEY "Content-Length: 0\r\n\r\n", 400},
    {"HTTP/1.2", "POST /x HTTP/1.2\r\n" HOST KEY "Content-Length: 0\r\n\r\n", 505},
    {"HTTP/0.9", "GET /healthz\r\n\r\n", 400},
    {"unknown method", "FROB /x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
    {"other expectation", POST "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello", 417},
    {"chunk extension", POST "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n", 503},
    {"chunk size not hex", POST "Transfer-Encoding: chunked\r\n\r\nxx\r\n", 503},
    {"no CRLF behind a chunk", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", 503},
    {"body too large", POST "Content-Length: 2049\r\n\r\n", 413},
    {"wrong key", "POST /x HTTP/1.1\r\n" HOST "x-mcpd-key: third\r\nContent-Length: 0\r\n\r\n",
     401},
    {"no key", "POST /x HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 401},
    {"key with more",
     "POST /x HTTP/1.1\r\n" HOST "x-mcpd-key: secondsecond\r\nContent-Length: 0\r\n\r\n", 401},
    {"wrong Bearer before right key",
     POST "Authorization: Bearer third\r\nContent-Length: 0\r\n\r\n", 401},
    {"GET on a POST path", "GET /x HTTP/1.1\r\n" HOST "\r\n", 405},
    {"POST on a probe", "POST /healthz HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 405},
};

static void test_refused_requests_run_nothing(void **state)
{
    struct fixture *self = *state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char bytes[8192], want[32];
        int len = snprintf(bytes, sizeof bytes, "%s%s", refused[i].bytes, BEHIND);
        snprintf(want, sizeof want, "HTTP/1.1 %d ", refused[i].status);
        const char *heard = say(self, bytes, (size_t)len);
        if (strncmp(heard, want, strlen(want)) != 0 || count_answers(heard) != 1)
            fail_msg("%s: wanted %d alone, got: %s", refused[i].what, refused[i].status, heard);
    }
    assert_int_equal(atomic_load(&self->handled), 0);
}

static const struct row accepted[] = {
    {"length", POST CLOSE "Content-Length: 5\r\n\r\nhello", 202},
    {"no body", POST CLOSE "Content-Length: 0\r\n\r\n", 202},
    {"chunks", POST "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 202},
    {"chunks in capitals", POST "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 202},
    {"trailer", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n", 202},
    {"bare CR in a chunk size", POST "Transfer-Encoding: chunked\r\n\r\n5\ra\r\nhello\r\n0\r\n\r\n",
     202},
    {"empty value", POST CLOSE "A:\r\nContent-Length: 5\r\n\r\nhello", 202},
    {"no blank", POST CLOSE "A:b\r\nContent-Length:5\r\n\r\nhello", 202},
    {"8-bit value", POST CLOSE "A: \xc3\xa9\r\nContent-Length: 5\r\n\r\nhello", 202},
    {"HTTP/1.0", "POST /x HTTP/1.0\r\n" KEY "Content-Length: 5\r\n\r\nhello", 202},
    {"Bearer",
     "POST /x HTTP/1.1\r\n" HOST CLOSE
     "Authorization: bearer first-key\r\nContent-Length: 5\r\n\r\nhello",
     202},
    {"Basic and our key", POST CLOSE "Authorization: Basic eA==\r\nContent-Length: 5\r\n\r\nhello",
     202},
    {"absolute target of ours",
     "POST /x?a=%00 HTTP/1.1\r\n" HOST KEY CLOSE "Content-Length: 5\r\n\r\nhello", 202},
    {"encoded probe", "POST /%68ealthz HTTP/1.1\r\n" HOST KEY CLOSE "Content-Length: 0\r\n\r\n",
     202},
    {"dotted probe", "POST /x/../healthz HTTP/1.1\r\n" HOST KEY CLOSE "Content-Length: 0\r\n\r\n",
     202},
    {"probe", "GET /healthz HTTP/1.1\r\n" HOST CLOSE "\r\n", 200},
    {"below a folder", "GET /v1/things/1?q=2 HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", 202},
    {"dots below a folder", "GET /v1/things/../x HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", 405},
    {"GET, length 0", "GET /readyz HTTP/1.1\r\n" HOST CLOSE "Content-Length: 0\r\n\r\n", 200},
};

static void test_legal_requests_get_through(void **state)
{
    struct fixture *self = *state;
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        char want[32];
        snprintf(want, sizeof want, "HTTP/1.1 %d ", accepted[i].status);
        const char *heard = say(self, accepted[i].bytes, strlen(accepted[i].bytes));
        if ((accepted[i].status && strncmp(heard, want, strlen(want)) != 0) ||
            count_answers(heard) != 1)
            fail_msg("%s: wanted %d, got: %s", accepted[i].what, accepted[i].status, heard);
    }
    assert_true(atomic_load(&self->stack_bytes) >= 1024 * 1024);
}

static void test_keep_alive_serves_many(void **state)
{
    struct fixture *self = *state;
    int fd = dial(self);
    char bytes[512];
    int len = snprintf(bytes, sizeof bytes, "%sContent-Length: 5\r\n\r\nhello", POST);
    uint64_t start_ms = clock_mono_ms();
    for (int i = 0; i < 500; i++) {
        char heard[1024];
        assert_int_equal(send(fd, bytes, (size_t)len, MSG_NOSIGNAL), len);
        ssize_t got = recv(fd, heard, sizeof heard - 1, 0); /* one write, so one read */
        assert_true(got > 0);
        heard[got] = 0;
        assert_non_null(strstr(heard, "\r\n\r\nPOST /x  [hello]"));
    }
    assert_true(clock_mono_ms() - start_ms < 5000); /* 43 ms each when the answer comes in two */
    close(fd);
    assert_int_equal(atomic_load(&self->handled), 500);
}

static void test_64_headers_pass_and_65_do_not(void **state)
{
    struct fixture *self = *state;
    for (int extra = 60; extra <= 61; extra++) { /* with Host, key, Connection and length: 64, 65 */
        char bytes[8192];
        int len = snprintf(bytes, sizeof bytes, "%s%s", POST, CLOSE);
        for (int i = 0; i < extra; i++)
            len += snprintf(bytes + len, sizeof bytes - (size_t)len, "A%d: b\r\n", i);
        len += snprintf(bytes + len, sizeof bytes - (size_t)len, "Content-Length: 0\r\n\r\n%s",
                        extra == 61 ? BEHIND : "");
        const char *heard = say(self, bytes, (size_t)len);
        assert_int_equal(count_answers(heard), 1);
        assert_non_null(strstr(heard, extra == 60 ? "HTTP/1.1 202" : "HTTP/1.1 431"));
    }
}

static void test_half_a_body_is_never_run(void **state)
{
    struct fixture *self = *state;
    static const char *const halves[] = {
        POST "Content-Length: 50\r\n\r\nhello",
        POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    };
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        int fd = dial(self);
        assert_true(send(fd, halves[i], strlen(halves[i]), MSG_NOSIGNAL) > 0);
        shutdown(fd, SHUT_WR);
        const char *heard = hear_all(fd);
        assert_non_null(strstr(heard, "HTTP/1.1 503"));
        assert_non_null(strstr(heard, "Retry-After: 1\r\n"));
    }
    assert_int_equal(atomic_load(&self->handled), 0);
}

static void *trickle(void *arg)
{
    int fd = *(int *)arg;
    for (int i = 0; i < 100 && send(fd, "x", 1, MSG_NOSIGNAL) == 1; i++)
        usleep(100 * 1000);
    return NULL;
}

static void trickle_is_cut(struct fixture *self, const char *head)
{
    int fd = dial(self);
    pthread_t thread;
    uint64_t start_ms = clock_mono_ms();
    assert_true(send(fd, head, strlen(head), MSG_NOSIGNAL) > 0);
    assert_int_equal(pthread_create(&thread, NULL, trickle, &fd), 0);
    char heard[2048] = "";
    assert_true(recv(fd, heard, sizeof heard - 1, 0) > 0);
    uint64_t took_ms = clock_mono_ms() - start_ms;
    assert_non_null(strstr(heard, "HTTP/1.1 503"));
    assert_non_null(strstr(heard, "Retry-After: 1\r\n"));
    assert_true(took_ms >= 1900 && took_ms < 5000); /* the request timeout is 2 s */
    shutdown(fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(fd);
}

static void test_trickling_body_is_cut_at_the_deadline(void **state)
{
    struct fixture *self = *state;
    trickle_is_cut(self, POST "Content-Length: 2000\r\n\r\n");
    trickle_is_cut(self, POST "Transfer-Encoding: chunked\r\n\r\n700\r\n");
    assert_int_equal(atomic_load(&self->handled), 0);
}

static void test_expect_is_answered(void **state)
{
    struct fixture *self = *state;
    int fd = dial(self);
    static const char head[] = POST CLOSE "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    char heard[256];
    assert_true(send(fd, head, sizeof head - 1, MSG_NOSIGNAL) > 0);
    ssize_t got = recv(fd, heard, sizeof heard - 1, 0);
    assert_true(got > 0);
    heard[got] = 0;
    assert_string_equal(heard, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(send(fd, "hello", 5, MSG_NOSIGNAL), 5);
    assert_non_null(strstr(hear_all(fd), "HTTP/1.1 202"));
    fd = dial(self); /* refused at once, without the invitation */
    static const char large[] = POST CLOSE "Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n";
    assert_true(send(fd, large, sizeof large - 1, MSG_NOSIGNAL) > 0);
    assert_true(strncmp(hear_all(fd), "HTTP/1.1 413", 12) == 0);
}

static void test_chunked_body_over_the_limit(void **state)
{
    struct fixture *self = *state;
    char bytes[8192];
    int len = snprintf(bytes, sizeof bytes, "%sTransfer-Encoding: chunked\r\n\r\n", POST);
    for (int i = 0; i < 3; i++)
        len += snprintf(bytes + len, sizeof bytes - (size_t)len, "400\r\n%01024d\r\n", 0);
    len += snprintf(bytes + len, sizeof bytes - (size_t)len, "0\r\n\r\n");
    assert_true(strncmp(say(self, bytes, (size_t)len), "HTTP/1.1 413", 12) == 0);
    assert_int_equal(atomic_load(&self->handled), 0);
}

static void test_drain_refuses_and_says_so(void **state)
{
    struct fixture *self = *state;
    httpd_drain(self->door);
    static const char post[] = POST "Content-Length: 0\r\n\r\n";
    static const char probe[] = "GET /readyz HTTP/1.1\r\n" HOST "\r\n";
    const char *heard = say(self, post, sizeof post - 1);
    assert_non_null(strstr(heard, "HTTP/1.1 503"));
    assert_non_null(strstr(heard, "Connection: close\r\n"));
    assert_non_null(strstr(say(self, probe, sizeof probe - 1), "\r\n\r\ndraining"));
    uint64_t start_ms = clock_mono_ms();
    httpd_destroy(&self->door);
    assert_true(clock_mono_ms() - start_ms < 1000); /* the library alone takes up to 2 s */
    assert_int_equal(atomic_load(&self->handled), 0);
}

static void test_tls_port_is_refused(void **state)
{
    struct fixture *self = *state;
    struct err err;
    char *address = (char *)"127.0.0.1:8443s";
    struct text_list listen = {&address, 1};
    struct httpd_config config = {
        .options = &self->options, .listen = &listen, .is_admin = true, .readiness = ready};
    assert_null(httpd_new(&config, &err));
    assert_non_null(strstr(err.text, "127.0.0.1:8443s"));
}

static void test_port_in_use_is_named(void **state)
{
    struct fixture *self = *state;
    struct err err;
    char text[32];
    char *address = text;
    snprintf(text, sizeof text, "127.0.0.1:%d", httpd_port(self->door));
    struct text_list listen = {&address, 1};
    struct httpd_config config = {
        .options = &self->options, .listen = &listen, .is_admin = true, .readiness = ready};
    assert_null(httpd_new(&config, &err));
    assert_non_null(strstr(err.text, text));
    assert_non_null(strstr(err.text, "in use"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_door, close_door)

int main(void)
{
    log_open(LEVEL_ERROR, false);
    const struct CMUnitTest tests[] = {
        CASE(test_refused_requests_run_nothing), CASE(test_legal_requests_get_through),
        CASE(test_keep_alive_serves_many),       CASE(test_64_headers_pass_and_65_do_not),
        CASE(test_half_a_body_is_never_run),     CASE(test_trickling_body_is_cut_at_the_deadline),
        CASE(test_expect_is_answered),           CASE(test_chunked_body_over_the_limit),
        CASE(test_drain_refuses_and_says_so),    CASE(test_tls_port_is_refused),
        CASE(test_port_in_use_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
