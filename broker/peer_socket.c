// SPDX-License-Identifier: MIT
#include "broker/peer_socket.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define IPC_PATH_MAX 107  /* sockaddr_un, without its NUL */
#define LINGER_MS    1000 /* for the last acknowledgements at the end */

static int check_path(const char *endpoint, struct err *err)
{
    const char *path = strncmp(endpoint, "ipc://", 6) == 0 ? endpoint + 6 : "";
    if (strlen(path) > IPC_PATH_MAX)
        return err_set(err, "socket path of %zu bytes is longer than %d: %s", strlen(path),
                       IPC_PATH_MAX, path);
    return 0;
}

static void set_options(zsock_t *socket, uint64_t max_frame_bytes, int max_queued)
{
    zsock_set_router_mandatory(socket, 1);
    zsock_set_sndtimeo(socket, 0);
    zsock_set_sndhwm(socket, 0);
    zsock_set_rcvhwm(socket, max_queued);
    zsock_set_maxmsgsize(socket, max_frame_bytes < INT_MAX ? (int)max_frame_bytes : INT_MAX);
    zsock_set_linger(socket, LINGER_MS);
    zsock_set_backlog(socket, 512);
    zsock_set_handshake_ivl(socket, 5000);
    zsock_set_ipv6(socket, 1);
    zsock_set_tcp_keepalive(socket, 1);
    zsock_set_tcp_keepalive_idle(socket, 30);
    zsock_set_tcp_keepalive_intvl(socket, 10);
    zsock_set_tcp_keepalive_cnt(socket, 3);
}

zsock_t *peer_socket_new(const char *endpoint, uint64_t max_frame_bytes, int max_queued,
                         struct err *err)
{
    if (check_path(endpoint, err) == -1)
        return NULL;
    zsock_t *socket = zsock_new(ZMQ_ROUTER);
    if (socket == NULL) {
        err_set(err, "no socket: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    set_options(socket, max_frame_bytes, max_queued);
    mode_t old_mask = umask(0177);
    int rc = zmq_bind(zsock_resolve(socket), endpoint);
    umask(old_mask);
    if (rc == -1) {
        err_set(err, "cannot listen on '%s': %s", endpoint, zmq_strerror(zmq_errno()));
        zsock_destroy(&socket);
    }
    return socket;
}
