// SPDX-License-Identifier: MIT
/*
 * Everything is read anew and nothing is believed: also sealed files are walked whole by verify.
 * The judgement of open files is recovery's own, so that verify says before a start what the start
 * will find.
 */
#include "broker/spool_tool.h"

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
#include "broker/walk.h"
#include "common/clock.h"
#include "common/fsio.h"
#include "proto/request.h"

const char *const spool_tool_help =
    "  spool ls          the segments of a spool that no process uses, and what waits in them\n"
    "  spool ls N        the requests of segment N\n"
    "  spool cat N.K     the body of request K of segment N\n"
    "  spool verify      read every request and check it; status 1 if any is damaged\n";

struct look {
    const char *path;
    FILE *out;
    int seg_fd;
    uint64_t *segnos;
    size_t count;
};

/* What is settled in one segment, a byte an ordinal. */
struct settled {
    uint8_t *kinds;
    uint32_t records;
    uint32_t count;
};

static const char *const kind_names[] = {
    [0] = "waiting",   [ACK_DONE] = "done", [ACK_DEAD] = "dead", [ACK_MOVED] = "moved",
    [ACK_EXPIRY] = "", [ACK_SUSPECT] = "",  [ACK_LOST] = "lost"};

/* --- opening ---------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static int list_segments(struct look *self, int root_fd, struct err *err)
{
    int fd = fsio_open_dir(root_fd, "seg");
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fsio_close(fd);
        return err_set(err, "%s/seg: %s", self->path, strerror(errno));
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        uint64_t segno;
        if (!logfile_parse_name(entry->d_name, ".log", &segno))
            continue;
        if ((self->count & (self->count - 1)) == 0) {
            size_t capacity = self->count == 0 ? 1 : self->count * 2;
            self->segnos = realloc(self->segnos, capacity * sizeof *self->segnos);
            if (self->segnos == NULL)
                abort();
        }
        self->segnos[self->count++] = segno;
    }
    closedir(dir);
    if (self->count > 0)
        qsort(self->segnos, self->count, sizeof *self->segnos, by_value);
    return 0;
}

static int take_lock(const struct look *self, int lock_fd, struct err *err)
{
    if (lock_fd == -1)
        return err_set(err, "%s/LOCK: %s", self->path, strerror(errno));
    if (fsio_lock(lock_fd) == 0)
        return 0;
    return err_set(err, "%s is in use by another process%s", self->path,
                   errno == EWOULDBLOCK ? "" : strerror(errno));
}

/* --- one segment ------------------------------------------------------------------------------ */

static int inspect(const struct look *self, size_t i, struct inspection *out, struct err *err)
{
    struct segment_header next;
    struct vouch vouch = {0};
    assert(i < self->count && self->segnos != NULL);
    if (i + 1 < self->count &&
        inspect_header(self->seg_fd, self->segnos[i + 1], &next) == SEGMENT_VALID &&
        next.previous_segno == self->segnos[i])
        vouch = (struct vouch){.end = next.previous_end, .records = next.previous_records};
    return inspect_file(out, self->seg_fd, self->segnos[i], &vouch, NULL, err);
}

static bool has_records(const struct inspection *found)
{
    return found->kind == INSPECT_SEALED || found->kind == INSPECT_OPEN;
}

static void settle(void *arg, const struct ack_entry *entry)
{
    struct settled *self = arg;
    if (!ack_is_final(entry->kind) || entry->ordinal >= self->records ||
        self->kinds[entry->ordinal] != 0)
        return;
    self->kinds[entry->ordinal] = entry->kind;
    self->count++;
}

static void load_settled(const struct look *self, const struct inspection *found,
                         struct settled *out)
{
    *out = (struct settled){.records = found->records};
    out->kinds = calloc((size_t)found->records + 1, 1);
    if (out->kinds == NULL)
        abort();
    (void)ackfile_load(self->seg_fd, &found->header, settle, out);
}

/* Calls visit for each DATA record up to the end that inspect found; 0, or -1 when the file cannot
 * be read. */
typedef void on_record(void *arg, struct walk *walk, const struct walk_item *item, bool is_gap);

static int each_record(const struct look *self, const struct inspection *found, on_record *visit,
                       void *arg, struct err *err)
{
    char name[LOGFILE_NAME_SIZE];
    logfile_name(found->header.segno, ".log", name);
    int fd = fsio_open(self->seg_fd, name, O_RDONLY);
    if (fd == -1)
        return err_set(err, "%s: %s", name, strerror(errno));
    struct walk walk;
    walk_init(&walk, fd, segment_nonce32(found->header.nonce), SEGMENT_HEADER_SIZE, found->end, 0);
    enum walk_step step;
    struct walk_item item;
    while ((step = walk_next(&walk, &item)) == WALK_RECORD || step == WALK_GAP) {
        if (step == WALK_GAP || item.header.type == RECORD_DATA)
            visit(arg, &walk, &item, step == WALK_GAP);
    }
    walk_fini(&walk);
    fsio_close(fd);
    return step == WALK_ERROR ? err_set(err, "%s: %s", name, strerror(errno)) : 0;
}

/* --- ls --------------------------------------------------------------------------------------- */

struct listing {
    const struct look *look;
    const struct settled *settled;
};

static void list_record(void *arg, struct walk *walk, const struct walk_item *item, bool is_gap)
{
    const struct listing *self = arg;
    const struct record_header *header = &item->header;
    FILE *out = self->look->out;
    if (is_gap)
        return;
    char *bytes = malloc((size_t)header->meta_len + 1);
    if (bytes == NULL)
        abort();
    struct request request = {0};
    struct err err;
    uint64_t at = item->offset + SEGMENT_RECORD_SIZE + header->extra_len;
    struct slice meta = {bytes, header->meta_len};
    if (fsio_pread(walk->fd, bytes, header->meta_len, at) != (ssize_t)header->meta_len ||
        request_decode(&request, meta, &err) == -1)
        request = (struct request){.target = slice_of("?"), .idempotency_key = slice_of("?")};
    char when[CLOCK_TEXT_SIZE];
    clock_text(header->enqueued_ns, when);
    uint8_t kind =
        header->ordinal < self->settled->records ? self->settled->kinds[header->ordinal] : 0;
    fprintf(out, "%10" PRIu32 "  %-7s  %s  %10" PRIu32 "  " SLICE_FORMAT "  " SLICE_FORMAT "\n",
            header->ordinal, kind_names[kind], when, header->body_len,
            SLICE_ARGS(request.idempotency_key), SLICE_ARGS(request.target));
    free(bytes);
}

static int list_one(const struct look *self, size_t i, struct err *err)
{
    struct inspection found;
    struct settled settled;
    int result = inspect(self, i, &found, err);
    if (result == 0 && has_records(&found)) {
        load_settled(self, &found, &settled);
        struct listing listing = {self, &settled};
        fprintf(self->out, "%10s  %-7s  %-24s  %10s  key  target\n", "request", "state", "arrival",
                "body bytes");
        result = each_record(self, &found, list_record, &listing, err);
        free(settled.kinds);
    }
    inspect_fini(&found);
    return result;
}

static int list_all(const struct look *self, struct err *err)
{
    static const char *const kinds[] = {[INSPECT_SEALED] = "sealed",
                                        [INSPECT_OPEN] = "open",
                                        [INSPECT_UNUSED] = "unused",
                                        [INSPECT_RUBBISH] = "rubbish",
                                        [INSPECT_UNKNOWN] = "unknown"};
    int result = 0;
    fprintf(self->out, "%10s  %-7s  %10s  %10s  %12s\n", "segment", "state", "requests", "waiting",
            "bytes");
    for (size_t i = 0; i < self->count && result == 0; i++) {
        struct inspection found;
        struct settled settled = {0};
        result = inspect(self, i, &found, err);
        if (result == 0 && has_records(&found))
            load_settled(self, &found, &settled);
        if (result == 0)
            fprintf(self->out, "%10" PRIu64 "  %-7s  %10" PRIu32 "  %10" PRIu32 "  %12" PRIu64 "\n",
                    self->segnos[i], kinds[found.kind], found.records,
                    found.records - settled.count, found.file_bytes);
        free(settled.kinds);
        inspect_fini(&found);
    }
    return result;
}

/* --- cat -------------------------------------------------------------------------------------- */

struct wanted {
    const struct look *look;
    uint32_t ordinal;
    int result; /* 0: not met; 1: printed; -1: damaged */
};

static void print_record(void *arg, struct walk *walk, const struct walk_item *item, bool is_gap)
{
    struct wanted *self = arg;
    const struct record_header *header = &item->header;
    if (is_gap || header->ordinal != self->ordinal)
        return;
    char *body = malloc((size_t)header->body_len + 1);
    if (body == NULL)
        abort();
    uint64_t at = item->offset + SEGMENT_RECORD_SIZE + header->extra_len + header->meta_len;
    bool is_right = walk_check(walk, item) == 1 &&
                    fsio_pread(walk->fd, body, header->body_len, at) == (ssize_t)header->body_len &&
                    fwrite(body, 1, header->body_len, self->look->out) == header->body_len;
    self->result = is_right ? 1 : -1;
    free(body);
}

static int find_segment(const struct look *self, uint64_t segno, size_t *i, struct err *err)
{
    for (*i = 0; *i < self->count; ++*i)
        if (self->segnos[*i] == segno)
            return 0;
    return err_set(err, "no segment %" PRIu64 " in %s", segno, self->path);
}

static int cat(const struct look *self, const char *id, struct err *err)
{
    char *end;
    uint64_t segno = strtoull(id, &end, 10);
    struct wanted wanted = {.look = self};
    size_t i;
    if (*end != '.' || end == id || end[1] < '0' || end[1] > '9')
        return err_set(err, "'%.40s' is not SEGMENT.REQUEST, as 12.345", id);
    wanted.ordinal = (uint32_t)strtoul(end + 1, NULL, 10);
    if (find_segment(self, segno, &i, err) == -1)
        return -1;
    struct inspection found;
    int result = inspect(self, i, &found, err);
    if (result == 0 && has_records(&found))
        result = each_record(self, &found, print_record, &wanted, err);
    inspect_fini(&found);
    if (result == 0 && wanted.result != 1)
        result = err_set(err, "request %.40s %s", id,
                         wanted.result == 0 ? "is not there" : "is damaged");
    return result;
}

/* --- verify ----------------------------------------------------------------------------------- */

struct verification {
    const struct look *look;
    uint64_t segno;
    uint64_t checked;
    uint64_t bad;
};

static void check_record(void *arg, struct walk *walk, const struct walk_item *item, bool is_gap)
{
    struct verification *self = arg;
    if (!is_gap && walk_check(walk, item) == 1) {
        self->checked++;
        return;
    }
    self->bad++;
    fprintf(self->look->out, "segment %" PRIu64 ": damaged at %" PRIu64 ", %" PRIu64 " bytes\n",
            self->segno, item->offset, item->len);
}

static void tell_bad_ranges(struct verification *self, const struct inspection *found)
{
    for (size_t i = 0; i < found->bad_count; i++) {
        const struct bad_range *bad = &found->bad[i];
        self->bad += bad->is_corrupt;
        fprintf(self->look->out,
                "segment %" PRIu64 ": %s at %" PRIu64 ", %" PRIu64 " bytes, %" PRIu32 " requests\n",
                self->segno, bad->is_corrupt ? "damaged" : "torn, never acknowledged,", bad->offset,
                bad->len, bad->lost);
    }
    self->checked += found->tally.totals.records;
}

static int verify_one(struct verification *self, size_t i, struct err *err)
{
    struct inspection found;
    self->segno = self->look->segnos[i];
    int result = inspect(self->look, i, &found, err);
    if (result == 0 && found.is_header_damaged) {
        self->bad++;
        fprintf(self->look->out, "segment %" PRIu64 ": its header is damaged\n", self->segno);
    }
    if (result == 0 && found.kind == INSPECT_SEALED)
        result = each_record(self->look, &found, check_record, self, err);
    else if (result == 0 && found.kind == INSPECT_OPEN)
        tell_bad_ranges(self, &found);
    else if (result == 0 && found.kind != INSPECT_UNUSED)
        result =
            err_set(err, "segment %" PRIu64 " is not of a format this version knows", self->segno);
    inspect_fini(&found);
    return result;
}

static int verify(const struct look *self, struct err *err)
{
    struct verification verification = {.look = self};
    for (size_t i = 0; i < self->count; i++)
        if (verify_one(&verification, i, err) == -1)
            return -1;
    fprintf(self->out, "%" PRIu64 " requests in %zu segments, %" PRIu64 " damaged places\n",
            verification.checked, self->count, verification.bad);
    return verification.bad > 0 ? 1 : 0;
}

/* --- the words -------------------------------------------------------------------------------- */

static int run(const struct look *self, char **words, int count, struct err *err)
{
    if (count == 1 && strcmp(words[0], "ls") == 0)
        return list_all(self, err);
    if (count == 1 && strcmp(words[0], "verify") == 0)
        return verify(self, err);
    if (count == 2 && strcmp(words[0], "cat") == 0)
        return cat(self, words[1], err);
    if (count != 2 || strcmp(words[0], "ls") != 0)
        return err_set(err, "spool: say ls, ls SEGMENT, cat SEGMENT.REQUEST or verify");
    size_t i;
    if (find_segment(self, strtoull(words[1], NULL, 10), &i, err) == -1)
        return -1;
    return list_one(self, i, err);
}

int spool_tool_run(const char *path, char **words, int count, FILE *out, struct err *err)
{
    struct look self = {.path = path, .out = out, .seg_fd = -1};
    int lock_fd = -1, result = -1;
    int root_fd = fsio_open_dir(AT_FDCWD, path);
    if (root_fd == -1) {
        err_set(err, "%s: %s", path, strerror(errno));
        goto out;
    }
    lock_fd = fsio_open(root_fd, "LOCK", O_RDWR);
    if (take_lock(&self, lock_fd, err) == -1 || list_segments(&self, root_fd, err) == -1)
        goto out;
    self.seg_fd = fsio_open_dir(root_fd, "seg");
    if (self.seg_fd == -1)
        err_set(err, "%s/seg: %s", path, strerror(errno));
    else
        result = run(&self, words, count, err);
out:
    fsio_close(self.seg_fd);
    fsio_close(lock_fd);
    fsio_close(root_fd);
    free(self.segnos);
    return result;
}
