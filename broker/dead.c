// SPDX-License-Identifier: MIT
/*
 * The files are like segments, so the same parts serve: logfile writes them, a table of its own
 * holds them, ackfile remembers which letters were dropped or put back. A file whose letters are
 * all gone is removed.
 */
#include "broker/dead.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/ackfile.h"
#include "broker/inspect.h"
#include "broker/logfile.h"
#include "broker/spool_impl.h"
#include "broker/walk.h"
#include "common/crc32c.h"
#include "common/fsio.h"
#include "common/log.h"

enum {
    FILES_IN_SHARE = 8, /* so that dropping the oldest drops an eighth at most */
    FILE_BYTES_MIN = 64 * 1024,
    FILE_BYTES_MAX = 16 << 20,
    NOTE_MAX = 4096,
};

struct dead {
    spool_t *spool;
    struct table table;
    uint64_t next;
    uint64_t file_bytes;
    bool has_active;
    struct logfile active;
    uint32_t uncommitted;
    bool has_failed; /* since the last commit */
    uint64_t dropped;
};

/* --- opening ---------------------------------------------------------------------------------- */

struct applied {
    dead_t *dead;
    uint64_t file;
    uint32_t nonce32;
    uint32_t finals;
};

static void apply_entry(void *arg, const struct ack_entry *entry)
{
    struct applied *self = arg;
    if (ack_is_final(entry->kind) &&
        table_settle(&self->dead->table, self->file, self->nonce32, entry->ordinal))
        self->finals++;
}

static void settle_bad(dead_t *self, const struct inspection *found)
{
    uint32_t nonce32 = segment_nonce32(found->header.nonce);
    for (size_t i = 0; i < found->bad_count; i++)
        for (uint32_t k = 0; k < found->bad[i].lost; k++)
            (void)table_settle(&self->table, found->header.segno, nonce32,
                               found->bad[i].ordinal + k);
    if (found->bad_count > 0)
        log_at(LEVEL_WARN, "dead.damaged", NULL, LOG_NUM("file", found->header.segno),
               LOG_NUM("ranges", found->bad_count));
}

/* A file that a crash left open is walked at each start until it is dropped; the newest alone can
 * be one, and it is small. */
static void load_file(dead_t *self, uint64_t file)
{
    struct inspection found;
    struct vouch vouch = {0};
    struct err err;
    if (inspect_file(&found, self->spool->dead_fd, file, &vouch, NULL, &err) == -1) {
        log_at(LEVEL_WARN, "dead.unreadable", NULL, LOG_TEXT("error", err.text));
    } else if (found.kind == INSPECT_SEALED || found.kind == INSPECT_OPEN) {
        struct segment segment = {
            .header = found.header,
            .end = found.end,
            .records = found.records,
            .log_bytes = found.file_bytes,
            .fd = -1,
            .is_sealed = true,
        };
        table_add(&self->table, &segment);
        struct applied applied = {self, file, segment_nonce32(found.header.nonce), 0};
        (void)ackfile_load(self->spool->dead_fd, &found.header, apply_entry, &applied);
        settle_bad(self, &found);
    } else {
        log_at(LEVEL_WARN, "dead.not_ours", NULL, LOG_NUM("file", file));
    }
    inspect_fini(&found);
}

static void remove_file(dead_t *self, uint64_t file)
{
    static const char *const suffixes[] = {".log", ".ack"};
    for (int i = 0; i < 2; i++) {
        char name[LOGFILE_NAME_SIZE];
        logfile_name(file, suffixes[i], name);
        if (fsio_unlink(self->spool->dead_fd, name) == -1 && errno != ENOENT)
            log_at(LEVEL_WARN, "dead.unlink_failed", NULL, LOG_TEXT("file", name),
                   LOG_TEXT("error", strerror(errno)));
    }
    table_remove(&self->table, file);
}

static void remove_finished(dead_t *self)
{
    uint64_t file;
    while (table_finished(&self->table, &file, 1) == 1)
        remove_file(self, file);
    spool_count_others(self->spool);
}

dead_t *dead_new(spool_t *spool, struct err *err)
{
    int fd = fsio_open_dir(spool->dead_fd, ".");
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        err_set(err, "read %s/dead: %s", spool->path, strerror(errno));
        fsio_close(fd);
        return NULL;
    }
    dead_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->spool = spool;
    self->next = 1;
    self->file_bytes = spool->dead_share_bytes / FILES_IN_SHARE;
    if (self->file_bytes < FILE_BYTES_MIN)
        self->file_bytes = FILE_BYTES_MIN;
    if (self->file_bytes > FILE_BYTES_MAX)
        self->file_bytes = FILE_BYTES_MAX;
    table_init(&self->table, spool->dead_fd);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        uint64_t file;
        bool is_log = logfile_parse_name(entry->d_name, ".log", &file);
        if (!is_log && !logfile_parse_name(entry->d_name, ".ack", &file))
            continue;
        if (is_log)
            load_file(self, file);
        if (file >= self->next)
            self->next = file + 1;
    }
    closedir(dir);
    remove_finished(self);
    return self;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void tell_size(dead_t *self)
{
    uint64_t bytes;
    if (fsio_size(self->active.fd, &bytes, NULL) == 0)
        table_set_log_bytes(&self->table, self->active.header.segno, bytes);
}

static void give_up_active(dead_t *self)
{
    table_seal(&self->table, self->active.header.segno, true);
    logfile_fini(&self->active, true);
    self->has_active = false;
    self->has_failed = true;
}

static int commit_active(dead_t *self, struct err *err)
{
    if (!self->has_active || self->uncommitted == 0)
        return 0;
    uint32_t n = self->uncommitted;
    self->uncommitted = 0;
    if (logfile_commit(&self->active, err) != LOGFILE_OK) {
        give_up_active(self);
        return -1;
    }
    const struct logfile *active = &self->active;
    table_publish(&self->table, active->header.segno, n, active->proven_end, active->proven_batch,
                  active->totals.oldest_ns);
    return 0;
}

/* Ends the active file: sealed if that works, and usable as it is if not. */
static void close_active(dead_t *self)
{
    struct err err = {""};
    if (!self->has_active || commit_active(self, &err) == -1)
        return;
    if (logfile_seal(&self->active, &err) != LOGFILE_OK)
        log_at(LEVEL_WARN, "dead.not_sealed", NULL, LOG_TEXT("error", err.text));
    tell_size(self);
    table_seal(&self->table, self->active.header.segno, self->active.is_failed);
    logfile_fini(&self->active, true);
    self->has_active = false;
}

void dead_destroy(dead_t **self_p)
{
    dead_t *self = *self_p;
    if (self == NULL)
        return;
    close_active(self);
    table_fini(&self->table);
    free(self);
    *self_p = NULL;
}

/* The oldest files go until there is room. */
static void make_room(dead_t *self, uint64_t len)
{
    struct segment_info info;
    for (;;) {
        struct spool_usage usage;
        table_usage(&self->table, &usage);
        if (usage.used_bytes + len <= self->spool->dead_share_bytes ||
            !table_next(&self->table, 0, &info))
            return;
        if (!info.is_sealed) {
            close_active(self);
            continue;
        }
        uint64_t letters = info.records - info.settled;
        self->dropped += letters;
        log_at(LEVEL_WARN, "dead.dropped", NULL, LOG_NUM("file", info.segno),
               LOG_NUM("letters", letters));
        remove_file(self, info.segno);
    }
}

static int make_ready(dead_t *self, uint64_t len, struct err *err)
{
    if (self->has_active && self->active.offset + len > self->file_bytes &&
        self->active.ordinal > 0) {
        close_active(self);
        if (self->has_failed)
            return err_set(err, "the letters before it could not be synced");
    }
    make_room(self, len);
    if (self->has_active)
        return 0;
    struct segment_header header = {
        .segno = self->next, .limit_bytes = self->file_bytes, .is_dead = true};
    enum logfile_result result =
        logfile_create(&self->active, self->spool->dead_fd, &header, 0, err);
    if (result != LOGFILE_NOT_MADE)
        self->next++;
    if (result != LOGFILE_OK)
        return -1;
    self->has_active = true;
    struct segment segment = {.header = self->active.header,
                              .end = self->active.offset,
                              .fd = self->active.fd,
                              .is_pinned = true};
    table_add(&self->table, &segment);
    return 0;
}

static int append_letter(dead_t *self, const struct spool_blob *blob,
                         const struct record_origin *origin, const struct record_note *note,
                         struct err *err)
{
    struct buf encoded;
    buf_init(&encoded, NOTE_MAX);
    int result = -1;
    if (record_note_encode(note, &encoded) == -1) {
        err_set(err, "note too long");
        goto out;
    }
    struct logfile_item item = {
        .type = RECORD_DEAD,
        .origin = origin,
        .note = {encoded.data, encoded.len},
        .meta = blob->meta,
        .body = blob->body,
        .enqueued_ns = note->dead_ns,
    };
    uint64_t len =
        record_disk_len(SEGMENT_ORIGIN_SIZE + encoded.len, blob->meta.len, blob->body.len);
    uint64_t offset;
    result = make_ready(self, len, err);
    if (result == -1)
        goto out;
    if (logfile_append(&self->active, &item, 1, &offset, err) != LOGFILE_OK) {
        give_up_active(self);
        result = -1;
        goto out;
    }
    self->uncommitted++;
    tell_size(self);
out:
    buf_fini(&encoded);
    return result;
}

int dead_add(dead_t *self, const struct record_ref *ref, const struct record_note *note,
             enum read_result *result, struct err *err)
{
    struct spool_blob blob;
    *result = spool_read(self->spool, ref, &blob, err);
    if (*result != READ_OK)
        return -1;
    struct record_origin origin = blob.origin;
    origin.history = ref->history;
    int added = self->has_failed ? err_set(err, "a letter before it failed")
                                 : append_letter(self, &blob, &origin, note, err);
    spool_blob_free(&blob);
    return added;
}

int dead_commit(dead_t *self, struct err *err)
{
    if (self->has_failed)
        err_set(err, "dead letters could not be written");
    int result = commit_active(self, err);
    if (self->has_failed)
        result = -1;
    spool_count_others(self->spool);
    self->has_failed = false;
    self->uncommitted = 0;
    return result;
}

/* --- reading ---------------------------------------------------------------------------------- */

void dead_letter_fini(struct dead_letter *letter)
{
    free(letter->memory);
    *letter = (struct dead_letter){0};
}

/* Reads a letter at its place; without its body the checksum cannot be tried. */
static int read_letter(int fd, uint64_t file, const struct walk_item *item, bool with_body,
                       struct dead_letter *out)
{
    const struct record_header *header = &item->header;
    size_t head = (size_t)header->extra_len + header->meta_len;
    size_t len = head + (with_body ? header->body_len : 0);
    char *memory = malloc(len + 1);
    if (memory == NULL)
        abort();
    bool is_right =
        fsio_pread(fd, memory, len, item->offset + SEGMENT_RECORD_SIZE) == (ssize_t)len &&
        header->extra_len >= SEGMENT_ORIGIN_SIZE &&
        (!with_body || crc32c(0, memory, len) == header->data_crc);
    *out = (struct dead_letter){
        .id = {file, header->ordinal},
        .meta_len = header->meta_len,
        .body_len = header->body_len,
        .meta = {memory + header->extra_len, header->meta_len},
        .memory = memory,
    };
    if (is_right) {
        record_origin_decode(&out->origin, (const uint8_t *)memory);
        struct slice note = {memory + SEGMENT_ORIGIN_SIZE, header->extra_len - SEGMENT_ORIGIN_SIZE};
        is_right = record_note_decode(&out->note, note) == 0;
    }
    if (!is_right) {
        dead_letter_fini(out);
        return -1;
    }
    if (with_body)
        out->body = (struct slice){memory + head, header->body_len};
    return 0;
}

/* Letters of one file with ordinals above `above` (-1: all). */
static int list_file(dead_t *self, uint64_t file, int64_t above, struct dead_letter *out, int max)
{
    struct segment_info info;
    struct segment *segment = table_hold(&self->table, file);
    if (segment == NULL || !table_info(&self->table, file, &info)) {
        table_drop(&self->table, &segment);
        return 0;
    }
    struct walk walk;
    walk_init(&walk, segment->fd, segment_nonce32(segment->header.nonce), SEGMENT_HEADER_SIZE,
              info.end, 0);
    int n = 0;
    for (enum walk_step step; n < max;) {
        struct walk_item item;
        step = walk_next(&walk, &item);
        if (step != WALK_RECORD && step != WALK_GAP)
            break;
        if (step == WALK_GAP || item.header.type != RECORD_DEAD ||
            (int64_t)item.header.ordinal <= above ||
            table_is_settled(&self->table, file, item.header.ordinal))
            continue;
        n += read_letter(segment->fd, file, &item, false, &out[n]) == 0;
    }
    walk_fini(&walk);
    table_drop(&self->table, &segment);
    return n;
}

int dead_list(dead_t *self, const struct dead_id *after, struct dead_letter *out, int max,
              struct err *err)
{
    (void)err;
    int n = 0;
    uint64_t file = after->file == 0 ? 0 : after->file - 1;
    struct segment_info info;
    while (n < max && table_next(&self->table, file, &info)) {
        int64_t above = info.segno == after->file ? (int64_t)after->ordinal : -1;
        n += list_file(self, info.segno, above, out + n, max - n);
        file = info.segno;
    }
    return n;
}

int dead_read(dead_t *self, const struct dead_id *id, struct dead_letter *out, struct err *err)
{
    struct segment_info info;
    struct segment *segment = table_hold(&self->table, id->file);
    int result = err_set(err, "no letter %" PRIu64 ".%" PRIu32, id->file, id->ordinal);
    if (segment == NULL || !table_info(&self->table, id->file, &info) ||
        table_is_settled(&self->table, id->file, id->ordinal)) {
        table_drop(&self->table, &segment);
        return result;
    }
    struct walk walk;
    walk_init(&walk, segment->fd, segment_nonce32(segment->header.nonce), SEGMENT_HEADER_SIZE,
              info.end, 0);
    for (enum walk_step step = WALK_GAP; step == WALK_RECORD || step == WALK_GAP;) {
        struct walk_item item;
        step = walk_next(&walk, &item);
        if (step != WALK_RECORD || item.header.type != RECORD_DEAD ||
            item.header.ordinal != id->ordinal)
            continue;
        result = read_letter(segment->fd, id->file, &item, true, out);
        if (result == -1)
            err_set(err, "letter %" PRIu64 ".%" PRIu32 " is damaged", id->file, id->ordinal);
        break;
    }
    walk_fini(&walk);
    table_drop(&self->table, &segment);
    return result;
}

int dead_remove(dead_t *self, const struct dead_id *id, enum ack_kind kind, struct err *err)
{
    struct segment_header header;
    assert(kind == ACK_DONE || kind == ACK_MOVED);
    if (!table_header(&self->table, id->file, &header) ||
        !table_settle(&self->table, id->file, segment_nonce32(header.nonce), id->ordinal))
        return err_set(err, "no letter %" PRIu64 ".%" PRIu32, id->file, id->ordinal);
    struct ackfile acks;
    ackfile_init(&acks, &header);
    struct ack_entry entry = {.ordinal = id->ordinal, .kind = (uint8_t)kind};
    /* Should this fail, the letter is there again after a restart. */
    if (!ackfile_add(&acks, &entry) || ackfile_write(&acks, self->spool->dead_fd) == -1 ||
        ackfile_sync(&acks) == -1)
        log_at(LEVEL_WARN, "dead.ack_failed", NULL, LOG_NUM("file", id->file),
               LOG_TEXT("error", strerror(errno)));
    ackfile_fini(&acks);
    remove_finished(self);
    return 0;
}

uint64_t dead_count(dead_t *self)
{
    struct spool_usage usage;
    table_usage(&self->table, &usage);
    return usage.waiting;
}

uint64_t dead_dropped(const dead_t *self)
{
    return self->dropped;
}
