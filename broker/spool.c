// SPDX-License-Identifier: MIT
/*
 * Opening, the lock, space, and the reading side. Reading never holds the table's mutex while the
 * disk is asked: a hold on the segment keeps its descriptor instead.
 */
#include "broker/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/recover.h"
#include "broker/spool_impl.h"
#include "broker/walk.h"
#include "common/crc32c.h"
#include "common/fsio.h"
#include "common/log.h"

enum {
    SEGMENT_BYTES_MIN = 256 * 1024,
    SEGMENT_BYTES_MAX = 64 << 20,
    STEP_BYTES_MAX = 4 << 20,
    SHARE_OF_SPOOL = 16, /* a segment is that part of it */
    LEAVE_FULL_PERCENT = 95,
};

/* --- opening ---------------------------------------------------------------------------------- */

static int check_limits(const struct spool_config *config, struct err *err)
{
    uint64_t least = 4 * (config->max_body_bytes + SPOOL_RECORD_OVERHEAD);
    if (config->max_bytes >= least)
        return 0;
    return err_set(err,
                   "--spool-max-bytes %" PRIu64 " is too small for --max-body-bytes %" PRIu64
                   ": at least %" PRIu64 " is needed",
                   config->max_bytes, config->max_body_bytes, least);
}

static uint64_t bounded(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void set_sizes(spool_t *self)
{
    const struct spool_config *config = &self->config;
    self->segment_bytes = config->segment_bytes;
    if (self->segment_bytes == 0)
        self->segment_bytes =
            bounded(config->max_bytes / SHARE_OF_SPOOL, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    self->step_bytes = bounded(self->segment_bytes / 4, 4096, STEP_BYTES_MAX);
    uint64_t record = config->max_body_bytes + SPOOL_RECORD_OVERHEAD;
    uint64_t reserve = self->segment_bytes > record ? self->segment_bytes : record;
    self->limit_bytes = config->max_bytes > reserve ? config->max_bytes - reserve : 0;
    self->dead_share_bytes = config->max_bytes / 10;
    self->quarantine_share_bytes = config->max_bytes / 20;
}

/* The directory itself and those above it that are missing. */
static int make_path(const char *path, struct err *err)
{
    char *copy = strdup(path);
    if (copy == NULL)
        abort();
    int result = 0;
    for (char *at = copy + 1; result == 0; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        bool is_end = *at == '\0';
        *at = '\0';
        struct stat st;
        if (stat(copy, &st) == -1 && fsio_make_dir(AT_FDCWD, copy) == -1)
            result = err_set(err, "make directory %s: %s", copy, strerror(errno));
        if (is_end)
            break;
        *at = '/';
    }
    free(copy);
    return result;
}

static int take_lock(spool_t *self, struct err *err)
{
    self->lock_fd = fsio_open(self->root_fd, "LOCK", O_RDWR | O_CREAT);
    if (self->lock_fd == -1)
        return err_set(err, "%s/LOCK: %s", self->path, strerror(errno));
    if (fsio_lock(self->lock_fd) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(err, "the spool %s is in use by another process", self->path);
    return err_set(err, "lock %s/LOCK: %s", self->path, strerror(errno));
}

static int open_part(spool_t *self, const char *name, int *fd, struct err *err)
{
    if (fsio_make_dir(self->root_fd, name) == -1 ||
        (*fd = fsio_open_dir(self->root_fd, name)) == -1)
        return err_set(err, "%s/%s: %s", self->path, name, strerror(errno));
    return 0;
}

static int open_directories(spool_t *self, struct err *err)
{
    if (make_path(self->path, err) == -1)
        return -1;
    self->root_fd = fsio_open_dir(AT_FDCWD, self->path);
    if (self->root_fd == -1)
        return err_set(err, "open %s: %s", self->path, strerror(errno));
    if (take_lock(self, err) == -1)
        return -1;
    if (open_part(self, "seg", &self->seg_fd, err) == -1 ||
        open_part(self, "dead", &self->dead_fd, err) == -1 ||
        open_part(self, "quarantine", &self->quarantine_fd, err) == -1)
        return -1;
    if (faccessat(self->root_fd, "seg", W_OK | X_OK, AT_EACCESS) == -1)
        return err_set(err, "%s/seg cannot be written: %s", self->path, strerror(errno));
    if (fsio_sync(self->root_fd) == -1)
        return err_set(err, "sync %s: %s", self->path, strerror(errno));
    return 0;
}

spool_t *spool_open(const struct spool_config *config, struct spool_report *report, struct err *err)
{
    *report = (struct spool_report){0};
    spool_t *self = calloc(1, sizeof *self);
    if (self == NULL || (self->path = strdup(config->path)) == NULL)
        abort();
    self->config = *config;
    self->config.path = self->path;
    self->root_fd = self->seg_fd = self->dead_fd = self->quarantine_fd = self->lock_fd = -1;
    set_sizes(self);
    table_init(&self->table, -1);
    if (check_limits(config, err) == -1 || open_directories(self, err) == -1)
        goto fail;
    self->table.dir_fd = self->seg_fd;
    if (recover_run(self, report, err) == -1)
        goto fail;
    return self;
fail:
    spool_close(&self);
    return NULL;
}

void spool_close(spool_t **self_p)
{
    spool_t *self = *self_p;
    if (self == NULL)
        return;
    table_fini(&self->table);
    fsio_close(self->seg_fd);
    fsio_close(self->dead_fd);
    fsio_close(self->quarantine_fd);
    fsio_close(self->root_fd);
    fsio_close(self->lock_fd);
    free(self->path);
    free(self);
    *self_p = NULL;
}

uint64_t spool_max_body(const spool_t *self)
{
    return self->config.max_body_bytes;
}

/* --- space ------------------------------------------------------------------------------------ */

void spool_usage(spool_t *self, struct spool_usage *out)
{
    table_usage(&self->table, out);
    out->max_bytes = self->config.max_bytes;
    out->limit_bytes = self->limit_bytes;
    out->is_low_disk = atomic_load(&self->is_low_disk) || atomic_load(&self->is_out_of_space);
    /* The appender only looks when a request comes, and none may come while we say full. */
    out->is_full = atomic_load(&self->is_full) && out->used_bytes > spool_leave_full_at(self);
}

uint64_t spool_leave_full_at(const spool_t *self)
{
    return self->limit_bytes / 100 * LEAVE_FULL_PERCENT;
}

void spool_set_low_disk(spool_t *self, bool is_low)
{
    atomic_store(&self->is_low_disk, is_low);
}

int64_t spool_dir_bytes(int dir_fd, const char *suffix)
{
    int fd = fsio_open_dir(dir_fd, ".");
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fsio_close(fd);
        return -1;
    }
    int64_t sum = 0;
    size_t suffix_len = strlen(suffix);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        struct stat st;
        if (entry->d_name[0] != '.' && len >= suffix_len &&
            strcmp(entry->d_name + len - suffix_len, suffix) == 0 &&
            fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += (int64_t)st.st_blocks * 512;
    }
    closedir(dir);
    return sum;
}

void spool_count_others(spool_t *self)
{
    int64_t dead = spool_dir_bytes(self->dead_fd, "");
    int64_t quarantine = spool_dir_bytes(self->quarantine_fd, "");
    uint64_t quarantine_bytes = quarantine < 0 ? 0 : (uint64_t)quarantine;
    atomic_store(&self->quarantine_bytes, quarantine_bytes);
    table_set_other_bytes(&self->table, dead < 0 ? 0 : (uint64_t)dead, quarantine_bytes);
}

int64_t spool_recount(spool_t *self)
{
    spool_count_others(self);
    int64_t difference = table_recount(&self->table);
    if (difference != 0)
        log_at(LEVEL_WARN, "spool.recounted", NULL, LOG_NUM("difference", difference));
    return difference;
}

/* --- reading ---------------------------------------------------------------------------------- */

bool spool_next(spool_t *self, uint64_t segno, struct segment_info *out)
{
    return table_next(&self->table, segno, out);
}

bool spool_info(spool_t *self, uint64_t segno, struct segment_info *out)
{
    return table_info(&self->table, segno, out);
}

bool spool_settle(spool_t *self, const struct record_id *id)
{
    return table_settle(&self->table, id->segno, id->nonce32, id->ordinal);
}

bool spool_is_settled(spool_t *self, const struct record_id *id)
{
    return table_is_settled(&self->table, id->segno, id->ordinal);
}

void spool_remember(spool_t *self, const struct record_id *id, const struct record_history *history)
{
    table_remember(&self->table, id->segno, id->ordinal, history);
}

/* Holds a segment; one whose file somebody took away is forgotten, or its records would wait for
 * ever. */
static struct segment *hold(spool_t *self, uint64_t segno)
{
    struct segment *segment = table_hold(&self->table, segno);
    if (segment != NULL || errno != ENOENT)
        return segment;
    struct segment_info info;
    if (table_info(&self->table, segno, &info))
        log_at(LEVEL_ERROR, "spool.missing", NULL, LOG_NUM("segment", segno),
               LOG_NUM("records", info.records - info.settled));
    table_remove(&self->table, segno);
    errno = 0;
    return NULL;
}

struct scanning {
    struct walk walk;
    uint64_t segno;
    uint32_t records; /* ordinals proven */
};

static void fill_ref(struct scanning *self, const struct walk_item *item, struct record_ref *out)
{
    const struct record_header *header = &item->header;
    *out = (struct record_ref){
        .id = {self->segno, header->ordinal, self->walk.nonce32},
        .offset = item->offset,
        .arrival_ns = header->enqueued_ns,
        .meta_len = header->meta_len,
        .body_len = header->body_len,
        .extra_len = header->extra_len,
    };
    uint8_t bytes[SEGMENT_ORIGIN_SIZE];
    if ((header->flags & RECORD_HAS_ORIGIN) == 0 ||
        fsio_pread(self->walk.fd, bytes, sizeof bytes, item->offset + SEGMENT_RECORD_SIZE) !=
            (ssize_t)sizeof bytes)
        return;
    struct record_origin origin;
    record_origin_decode(&origin, bytes);
    out->arrival_ns = origin.arrival_ns;
    out->history = origin.history;
    out->moves = origin.moves;
}

/* A damaged range as a ref. False when no ordinal is missing in it. */
static bool fill_lost(struct scanning *self, const struct walk_item *item, uint32_t expected,
                      struct record_ref *out)
{
    uint32_t next = item->is_last || item->header.ordinal > self->records ? self->records
                                                                          : item->header.ordinal;
    *out = (struct record_ref){
        .id = {self->segno, expected, self->walk.nonce32},
        .offset = item->offset,
        .body_len = item->len > UINT32_MAX ? UINT32_MAX : (uint32_t)item->len,
        .lost = next > expected ? next - expected : 0,
    };
    return out->lost > 0;
}

/* One step; true when *out was filled. */
static bool scan_step(struct scanning *self, enum walk_step step, const struct walk_item *item,
                      uint32_t expected, struct record_ref *out)
{
    if (step == WALK_GAP || step == WALK_END)
        return fill_lost(self, item, expected, out);
    if (item->header.type != RECORD_DATA)
        return false;
    fill_ref(self, item, out);
    return true;
}

static int scan_records(struct scanning *self, struct record_ref *out, int max, struct err *err)
{
    int n = 0;
    while (n < max) {
        struct walk_item item;
        uint32_t expected = self->walk.ordinal;
        enum walk_step step = walk_next(&self->walk, &item);
        if (step == WALK_ERROR || step == WALK_UNKNOWN)
            return err_set(err, "scan of segment %" PRIu64 " at %" PRIu64 ": %s", self->segno,
                           item.offset,
                           step == WALK_ERROR ? strerror(errno) : "a record of an unknown kind");
        if (step == WALK_END)
            item.is_last = true;
        n += scan_step(self, step, &item, expected, &out[n]);
        if (step == WALK_END) {
            self->walk.offset = self->walk.end;
            self->walk.ordinal = self->records;
            break;
        }
    }
    return n;
}

int spool_scan(spool_t *self, struct spool_cursor *cursor, struct record_ref *out, int max,
               struct err *err)
{
    struct segment_info info;
    int n = 0;
    while (n == 0) {
        if (!table_info(&self->table, cursor->segno, &info))
            return 0;
        if (cursor->offset == 0)
            cursor->offset = SEGMENT_HEADER_SIZE;
        if (cursor->offset >= info.end && cursor->ordinal >= info.records)
            return 0;
        struct segment *segment = hold(self, cursor->segno);
        if (segment == NULL)
            return errno == 0 ? 0 : err_set(err, "open segment: %s", strerror(errno));
        struct scanning scanning = {.segno = cursor->segno, .records = info.records};
        walk_init(&scanning.walk, segment->fd, segment_nonce32(segment->header.nonce),
                  cursor->offset, info.end, cursor->ordinal);
        n = scan_records(&scanning, out, max, err);
        if (n >= 0) {
            cursor->offset = scanning.walk.offset;
            cursor->ordinal = scanning.walk.ordinal;
            n = table_filter(&self->table, cursor->segno, out, n);
        }
        walk_fini(&scanning.walk);
        table_drop(&self->table, &segment);
    }
    return n;
}

static enum read_result read_checked(int fd, const struct record_ref *ref, char *memory, size_t len,
                                     struct err *err)
{
    ssize_t got = fsio_pread(fd, memory, len, ref->offset);
    if (got == -1) {
        err_set(err, "read at %" PRIu64 ": %s", ref->offset, strerror(errno));
        return errno == EIO ? READ_BAD : READ_LATER;
    }
    struct record_header header;
    bool is_right =
        got == (ssize_t)len &&
        record_header_decode(&header, ref->id.nonce32, (const uint8_t *)memory) == SEGMENT_VALID &&
        header.ordinal == ref->id.ordinal && header.extra_len == ref->extra_len &&
        header.meta_len == ref->meta_len && header.body_len == ref->body_len &&
        header.data_crc == crc32c(0, memory + SEGMENT_RECORD_SIZE, len - SEGMENT_RECORD_SIZE);
    if (is_right)
        return READ_OK;
    err_set(err, "record %" PRIu64 ".%" PRIu32 " does not read back as written", ref->id.segno,
            ref->id.ordinal);
    return READ_CORRUPT;
}

enum read_result spool_read(spool_t *self, const struct record_ref *ref, struct spool_blob *out,
                            struct err *err)
{
    *out = (struct spool_blob){0};
    struct segment *segment = hold(self, ref->id.segno);
    if (segment == NULL) {
        enum read_result result = errno == 0 ? READ_GONE : READ_LATER;
        err_set(err, "segment %" PRIu64 ": %s", ref->id.segno,
                result == READ_GONE ? "is gone" : strerror(errno));
        return result;
    }
    size_t head = SEGMENT_RECORD_SIZE + (size_t)ref->extra_len;
    size_t len = head + ref->meta_len + ref->body_len;
    char *memory = malloc(len);
    if (memory == NULL)
        abort();
    enum read_result result = read_checked(segment->fd, ref, memory, len, err);
    table_drop(&self->table, &segment);
    if (result != READ_OK) {
        free(memory);
        return result;
    }
    out->memory = memory;
    out->origin = (struct record_origin){
        .id = ref->id, .arrival_ns = ref->arrival_ns, .history = ref->history};
    if (ref->extra_len >= SEGMENT_ORIGIN_SIZE)
        record_origin_decode(&out->origin, (const uint8_t *)memory + SEGMENT_RECORD_SIZE);
    out->meta = (struct slice){memory + head, ref->meta_len};
    out->body = (struct slice){memory + head + ref->meta_len, ref->body_len};
    return READ_OK;
}

void spool_blob_free(struct spool_blob *blob)
{
    free(blob->memory);
    *blob = (struct spool_blob){0};
}
