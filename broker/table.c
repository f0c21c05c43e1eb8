// SPDX-License-Identifier: MIT
/*
 * Segments come in rising order and go in nearly the same, so an array sorted by number does. The
 * sums are kept beside it and every subtraction is checked: a sum below zero would be a bug that
 * ends in a spool that is full for ever, so it stops at zero and the recount mends it.
 */
#include "broker/table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/logfile.h"
#include "common/fsio.h"

enum { OPEN_MAX_FDS = 128, ACK_BYTES = SEGMENT_ACK_SIZE };

static void take(uint64_t *sum, uint64_t n)
{
    *sum = *sum > n ? *sum - n : 0;
}

void table_init(struct table *self, int dir_fd)
{
    *self = (struct table){.dir_fd = dir_fd};
    pthread_mutex_init(&self->mutex, NULL);
}

static void segment_free(struct segment *segment)
{
    fsio_close(segment->fd);
    settled_fini(&segment->fates);
    free(segment);
}

void table_fini(struct table *self)
{
    for (size_t i = 0; i < self->count; i++)
        segment_free(self->items[i]);
    free(self->items);
    pthread_mutex_destroy(&self->mutex);
}

/* Index of the first segment with a number of at least segno. */
static size_t lower_bound(const struct table *self, uint64_t segno)
{
    size_t low = 0, high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->items[middle]->header.segno < segno)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct segment *find(const struct table *self, uint64_t segno)
{
    size_t i = lower_bound(self, segno);
    bool is_there = i < self->count && self->items[i]->header.segno == segno;
    return is_there ? self->items[i] : NULL;
}

void table_add(struct table *self, const struct segment *segment)
{
    struct segment *copy = malloc(sizeof *copy);
    if (copy == NULL)
        abort();
    *copy = *segment;
    pthread_mutex_lock(&self->mutex);
    if (self->count == self->capacity) {
        self->capacity = self->capacity == 0 ? 64 : self->capacity * 2;
        self->items = realloc(self->items, self->capacity * sizeof(struct segment *));
        if (self->items == NULL)
            abort();
    }
    size_t i = lower_bound(self, segment->header.segno);
    memmove(self->items + i + 1, self->items + i, (self->count - i) * sizeof(struct segment *));
    self->items[i] = copy;
    self->count++;
    self->waiting += copy->records - copy->settled;
    self->unwritten += copy->unwritten;
    self->file_bytes += copy->log_bytes + copy->ack_bytes;
    if (copy->fd != -1)
        self->open_fds++;
    pthread_mutex_unlock(&self->mutex);
}

static void close_least_used(struct table *self)
{
    struct segment *least = NULL;
    for (size_t i = 0; i < self->count; i++) {
        struct segment *segment = self->items[i];
        if (segment->fd != -1 && segment->holds == 0 && !segment->is_pinned &&
            (least == NULL || segment->used_at < least->used_at))
            least = segment;
    }
    if (least == NULL)
        return;
    fsio_close(least->fd);
    least->fd = -1;
    self->open_fds--;
}

/* Called and returns with the mutex held, which it gives up around the open. */
static int open_held(struct table *self, struct segment *segment)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segment->header.segno, ".log", name);
    pthread_mutex_unlock(&self->mutex);
    int fd = fsio_open(self->dir_fd, name, O_RDONLY);
    int error = errno;
    pthread_mutex_lock(&self->mutex);
    if (segment->fd != -1) { /* another thread was quicker */
        fsio_close(fd);
        return 0;
    }
    errno = error;
    if (fd == -1)
        return -1;
    segment->fd = fd;
    if (++self->open_fds > OPEN_MAX_FDS)
        close_least_used(self);
    return 0;
}

static void drop_locked(struct table *self, struct segment *segment)
{
    segment->holds--;
    if (!segment->is_removed || segment->holds > 0)
        return;
    if (segment->fd != -1)
        self->open_fds--;
    segment_free(segment);
}

struct segment *table_hold(struct table *self, uint64_t segno)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    errno = 0;
    if (segment != NULL) {
        segment->holds++;
        segment->used_at = ++self->clock;
        if (segment->fd == -1 && open_held(self, segment) == -1) {
            int error = errno;
            drop_locked(self, segment);
            segment = NULL;
            errno = error;
        }
    }
    pthread_mutex_unlock(&self->mutex);
    return segment;
}

void table_drop(struct table *self, struct segment **segment_p)
{
    if (*segment_p == NULL)
        return;
    pthread_mutex_lock(&self->mutex);
    drop_locked(self, *segment_p);
    pthread_mutex_unlock(&self->mutex);
    *segment_p = NULL;
}

void table_publish(struct table *self, uint64_t segno, uint32_t n, uint64_t end, uint32_t batch,
                   uint64_t oldest_ns)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    assert(segment != NULL && !segment->is_sealed);
    if (segment->records == 0 || oldest_ns < segment->oldest_ns)
        segment->oldest_ns = oldest_ns;
    segment->records += n;
    segment->unwritten += n;
    segment->end = end;
    segment->last_batch = batch;
    self->waiting += n;
    self->unwritten += n;
    pthread_mutex_unlock(&self->mutex);
}

void table_set_log_bytes(struct table *self, uint64_t segno, uint64_t log_bytes)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    if (segment != NULL) {
        take(&self->file_bytes, segment->log_bytes);
        self->file_bytes += log_bytes;
        segment->log_bytes = log_bytes;
    }
    pthread_mutex_unlock(&self->mutex);
}

void table_seal(struct table *self, uint64_t segno, bool keep_fd)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    assert(segment != NULL);
    segment->is_sealed = true;
    segment->is_pinned = keep_fd;
    pthread_mutex_unlock(&self->mutex);
}

void table_acked(struct table *self, uint64_t segno, uint32_t n, uint64_t ack_bytes)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    if (segment != NULL) {
        uint32_t written = n < segment->unwritten ? n : segment->unwritten;
        segment->unwritten -= written;
        take(&self->unwritten, written);
        take(&self->file_bytes, segment->ack_bytes);
        self->file_bytes += ack_bytes;
        segment->ack_bytes = ack_bytes;
    }
    pthread_mutex_unlock(&self->mutex);
}

void table_set_other_bytes(struct table *self, uint64_t dead_bytes, uint64_t quarantine_bytes)
{
    pthread_mutex_lock(&self->mutex);
    self->dead_bytes = dead_bytes;
    self->other_bytes = dead_bytes + quarantine_bytes;
    pthread_mutex_unlock(&self->mutex);
}

/* --- what became of records ------------------------------------------------------------------- */

bool table_settle(struct table *self, uint64_t segno, uint32_t nonce32, uint32_t ordinal)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    bool is_new = segment != NULL && ordinal < segment->records &&
                  segment_nonce32(segment->header.nonce) == nonce32 &&
                  settled_add(&segment->fates, ordinal, segment->records);
    if (is_new) {
        segment->settled++;
        take(&self->waiting, 1);
    }
    pthread_mutex_unlock(&self->mutex);
    return is_new;
}

bool table_is_settled(struct table *self, uint64_t segno, uint32_t ordinal)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    bool is_settled = segment == NULL || settled_has(&segment->fates, ordinal);
    pthread_mutex_unlock(&self->mutex);
    return is_settled;
}

void table_remember(struct table *self, uint64_t segno, uint32_t ordinal,
                    const struct record_history *history)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    if (segment != NULL && ordinal < segment->records)
        settled_remember(&segment->fates, ordinal, history);
    pthread_mutex_unlock(&self->mutex);
}

bool table_recall(struct table *self, uint64_t segno, uint32_t ordinal, struct record_history *out)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    const struct record_history *history =
        segment == NULL ? NULL : settled_recall(&segment->fates, ordinal);
    if (history != NULL)
        *out = *history;
    pthread_mutex_unlock(&self->mutex);
    return history != NULL;
}

static bool is_settled_range(const struct segment *segment, const struct record_ref *ref)
{
    uint32_t n = ref->lost > 0 ? ref->lost : 1;
    for (uint32_t i = 0; i < n; i++)
        if (!settled_has(&segment->fates, ref->id.ordinal + i))
            return false;
    return true;
}

int table_filter(struct table *self, uint64_t segno, struct record_ref *refs, int n)
{
    int kept = 0;
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    for (int i = 0; i < n && segment != NULL; i++) {
        if (is_settled_range(segment, &refs[i]))
            continue;
        const struct record_history *history = settled_recall(&segment->fates, refs[i].id.ordinal);
        refs[kept] = refs[i];
        if (history != NULL)
            refs[kept].history = *history;
        kept++;
    }
    pthread_mutex_unlock(&self->mutex);
    return kept;
}

/* --- looking ------------------------------------------------------------------------------------
 */

static void info_of(const struct segment *segment, struct segment_info *out)
{
    *out = (struct segment_info){
        .segno = segment->header.segno,
        .records = segment->records,
        .settled = segment->settled,
        .end = segment->end,
        .oldest_ns = segment->oldest_ns,
        .is_sealed = segment->is_sealed,
    };
}

bool table_next(struct table *self, uint64_t segno, struct segment_info *out)
{
    bool is_found = false;
    pthread_mutex_lock(&self->mutex);
    for (size_t i = lower_bound(self, segno + 1); i < self->count && !is_found; i++) {
        is_found = self->items[i]->settled < self->items[i]->records;
        if (is_found)
            info_of(self->items[i], out);
    }
    pthread_mutex_unlock(&self->mutex);
    return is_found;
}

bool table_info(struct table *self, uint64_t segno, struct segment_info *out)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    if (segment != NULL)
        info_of(segment, out);
    pthread_mutex_unlock(&self->mutex);
    return segment != NULL;
}

bool table_header(struct table *self, uint64_t segno, struct segment_header *out)
{
    pthread_mutex_lock(&self->mutex);
    struct segment *segment = find(self, segno);
    if (segment != NULL)
        *out = segment->header;
    pthread_mutex_unlock(&self->mutex);
    return segment != NULL;
}

void table_last(struct table *self, struct segment_header *next)
{
    pthread_mutex_lock(&self->mutex);
    if (self->count > 0) {
        const struct segment *last = self->items[self->count - 1];
        next->previous_segno = last->header.segno;
        next->previous_end = last->end;
        next->previous_batch = last->last_batch;
        next->previous_records = last->records;
    }
    pthread_mutex_unlock(&self->mutex);
}

size_t table_finished(struct table *self, uint64_t *segnos, size_t max)
{
    size_t n = 0;
    pthread_mutex_lock(&self->mutex);
    for (size_t i = 0; i < self->count && n < max; i++) {
        const struct segment *segment = self->items[i];
        if (segment->is_sealed && segment->settled == segment->records)
            segnos[n++] = segment->header.segno;
    }
    pthread_mutex_unlock(&self->mutex);
    return n;
}

void table_remove(struct table *self, uint64_t segno)
{
    pthread_mutex_lock(&self->mutex);
    size_t i = lower_bound(self, segno);
    if (i < self->count && self->items[i]->header.segno == segno) {
        struct segment *segment = self->items[i];
        take(&self->file_bytes, segment->log_bytes + segment->ack_bytes);
        take(&self->unwritten, segment->unwritten);
        take(&self->waiting, segment->records - segment->settled);
        self->count--;
        memmove(self->items + i, self->items + i + 1, (self->count - i) * sizeof(struct segment *));
        segment->is_removed = true;
        segment->holds++;
        drop_locked(self, segment);
    }
    pthread_mutex_unlock(&self->mutex);
}

/* Allocated bytes by name; false when it is not there. */
static bool stat_bytes(int dir_fd, uint64_t segno, const char *suffix, uint64_t *bytes)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(segno, suffix, name);
    struct stat st;
    *bytes = 0;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
        return false;
    *bytes = (uint64_t)st.st_blocks * 512;
    return true;
}

int64_t table_recount(struct table *self)
{
    int64_t difference = 0;
    uint64_t segno = 0, sum = 0, unwritten = 0, waiting = 0;
    pthread_mutex_lock(&self->mutex);
    /* One at a time, the mutex given up in between: others must not wait for all of them. */
    for (size_t i; (i = lower_bound(self, segno + 1)) < self->count;) {
        struct segment *segment = self->items[i];
        segno = segment->header.segno;
        uint64_t log_bytes, ack_bytes;
        bool is_there = stat_bytes(self->dir_fd, segno, ".log", &log_bytes);
        (void)stat_bytes(self->dir_fd, segno, ".ack", &ack_bytes);
        if (is_there) {
            int64_t change = (int64_t)(log_bytes + ack_bytes) -
                             (int64_t)(segment->log_bytes + segment->ack_bytes);
            difference += change;
            self->file_bytes = (uint64_t)((int64_t)self->file_bytes + change);
            segment->log_bytes = log_bytes;
            segment->ack_bytes = ack_bytes;
        }
        pthread_mutex_unlock(&self->mutex);
        pthread_mutex_lock(&self->mutex);
    }
    for (size_t i = 0; i < self->count; i++) {
        const struct segment *segment = self->items[i];
        sum += segment->log_bytes + segment->ack_bytes;
        unwritten += segment->unwritten;
        waiting += segment->records - segment->settled;
    }
    difference += (int64_t)sum - (int64_t)self->file_bytes;
    self->file_bytes = sum;
    self->unwritten = unwritten;
    self->waiting = waiting;
    pthread_mutex_unlock(&self->mutex);
    return difference;
}

void table_usage(struct table *self, struct spool_usage *out)
{
    *out = (struct spool_usage){0};
    pthread_mutex_lock(&self->mutex);
    out->used_bytes = self->file_bytes + self->other_bytes + self->unwritten * ACK_BYTES;
    out->dead_bytes = self->dead_bytes;
    out->waiting = self->waiting;
    out->segments = (uint32_t)self->count;
    for (size_t i = 0; i < self->count && out->oldest_ns == 0; i++)
        if (self->items[i]->settled < self->items[i]->records)
            out->oldest_ns = self->items[i]->oldest_ns;
    pthread_mutex_unlock(&self->mutex);
}
