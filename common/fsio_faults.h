// SPDX-License-Identifier: MIT
/*
 * fsio_faults: what fsio asks before and after each call; fsio's own. Empty unless FSIO_FAULTS is
 * defined.
 */
#ifndef MCPD_FSIO_FAULTS_H
#define MCPD_FSIO_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

enum fsio_kind {
    FSIO_OPEN,
    FSIO_CREATE,
    FSIO_WRITE,
    FSIO_READ,
    FSIO_SYNC,
    FSIO_ALLOCATE,
    FSIO_TRUNCATE,
    FSIO_UNLINK,
    FSIO_RENAME,
    FSIO_KIND_COUNT
};

struct fsio_plan {
    enum fsio_kind kind;
    int fd;
    int error;       /* not 0: do not make the call, fail with this */
    bool is_partial; /* first write half of it */
    bool is_skipped; /* of a sync: claim success without it */
    bool exits_after;
    bool stops_after;
};

#ifdef FSIO_FAULTS
/* fd: the file, or with a name, the directory the name is in. */
struct fsio_plan fsio_begin(enum fsio_kind kind, int fd, const char *name);
/* Returns result, or -1 with the planned errno. */
int fsio_end(const struct fsio_plan *plan, int result);
void fsio_write_half(int fd, const struct iovec *parts, int count, uint64_t offset);
/* The file is about to be unlinked: its inode number may come back as another file. */
void fsio_forget(int dir_fd, const char *name);
#else
static inline struct fsio_plan fsio_begin(enum fsio_kind kind, int fd, const char *name)
{
    (void)name;
    return (struct fsio_plan){.kind = kind, .fd = fd};
}
static inline int fsio_end(const struct fsio_plan *plan, int result)
{
    (void)plan;
    return result;
}
static inline void fsio_write_half(int fd, const struct iovec *parts, int count, uint64_t offset)
{
    (void)fd, (void)parts, (void)count, (void)offset;
}
static inline void fsio_forget(int dir_fd, const char *name)
{
    (void)dir_fd, (void)name;
}
#endif

#endif
