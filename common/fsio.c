// SPDX-License-Identifier: MIT
/*
 * Every call goes through the same three steps: fsio_begin (a test may decide what happens), the
 * system call, fsio_end (a test may end the process). In a release build both are empty inlines.
 */
#include "common/fsio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsio_faults.h"

enum { PARTS_AT_ONCE = 1024 /* IOV_MAX of Linux */, ZEROS_AT_ONCE = 64 * 1024 };

int fsio_open(int dir_fd, const char *name, int flags)
{
    /* Only a call that may create counts as a change of the disk. */
    enum fsio_kind kind = (flags & O_CREAT) ? FSIO_CREATE : FSIO_OPEN;
    struct fsio_plan plan = fsio_begin(kind, dir_fd, name);
    if (plan.error)
        return fsio_end(&plan, -1);
    int fd;
    do
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd == -1 && errno == EINTR);
    return fsio_end(&plan, fd);
}

int fsio_open_dir(int dir_fd, const char *name)
{
    return fsio_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
}

int fsio_make_dir(int dir_fd, const char *name)
{
    struct fsio_plan plan = fsio_begin(FSIO_CREATE, dir_fd, name);
    if (plan.error)
        return fsio_end(&plan, -1);
    int result = mkdirat(dir_fd, name, 0700);
    if (result == -1 && errno == EEXIST)
        result = 0;
    return fsio_end(&plan, result);
}

void fsio_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

static size_t total_len(const struct iovec *parts, int count)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    return len;
}

/* One group of at most PARTS_AT_ONCE. */
static int write_group(int fd, const struct iovec *parts, int count, uint64_t offset)
{
    size_t len = total_len(parts, count);
    ssize_t done;
    do
        done = pwritev(fd, parts, count, (off_t)offset);
    while (done == -1 && errno == EINTR);
    if (done == -1)
        return -1;
    if ((size_t)done == len)
        return 0;
    errno = ENOSPC; /* what a short write to a file nearly always means */
    return -1;
}

int fsio_pwritev(int fd, const struct iovec *parts, int count, uint64_t offset)
{
    struct fsio_plan plan = fsio_begin(FSIO_WRITE, fd, NULL);
    if (plan.is_partial)
        fsio_write_half(fd, parts, count, offset);
    if (plan.error)
        return fsio_end(&plan, -1);
    int result = 0;
    while (count > 0 && result == 0) {
        int group = count < PARTS_AT_ONCE ? count : PARTS_AT_ONCE;
        result = write_group(fd, parts, group, offset);
        offset += total_len(parts, group);
        parts += group;
        count -= group;
    }
    return fsio_end(&plan, result);
}

int fsio_pwrite(int fd, const void *data, size_t len, uint64_t offset)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    return fsio_pwritev(fd, &part, 1, offset);
}

ssize_t fsio_pread(int fd, void *data, size_t len, uint64_t offset)
{
    struct fsio_plan plan = fsio_begin(FSIO_READ, fd, NULL);
    if (plan.error)
        return fsio_end(&plan, -1);
    size_t done = 0;
    while (done < len) {
        ssize_t got = pread(fd, (char *)data + done, len - done, (off_t)(offset + done));
        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            return fsio_end(&plan, -1);
        if (got == 0)
            break;
        done += (size_t)got;
    }
    (void)fsio_end(&plan, 0);
    return (ssize_t)done;
}

int fsio_sync(int fd)
{
    struct fsio_plan plan = fsio_begin(FSIO_SYNC, fd, NULL);
    return fsio_end(&plan, plan.error ? -1 : plan.is_skipped ? 0 : fsync(fd));
}

int fsio_sync_data(int fd)
{
    struct fsio_plan plan = fsio_begin(FSIO_SYNC, fd, NULL);
    return fsio_end(&plan, plan.error ? -1 : plan.is_skipped ? 0 : fdatasync(fd));
}

static int write_zeros(int fd, uint64_t offset, uint64_t len)
{
    static const char zeros[ZEROS_AT_ONCE];
    while (len > 0) {
        size_t n = len < sizeof zeros ? (size_t)len : sizeof zeros;
        if (fsio_pwrite(fd, zeros, n, offset) == -1)
            return -1;
        offset += n;
        len -= n;
    }
    return 0;
}

int fsio_allocate(int fd, uint64_t offset, uint64_t len)
{
    struct fsio_plan plan = fsio_begin(FSIO_ALLOCATE, fd, NULL);
    if (plan.error)
        return fsio_end(&plan, -1);
    int result;
    do
        result = fallocate(fd, 0, (off_t)offset, (off_t)len);
    while (result == -1 && errno == EINTR);
    if (result == -1 && (errno == EOPNOTSUPP || errno == ENOSYS))
        result = write_zeros(fd, offset, len);
    return fsio_end(&plan, result);
}

int fsio_truncate(int fd, uint64_t len)
{
    struct fsio_plan plan = fsio_begin(FSIO_TRUNCATE, fd, NULL);
    return fsio_end(&plan, plan.error ? -1 : ftruncate(fd, (off_t)len));
}

int fsio_unlink(int dir_fd, const char *name)
{
    struct fsio_plan plan = fsio_begin(FSIO_UNLINK, dir_fd, name);
    if (!plan.error)
        fsio_forget(dir_fd, name);
    return fsio_end(&plan, plan.error ? -1 : unlinkat(dir_fd, name, 0));
}

int fsio_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    struct fsio_plan plan = fsio_begin(FSIO_RENAME, from_dir, from);
    return fsio_end(&plan, plan.error ? -1 : renameat(from_dir, from, to_dir, to));
}

int fsio_lock(int fd)
{
    int result;
    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result == -1 && errno == EINTR);
    return result;
}

int fsio_size(int fd, uint64_t *allocated_bytes, uint64_t *len)
{
    struct stat st;
    if (fstat(fd, &st) == -1)
        return -1;
    if (allocated_bytes != NULL)
        *allocated_bytes = (uint64_t)st.st_blocks * 512;
    if (len != NULL)
        *len = (uint64_t)st.st_size;
    return 0;
}
