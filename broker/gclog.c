// SPDX-License-Identifier: MIT
#include "broker/gclog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/spool_impl.h"
#include "common/clock.h"
#include "common/fsio.h"

enum { ROTATE_BYTES = 1 << 20, LINE_SIZE = 128, DIGITS = 20 };

static const char current_name[] = "gc.log";
static const char previous_name[] = "gc.log.1";

/* A kill may have left half a line; the next one must not be glued to it. */
static bool ends_a_line(int fd, uint64_t len)
{
    char last = '\n';
    return len == 0 || (fsio_pread(fd, &last, 1, len - 1) == 1 && last == '\n');
}

/* A file whose sync failed is never written again. */
static int sync_line(spool_t *spool, int fd)
{
    if (fsio_sync_data(fd) == 0)
        return 0;
    (void)!fsio_rename(spool->root_fd, current_name, spool->root_fd, previous_name);
    return -1;
}

int gclog_add(spool_t *spool, uint64_t segno, const char *why)
{
    int fd = fsio_open(spool->root_fd, current_name, O_RDWR | O_CREAT);
    uint64_t len = 0;
    int result = fd == -1 ? -1 : fsio_size(fd, NULL, &len);
    if (result == 0 && len >= ROTATE_BYTES) {
        fsio_close(fd);
        (void)!fsio_rename(spool->root_fd, current_name, spool->root_fd, previous_name);
        fd = fsio_open(spool->root_fd, current_name, O_RDWR | O_CREAT);
        len = 0;
        result = fd == -1 ? -1 : 0;
    }
    char when[CLOCK_TEXT_SIZE], line[LINE_SIZE];
    clock_text(clock_wall_ns(), when);
    const char *first = result == 0 && !ends_a_line(fd, len) ? "\n" : "";
    int n = snprintf(line, sizeof line, "%s%0*" PRIu64 " %s %s\n", first, DIGITS, segno, when, why);
    if (result == 0)
        result = fsio_pwrite(fd, line, (size_t)n, len);
    if (result == 0)
        result = sync_line(spool, fd);
    fsio_close(fd);
    return result;
}

/* A line begins with the number; anything else is skipped. */
static void parse(struct gclog *self, char *text)
{
    for (char *line; (line = strsep(&text, "\n")) != NULL;) {
        if (strspn(line, "0123456789") != DIGITS || line[DIGITS] != ' ')
            continue;
        uint64_t segno = strtoull(line, NULL, 10);
        if (segno == UINT64_MAX)
            continue;
        if ((self->count & (self->count - 1)) == 0) {
            size_t capacity = self->count == 0 ? 1 : self->count * 2;
            self->segnos = realloc(self->segnos, capacity * sizeof *self->segnos);
            if (self->segnos == NULL)
                abort();
        }
        self->segnos[self->count++] = segno;
        if (segno > self->highest)
            self->highest = segno;
    }
}

static void load(spool_t *spool, const char *name, struct gclog *out)
{
    int fd = fsio_open(spool->root_fd, name, O_RDONLY);
    if (fd == -1)
        return;
    char *text = malloc(2 * ROTATE_BYTES);
    if (text == NULL)
        abort();
    ssize_t len = fsio_pread(fd, text, 2 * ROTATE_BYTES - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    parse(out, text);
    free(text);
    fsio_close(fd);
}

void gclog_load(spool_t *spool, struct gclog *out)
{
    *out = (struct gclog){0};
    load(spool, previous_name, out);
    load(spool, current_name, out);
}

bool gclog_has(const struct gclog *self, uint64_t segno)
{
    for (size_t i = self->count; i > 0; i--)
        if (self->segnos[i - 1] == segno)
            return true;
    return false;
}

void gclog_fini(struct gclog *self)
{
    free(self->segnos);
    *self = (struct gclog){0};
}
