// SPDX-License-Identifier: MIT
/*
 * CONNECTING --HELLO left--> GREETED --WELCOME--> OPEN; ERROR, BYE, silence and a send that fails
 * lead back to CONNECTING. Silence also replaces the socket, because libzmq gives some connections
 * up for good without a word; never over inproc, where the broker lives in this process and silence
 * can only mean that it is busy.
 */
#include "proto/link.h"

#include <assert.h>
#include <string.h>

#include "common/clock.h"

#define FIRST_BACKOFF_MS   100
#define LONGEST_BACKOFF_MS 5000
#define STANDARD_HB_MS     1000
#define CONNECT_RETRY_MS   20 /* between tries to send HELLO; an unsent one costs nothing */

static int open_socket(struct link *self, struct err *err)
{
    zsock_t *socket = zsock_new(ZMQ_DEALER);
    if (socket == NULL)
        return err_set(err, "no socket: %s", zmq_strerror(zmq_errno()));
    zsock_set_sndtimeo(socket, 0);
    zsock_set_sndhwm(socket, 0);
    zsock_set_rcvhwm(socket, 0);
    zsock_set_immediate(socket, 1);
    zsock_set_linger(socket, self->config.linger_ms);
    zsock_set_ipv6(socket, 1);
    zsock_set_connect_timeout(socket, 5000);
    zsock_set_reconnect_ivl(socket, 100);
    zsock_set_reconnect_ivl_max(socket, 5000);
    zsock_set_tcp_keepalive(socket, 1);
    zsock_set_tcp_keepalive_idle(socket, 30);
    zsock_set_tcp_keepalive_intvl(socket, 10);
    zsock_set_tcp_keepalive_cnt(socket, 3);
    zsock_set_tcp_maxrt(socket, 15000);
    if (self->config.max_message_bytes >= 0)
        zsock_set_maxmsgsize(socket, (int)self->config.max_message_bytes);
    if (zmq_connect(zsock_resolve(socket), self->config.endpoint) == -1) {
        err_set(err, "cannot connect to '%s': %s", self->config.endpoint,
                zmq_strerror(zmq_errno()));
        zsock_destroy(&socket);
        return -1;
    }
    self->socket = socket;
    return 0;
}

int link_open(struct link *self, const struct link_config *config, uint64_t now_ms, struct err *err)
{
    *self = (struct link){.config = *config, .hb_ms = STANDARD_HB_MS};
    self->is_inproc = strncmp(config->endpoint, "inproc:", 7) == 0;
    clock_random(&self->session, sizeof self->session);
    self->heard_at_ms = now_ms;
    self->backoff_ms = FIRST_BACKOFF_MS;
    return open_socket(self, err);
}

void link_close(struct link *self)
{
    if (self->socket == NULL)
        return;
    struct wire_message bye = {.type = WIRE_BYE};
    if (self->state == LINK_OPEN)
        (void)!frames_send(link_socket(self), (struct slice){0}, &bye, false);
    zsock_destroy(&self->socket);
}

void *link_socket(const struct link *self)
{
    return zsock_resolve(self->socket);
}

int link_fd(const struct link *self)
{
    return frames_fd(link_socket(self));
}

/* The session is over; the next HELLO may go after the backoff, which grows until a WELCOME. */
static void lose(struct link *self, uint64_t now_ms)
{
    self->state = LINK_CONNECTING;
    self->retry_at_ms =
        now_ms + self->backoff_ms / 2 + (uint64_t)(clock_random_unit() * (double)self->backoff_ms);
    self->backoff_ms =
        self->backoff_ms * 2 < LONGEST_BACKOFF_MS ? self->backoff_ms * 2 : LONGEST_BACKOFF_MS;
}

static void complain(struct link *self, const char *event, const char *text, uint64_t now_ms)
{
    if (log_allowed(&self->complaint, 10000, now_ms))
        log_at(LEVEL_WARN, event, NULL, LOG_TEXT("endpoint", self->config.endpoint),
               LOG_TEXT("reason", text));
}

/* A message that cannot leave means that there is no connection: whatever the broker would answer
 * to earlier ones is lost with it. */
int link_send(struct link *self, const struct wire_message *message, bool has_more, uint64_t now_ms)
{
    self->is_drained = false;
    if (self->state != LINK_OPEN)
        return -1;
    if (frames_send(link_socket(self), (struct slice){0}, message, has_more) == -1) {
        complain(self, "broker.unreachable", zmq_strerror(zmq_errno()), now_ms);
        lose(self, now_ms);
        return -1;
    }
    self->sent_at_ms = now_ms;
    return 0;
}

static void on_error(struct link *self, const struct wire_ERROR *error, uint64_t now_ms)
{
    char text[WIRE_TEXT_MAX + 64];
    snprintf(text, sizeof text, SLICE_FORMAT " (broker speaks version %u)", SLICE_ARGS(error->text),
             error->version);
    complain(self, "broker.error", text, now_ms);
    lose(self, now_ms);
}

static void on_welcome(struct link *self, const struct wire_WELCOME *welcome)
{
    if (self->state != LINK_OPEN)
        log_at(LEVEL_INFO, "broker.up", NULL, LOG_TEXT("endpoint", self->config.endpoint),
               LOG_NUM("hb_ms", welcome->hb_ms));
    self->state = LINK_OPEN;
    self->epoch = welcome->epoch;
    self->hb_ms = welcome->hb_ms < 10 ? 10 : welcome->hb_ms;
    self->backoff_ms = FIRST_BACKOFF_MS;
}

/* True when the message is the owner's business. */
static bool handle(struct link *self, const struct wire_message *message, uint64_t now_ms)
{
    switch (message->type) {
    case WIRE_PING:
        (void)!link_send(self, &(struct wire_message){.type = WIRE_PONG}, false, now_ms);
        return false;
    case WIRE_PONG:
        return false;
    case WIRE_BYE:
        lose(self, now_ms);
        return false;
    case WIRE_ERROR:
        on_error(self, &message->ERROR, now_ms);
        return false;
    case WIRE_WELCOME:
        on_welcome(self, &message->WELCOME);
        return true;
    default:
        return self->state == LINK_OPEN;
    }
}

int link_recv(struct link *self, struct frames *frames, struct wire_message *message,
              uint64_t now_ms)
{
    static const unsigned bodies[] = {[WIRE_NONE] = 0, [WIRE_ONE] = 2};
    while (frames_recv(frames, link_socket(self)) == 1) {
        struct err err;
        self->heard_at_ms = now_ms;
        if (wire_decode(message, self->config.incoming, frames_slice(frames, 0), &err) != WIRE_OK) {
            complain(self, "broker.nonsense", err.text, now_ms);
            continue;
        }
        if (frames->count != 1 + bodies[wire_body_of(message->type)]) {
            complain(self, "broker.nonsense", "wrong number of frames", now_ms);
            continue;
        }
        if (handle(self, message, now_ms))
            return 1;
    }
    self->is_drained = true;
    return 0;
}

static uint64_t silence_ms(const struct link *self)
{
    return self->config.silence_ms > 0 ? self->config.silence_ms
                                       : (uint64_t)WIRE_SILENT_BEATS * self->hb_ms;
}

/* Too long without a word: start over on a new socket. */
static void start_over(struct link *self, uint64_t now_ms)
{
    struct err err;
    if (self->state == LINK_OPEN)
        complain(self, "broker.silent", "nothing heard", now_ms);
    lose(self, now_ms);
    self->heard_at_ms = now_ms;
    if (self->is_inproc)
        return;
    zsock_t *old = self->socket;
    self->is_drained = false;
    if (open_socket(self, &err) == 0)
        zsock_destroy(&old);
    else
        complain(self, "broker.connect", err.text, now_ms);
}

static void send_hello(struct link *self, uint32_t credit, uint64_t now_ms)
{
    struct wire_message hello = {.type = WIRE_HELLO};
    hello.HELLO.name = slice_of(self->config.name);
    hello.HELLO.session = self->session;
    hello.HELLO.credit = credit;
    if (hello.HELLO.name.len > WIRE_TEXT_MAX)
        hello.HELLO.name.len = WIRE_TEXT_MAX;
    self->is_drained = false;
    if (frames_send(link_socket(self), (struct slice){0}, &hello, false) == -1)
        return;
    self->state = LINK_GREETED;
    self->sent_at_ms = now_ms;
}

uint64_t link_tick(struct link *self, uint32_t credit, uint64_t now_ms)
{
    bool is_silent = now_ms >= self->heard_at_ms + silence_ms(self);
    if (is_silent && !(self->is_inproc && self->state == LINK_OPEN))
        start_over(self, now_ms);
    if (self->state == LINK_CONNECTING && now_ms >= self->retry_at_ms)
        send_hello(self, credit, now_ms);
    if (self->state == LINK_OPEN && now_ms >= self->sent_at_ms + self->hb_ms)
        (void)!link_send(self, &(struct wire_message){.type = WIRE_PING}, false, now_ms);
    if (self->state == LINK_CONNECTING)
        return clock_until_ms(self->retry_at_ms, now_ms) + CONNECT_RETRY_MS;
    return clock_until_ms(self->sent_at_ms + self->hb_ms, now_ms) + 1;
}
