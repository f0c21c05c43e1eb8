// SPDX-License-Identifier: MIT
#include "proto/frames.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void frames_init(struct frames *self, unsigned max)
{
    *self = (struct frames){.max = max};
    self->at = malloc(max * sizeof *self->at);
    if (self->at == NULL)
        abort();
}

void frames_reset(struct frames *self)
{
    for (unsigned i = 0; i < self->count; i++)
        zmq_msg_close(&self->at[i]);
    self->count = 0;
    self->is_overfull = false;
}

void frames_fini(struct frames *self)
{
    frames_reset(self);
    free(self->at);
    self->at = NULL;
}

/* Receives one frame; one that has no place is dropped. Returns like frames_recv. */
static int recv_frame(struct frames *self, void *socket, bool *has_more)
{
    zmq_msg_t *frame = self->count < self->max ? &self->at[self->count] : &self->surplus;
    zmq_msg_init(frame);
    while (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) == -1) {
        if (errno == EINTR)
            continue;
        zmq_msg_close(frame);
        return errno == EAGAIN ? 0 : -1;
    }
    *has_more = zmq_msg_more(frame);
    if (frame == &self->surplus) {
        self->is_overfull = true;
        zmq_msg_close(frame);
    } else {
        self->count++;
    }
    return 1;
}

int frames_recv(struct frames *self, void *socket)
{
    bool has_more = true;
    frames_reset(self);
    while (has_more) {
        int rc = recv_frame(self, socket, &has_more);
        if (rc != 1)
            return rc;
    }
    return 1;
}

int frames_fd(void *socket)
{
    int fd = -1;
    size_t len = sizeof fd;
    int rc = zmq_getsockopt(socket, ZMQ_FD, &fd, &len);
    assert(rc == 0);
    return fd;
}

struct slice frames_slice(const struct frames *self, unsigned index)
{
    assert(index < self->count);
    return (struct slice){.data = zmq_msg_data(&self->at[index]),
                          .len = zmq_msg_size(&self->at[index])};
}

static int send_frame(void *socket, zmq_msg_t *frame, bool has_more)
{
    int flags = ZMQ_DONTWAIT | (has_more ? ZMQ_SNDMORE : 0);
    while (zmq_msg_send(frame, socket, flags) == -1) {
        if (errno == EINTR)
            continue;
        int reason = errno;
        zmq_msg_close(frame);
        errno = reason;
        return -1;
    }
    return 0;
}

int frames_send_bytes(void *socket, struct slice bytes, bool has_more)
{
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, bytes.len) == -1)
        abort();
    if (bytes.len > 0)
        memcpy(zmq_msg_data(&frame), bytes.data, bytes.len);
    return send_frame(socket, &frame, has_more);
}

static void free_bytes(void *data, void *hint)
{
    (void)hint;
    free(data);
}

int frames_send_given(void *socket, struct slice bytes, zmq_free_fn *release, void *hint,
                      bool has_more)
{
    zmq_msg_t frame;
    if (zmq_msg_init_data(&frame, (char *)bytes.data, bytes.len, release, hint) == -1)
        abort();
    return send_frame(socket, &frame, has_more);
}

int frames_send_owned(void *socket, char *data, size_t len, bool has_more)
{
    return frames_send_given(socket, (struct slice){data, len}, free_bytes, NULL, has_more);
}

int frames_send(void *socket, struct slice routing_id, const struct wire_message *message,
                bool has_more)
{
    struct buf header;
    buf_init(&header, WIRE_HEADER_MAX);
    int rc = wire_encode(message, &header);
    assert(rc == 0); /* every limit of the fields together stays below WIRE_HEADER_MAX */
    if (routing_id.len > 0)
        rc = frames_send_bytes(socket, routing_id, true);
    if (rc == 0)
        rc = frames_send_bytes(socket, (struct slice){header.data, header.len}, has_more);
    int reason = errno;
    buf_fini(&header);
    errno = reason;
    return rc;
}
