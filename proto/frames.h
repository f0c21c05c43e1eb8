// SPDX-License-Identifier: MIT
/*
 * frames: multi-part ZeroMQ messages as our protocol uses them: on a ROUTER the peer's routing id,
 * then the header frame, then request frames. Bodies go through without a copy. Works on the raw
 * socket (zsock_resolve); by the thread that owns it.
 */
#ifndef MCPD_FRAMES_H
#define MCPD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#include <zmq.h>

#include "common/buf.h"
#include "proto/wire.h"

/* One received message. Frames do not move once received, so slices stay good until the reset. */
struct frames {
    zmq_msg_t *at;
    unsigned count;
    unsigned max;
    bool is_overfull;  /* had more frames than max; those were dropped */
    zmq_msg_t surplus; /* one of them */
};

void frames_init(struct frames *self, unsigned max);
void frames_fini(struct frames *self); /* safe on a zeroed struct */
void frames_reset(struct frames *self);

/* Receives one whole message in place of the former. 1 when there was one, 0 when there is none
 * now, -1 when the socket is of no use any more. Does not block. */
int frames_recv(struct frames *self, void *socket) MUST_USE;
/* A descriptor to poll for reading. Edge-triggered, and sending takes its events, too: poll only
 * when nothing was sent on the socket since frames_recv last returned 0. */
int frames_fd(void *socket);
struct slice frames_slice(const struct frames *self, unsigned index);

/* Sends the header frame, after the routing id unless that is empty (DEALER). has_more: body frames
 * follow. -1 with errno when nothing was sent (EHOSTUNREACH: the peer is gone; EAGAIN: there is no
 * peer). Does not block. */
int frames_send(void *socket, struct slice routing_id, const struct wire_message *message,
                bool has_more) MUST_USE;
/* A copy of the bytes as one frame. */
int frames_send_bytes(void *socket, struct slice bytes, bool has_more) MUST_USE;
/* The bytes themselves, without a copy; `release` is called with hint, from any thread, when they
 * are no longer needed, whatever the result. */
int frames_send_given(void *socket, struct slice bytes, zmq_free_fn *release, void *hint,
                      bool has_more) MUST_USE;
/* The same for malloc'd bytes. */
int frames_send_owned(void *socket, char *data, size_t len, bool has_more) MUST_USE;

#endif
