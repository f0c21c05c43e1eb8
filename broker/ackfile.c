// SPDX-License-Identifier: MIT
#include "broker/ackfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "broker/logfile.h"
#include "common/fsio.h"

enum { PENDING_MAX = 1 << 20, READ_AT_ONCE = 64 * 1024 };

void ackfile_init(struct ackfile *self, const struct segment_header *segment)
{
    *self = (struct ackfile){.segment = *segment, .fd = -1};
    buf_init(&self->pending, PENDING_MAX);
}

void ackfile_fini(struct ackfile *self)
{
    fsio_close(self->fd);
    buf_fini(&self->pending);
    self->fd = -1;
}

bool ackfile_add(struct ackfile *self, const struct ack_entry *entry)
{
    uint8_t bytes[SEGMENT_ACK_SIZE];
    ack_encode(entry, self->segment.nonce, bytes);
    return !self->is_failed && buf_add(&self->pending, bytes, sizeof bytes) == 0;
}

/* A torn entry at the end is written over: it was never one. */
static uint64_t aligned_end(uint64_t len)
{
    return len - (len - SEGMENT_ACK_HEADER_SIZE) % SEGMENT_ACK_SIZE;
}

static int open_for_writing(struct ackfile *self, int dir_fd)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(self->segment.segno, ".ack", name);
    uint64_t len = 0;
    int fd = fsio_open(dir_fd, name, O_RDWR | O_CREAT);
    if (fd == -1)
        return -1;
    uint8_t header[SEGMENT_ACK_HEADER_SIZE];
    if (fsio_size(fd, NULL, &len) == -1)
        goto fail;
    if (len >= sizeof header) {
        ssize_t got = fsio_pread(fd, header, sizeof header, 0);
        if (got == (ssize_t)sizeof header && ack_header_matches(&self->segment, header)) {
            self->fd = fd;
            self->offset = aligned_end(len);
            return 0;
        }
    }
    if (len > 0 && fsio_truncate(fd, 0) == -1)
        goto fail;
    ack_header_encode(&self->segment, header);
    if (fsio_pwrite(fd, header, sizeof header, 0) == -1)
        goto fail;
    self->fd = fd;
    self->offset = sizeof header;
    return 0;
fail:;
    int saved = errno;
    fsio_close(fd);
    errno = saved;
    return -1;
}

static bool may_try_again(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE ||
           error == EROFS;
}

int ackfile_write(struct ackfile *self, int dir_fd)
{
    if (self->is_failed || self->pending.len == 0)
        return 0;
    if ((self->fd == -1 && open_for_writing(self, dir_fd) == -1) ||
        fsio_pwrite(self->fd, self->pending.data, self->pending.len, self->offset) == -1) {
        self->is_failed = !may_try_again(errno);
        return -1;
    }
    self->offset += self->pending.len;
    self->is_dirty = true;
    buf_reset(&self->pending);
    return 0;
}

int ackfile_sync(struct ackfile *self)
{
    if (!self->is_dirty || self->is_failed)
        return 0;
    self->is_dirty = false;
    if (fsio_sync_data(self->fd) == -1) {
        self->is_failed = true;
        return -1;
    }
    return 0;
}

static int64_t read_entries(int fd, const struct segment_header *segment, ackfile_visit *visit,
                            void *arg)
{
    uint8_t header[SEGMENT_ACK_HEADER_SIZE];
    ssize_t got = fsio_pread(fd, header, sizeof header, 0);
    if (got != (ssize_t)sizeof header || !ack_header_matches(segment, header))
        return -1;
    int64_t ignored = 0;
    uint64_t offset = sizeof header;
    uint8_t *bytes = malloc(READ_AT_ONCE);
    if (bytes == NULL)
        abort();
    while ((got = fsio_pread(fd, bytes, READ_AT_ONCE, offset)) > 0) {
        for (ssize_t at = 0; at < got; at += SEGMENT_ACK_SIZE) {
            struct ack_entry entry;
            if (at + (ssize_t)SEGMENT_ACK_SIZE <= got &&
                ack_decode(&entry, segment->nonce, bytes + at))
                visit(arg, &entry);
            else
                ignored += SEGMENT_ACK_SIZE;
        }
        offset += (uint64_t)got;
    }
    free(bytes);
    return ignored;
}

int64_t ackfile_load(int dir_fd, const struct segment_header *segment, ackfile_visit *visit,
                     void *arg)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segment->segno, ".ack", name);
    int fd = fsio_open(dir_fd, name, O_RDONLY);
    if (fd == -1)
        return -1;
    int64_t result = read_entries(fd, segment, visit, arg);
    fsio_close(fd);
    return result;
}
