// SPDX-License-Identifier: MIT
#include "common/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>

int descriptors_count(uint64_t *used, uint64_t *max)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        return -1;
    *max = limit.rlim_cur;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) {
        *used = *max;
        return errno == EMFILE ? 0 : -1;
    }
    uint64_t entries = 0;
    while (readdir(dir))
        entries++;
    closedir(dir);
    *used = entries > 3 ? entries - 3 : 0; /* ".", ".." and this directory's own */
    return 0;
}
