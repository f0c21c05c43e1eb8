// SPDX-License-Identifier: MIT
/*
 * link: what the two client halves of the queue protocol share: one DEALER to one broker with its
 * session: connecting, HELLO, heartbeats, noticing that the broker is gone and coming back to it.
 * Embedded; all calls from the thread that opened it.
 *
 * The session number stays the same while the process lives, so that a dropped connection costs no
 * lease. A restarted broker shows by its epoch.
 */
#ifndef MCPD_LINK_H
#define MCPD_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <czmq.h>

#include "common/err.h"
#include "common/log.h"
#include "proto/frames.h"
#include "proto/wire.h"

enum link_state {
    LINK_CONNECTING, /* HELLO could not be sent yet */
    LINK_GREETED,    /* HELLO sent, no WELCOME yet */
    LINK_OPEN,
};

struct link_config {
    const char *endpoint; /* must outlive the link, as name */
    const char *name;
    enum wire_route incoming;  /* WIRE_BG or WIRE_BC */
    int64_t max_message_bytes; /* of one incoming frame; -1 = no limit */
    uint64_t silence_ms;       /* 0: WIRE_SILENT_BEATS heartbeats */
    int linger_ms;             /* how long the last messages may take to leave at the end */
};

struct link {
    struct link_config config;
    zsock_t *socket;
    bool is_inproc;
    enum link_state state;
    bool is_drained; /* nothing was sent since link_recv last returned 0 */
    uint64_t session;
    uint64_t epoch; /* of the broker that answered last; 0 = none yet */
    uint32_t hb_ms;
    uint64_t heard_at_ms; /* last message of the broker, or when we began to listen */
    uint64_t sent_at_ms;
    uint64_t retry_at_ms; /* no HELLO and no new socket before */
    uint64_t backoff_ms;
    struct log_limit complaint;
};

int link_open(struct link *self, const struct link_config *config, uint64_t now_ms,
              struct err *err) MUST_USE;
/* Sends BYE where there is a session. Safe on a zeroed struct. */
void link_close(struct link *self);

/* The next message that means something to the owner; WELCOME is given on (state is LINK_OPEN
 * then), PING, PONG, BYE and ERROR are dealt with here. frames holds it until the next call. 1 or
 * 0 when there is none now. */
int link_recv(struct link *self, struct frames *frames, struct wire_message *message,
              uint64_t now_ms) MUST_USE;

/* Sends HELLO with this credit where one is due, PING, or a new connection after too long a
 * silence. Returns the milliseconds until it wants to be called again. The state may change to
 * LINK_CONNECTING: then the broker is gone. */
uint64_t link_tick(struct link *self, uint32_t credit, uint64_t now_ms);

/* -1 when the link is not open or the broker cannot be reached; nothing was sent then. */
int link_send(struct link *self, const struct wire_message *message, bool has_more,
              uint64_t now_ms) MUST_USE;

/* The socket for body frames. Another one after link_tick re-created it. */
void *link_socket(const struct link *self);
/* A descriptor to poll for reading, but only while is_drained (see frames_fd). Ask anew before
 * every poll. */
int link_fd(const struct link *self);

#endif
