// SPDX-License-Identifier: MIT
/*
 * fsio: the only caller of open, write, sync, truncate, rename and unlink. Thin, so that a test
 * build (-DFSIO_FAULTS) can count every call and make any of them fail, fall short, stall or end
 * the process; a release build adds nothing to the system calls.
 *
 * All functions return 0 (or a descriptor, or a length) and -1 with errno. Interrupted calls are
 * repeated. Any thread; a descriptor belongs to whoever opened it.
 */
#ifndef MCPD_FSIO_H
#define MCPD_FSIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/err.h"

/* openat with O_CLOEXEC and O_NOFOLLOW added, files created with mode 0600. dir_fd may be AT_FDCWD.
 */
int fsio_open(int dir_fd, const char *name, int flags) MUST_USE;
int fsio_open_dir(int dir_fd, const char *name) MUST_USE;
/* Mode 0700; 0 also when the directory is there already. */
int fsio_make_dir(int dir_fd, const char *name) MUST_USE;
/* Never looks at the result: what had to be known is known from the sync. */
void fsio_close(int fd);

/* Writes all of it or fails: a short write is -1 with ENOSPC or EIO, and then any part may have
 * been written. The vector is not changed. */
int fsio_pwritev(int fd, const struct iovec *parts, int count, uint64_t offset) MUST_USE;
int fsio_pwrite(int fd, const void *data, size_t len, uint64_t offset) MUST_USE;
/* Reads up to len bytes, less only at the end of the file; the number read. */
ssize_t fsio_pread(int fd, void *data, size_t len, uint64_t offset) MUST_USE;

/* A descriptor whose sync failed must never be synced again: the kernel has forgotten what it could
 * not write, and the next sync would claim success. */
int fsio_sync(int fd) MUST_USE;      /* fsync: data and all metadata; also for directories */
int fsio_sync_data(int fd) MUST_USE; /* fdatasync */

/* Reserves disk space for [offset, offset + len) and extends the file over it; what was not written
 * reads as zero. Falls back to writing zeros where the file system cannot reserve. */
int fsio_allocate(int fd, uint64_t offset, uint64_t len) MUST_USE;
int fsio_truncate(int fd, uint64_t len) MUST_USE;
int fsio_unlink(int dir_fd, const char *name) MUST_USE;
int fsio_rename(int from_dir, const char *from, int to_dir, const char *to) MUST_USE;
/* flock, exclusive, not blocking: -1 with EWOULDBLOCK when another process holds it. */
int fsio_lock(int fd) MUST_USE;
/* Bytes on disk (allocated blocks) and length of a file; either pointer may be null. */
int fsio_size(int fd, uint64_t *allocated_bytes, uint64_t *len) MUST_USE;

#ifdef FSIO_FAULTS
/*
 * Faults, one a line or separated by ';':
 *
 *     KIND[:PATTERN]@N[+]=ACTION
 *
 * KIND: open, write, read, sync (both syncs), allocate, truncate, unlink, rename, or any (every
 * one of these but read). PATTERN: a shell pattern for the whole path of the file (fnmatch, '*'
 * also matches '/'). N: the how-manieth matching call, from 1; with '+' that one and all later.
 * ACTION: an errno name (EIO, ENOSPC, EROFS, ...); short (half of a write is done, then ENOSPC);
 * delay=MS; exit-before, exit-inside (half of a write is done; for others as before), exit-after:
 * _exit(99); stop-before, stop-after: SIGSTOP to itself; skip: a sync is not made and reported as
 * done, as a disk that lies does.
 *
 * The environment variable MCPD_FSIO gives them at start. MCPD_FSIO=@FILE reads them from a file,
 * again whenever the file changes (looked at before each call; counting starts anew), so that a
 * test arms a fault at a moment of its choice; an absent file means no faults. With
 * MCPD_FSIO_COUNTS=FILE each fault that fires appends a line to FILE.
 */
void fsio_script(const char *text); /* replaces the script; null: no faults */
/* What a new process would know: no failed syncs, no script. */
void fsio_restart(void);
/* Calls of a kind ("write", "sync", "any", ...) since the last fsio_script. */
uint64_t fsio_count(const char *kind);
#endif

#endif
