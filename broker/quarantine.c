// SPDX-License-Identifier: MIT
#include "broker/quarantine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/logfile.h"
#include "broker/spool_impl.h"
#include "common/fsio.h"
#include "common/log.h"

enum { COPY_AT_ONCE = 256 * 1024, NAME_SIZE = 64 };

static int copy_range(int from, uint64_t offset, uint64_t len, int to)
{
    char *bytes = malloc(COPY_AT_ONCE);
    if (bytes == NULL)
        abort();
    int result = 0;
    uint64_t done = 0;
    while (done < len && result == 0) {
        size_t want = len - done < COPY_AT_ONCE ? (size_t)(len - done) : COPY_AT_ONCE;
        ssize_t got = fsio_pread(from, bytes, want, offset + done);
        if (got <= 0)
            break; /* what cannot be read cannot be kept */
        result = fsio_pwrite(to, bytes, (size_t)got, done);
        done += (uint64_t)got;
    }
    free(bytes);
    return result;
}

/* Drops the copy of the lowest number: the oldest. 0 when there is none to drop. */
static int drop_oldest(spool_t *spool)
{
    int fd = fsio_open_dir(spool->root_fd, "quarantine");
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fsio_close(fd);
        return 0;
    }
    char oldest[NAME_SIZE] = "";
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < NAME_SIZE &&
            (oldest[0] == '\0' || strcmp(entry->d_name, oldest) < 0))
            memcpy(oldest, entry->d_name, strlen(entry->d_name) + 1);
    closedir(dir);
    if (oldest[0] == '\0' || fsio_unlink(spool->quarantine_fd, oldest) == -1)
        return 0;
    log_at(LEVEL_WARN, "quarantine.dropped", NULL, LOG_TEXT("file", oldest));
    return 1;
}

static void make_room(spool_t *spool, uint64_t len)
{
    spool_count_others(spool);
    while (atomic_load(&spool->quarantine_bytes) + len > spool->quarantine_share_bytes &&
           drop_oldest(spool))
        spool_count_others(spool);
}

/* True when the whole copy is there already: a recovery that was killed later than that. */
static bool is_complete(int dir_fd, const char *name, uint64_t len)
{
    uint64_t have = 0;
    int fd = fsio_open(dir_fd, name, O_RDONLY);
    bool result = fd != -1 && fsio_size(fd, NULL, &have) == 0 && have >= len;
    fsio_close(fd);
    return result;
}

int quarantine_copy(spool_t *spool, uint64_t segno, int fd, uint64_t offset, uint64_t len,
                    bool *is_new, struct err *err)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%020" PRIu64 "-%012" PRIu64 ".bin", segno, offset);
    if (len > spool->quarantine_share_bytes)
        len = spool->quarantine_share_bytes;
    *is_new = !is_complete(spool->quarantine_fd, name, len);
    if (!*is_new)
        return 0;
    make_room(spool, len);
    int to = fsio_open(spool->quarantine_fd, name, O_WRONLY | O_CREAT | O_TRUNC);
    int result = to == -1 ? -1 : 0;
    if (result == 0)
        result = copy_range(fd, offset, len, to);
    if (result == 0)
        result = fsio_sync(to);
    if (result == 0)
        result = fsio_sync(spool->quarantine_fd);
    if (result == -1)
        err_set(err, "quarantine/%s: %s", name, strerror(errno));
    fsio_close(to);
    spool_count_others(spool);
    return result;
}

int quarantine_move(spool_t *spool, uint64_t segno, struct err *err)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, ".log", name);
    if (fsio_rename(spool->seg_fd, name, spool->quarantine_fd, name) == -1)
        return err_set(err, "move %s to quarantine: %s", name, strerror(errno));
    int synced = fsio_sync(spool->quarantine_fd);
    if (fsio_sync(spool->seg_fd) == -1 || synced == -1)
        return err_set(err, "sync of quarantine: %s", strerror(errno));
    make_room(spool, 0);
    return 0;
}
