// SPDX-License-Identifier: MIT
/* peer_socket: makes the broker's ROUTER sockets; by the thread that will own the socket. */
#ifndef MCPD_PEER_SOCKET_H
#define MCPD_PEER_SOCKET_H

#include <stdint.h>

#include <czmq.h>

#include "common/err.h"

/* Binds a ROUTER. max_frame_bytes: a peer that sends a larger frame is cut off. max_queued:
 * messages read ahead from each peer, 0: no limit. (Neither over inproc.) Makes an ipc socket with
 * mode 0600 by the process's umask, so call it while no other thread makes files. Null with the
 * reason, which names the endpoint. */
zsock_t *peer_socket_new(const char *endpoint, uint64_t max_frame_bytes, int max_queued,
                         struct err *err) MUST_USE;

#endif
