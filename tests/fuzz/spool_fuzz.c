// SPDX-License-Identifier: MIT
/* A spool whose first segment and its acks are made by the input: pieces of whatever kind, most
 * with right checksums, so that the fuzzer gets behind them. It opens or refuses; no record that it
 * gives out has other bytes than were put in under a right checksum; a second start agrees with the
 * first. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/acks.h"
#include "broker/spool.h"
#include "common/crc32c.h"
#include "common/log.h"
#include "tests/lib/batch_check.h"

enum { FILE_MAX = 64 * 1024, SEG_NAME_LEN = 64 };

struct input {
    const uint8_t *data;
    size_t len;
};

static uint32_t take(struct input *self, unsigned bytes)
{
    uint32_t value = 0;
    for (; bytes > 0 && self->len > 0; bytes--, self->len--)
        value = value << 8 | *self->data++;
    return value;
}

static const uint8_t nonce[SEGMENT_NONCE_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* One piece at `at`; its length. */
static size_t put_piece(struct input *in, uint8_t *out, size_t room)
{
    uint32_t what = take(in, 1);
    size_t len = take(in, 1) * (what & 0x80 ? 64 : 1);
    what &= 0x7f;
    if (len > room)
        len = room;
    if (what < 16) {
        memset(out, 0, len);
        return len;
    }
    if (what < 32) {
        for (size_t i = 0; i < len; i++)
            out[i] = (uint8_t)take(in, 1);
        return len;
    }
    struct record_header header = {
        .type = what < 96 ? RECORD_DATA : (uint8_t)take(in, 1),
        .flags = what & 1 ? 0 : (uint8_t)take(in, 1),
        .extra_len = what & 2 ? 0 : (uint16_t)take(in, 2),
        .ordinal = what & 4 ? take(in, 4) : take(in, 1),
        .batch = take(in, 1),
        .batch_first = what & 8 ? take(in, 4) : take(in, 1),
        .meta_len = what & 16 ? take(in, 4) : (uint32_t)len / 2,
        .body_len = what & 32 ? (uint32_t)len / 2 : take(in, 4),
        .enqueued_ns = take(in, 2),
        .nonce32 = segment_nonce32(nonce),
    };
    uint64_t content = (uint64_t)header.extra_len + header.meta_len + header.body_len;
    if (room < SEGMENT_RECORD_SIZE)
        return 0;
    size_t here =
        content < room - SEGMENT_RECORD_SIZE ? (size_t)content : room - SEGMENT_RECORD_SIZE;
    for (size_t i = 0; i < here; i++)
        out[SEGMENT_RECORD_SIZE + i] = (uint8_t)(i < 80 ? take(in, 1) : i);
    header.data_crc = crc32c(0, out + SEGMENT_RECORD_SIZE, here) ^ (what == 33);
    record_header_encode(&header, out);
    return (SEGMENT_RECORD_SIZE + here + 7) & ~(size_t)7;
}

static void store(const char *folder, const char *name, const uint8_t *bytes, size_t len)
{
    char path[SEG_NAME_LEN + 64];
    snprintf(path, sizeof path, "%s/seg/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    BATCH_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

static void make_segment(struct input *in, const char *folder)
{
    static uint8_t file[FILE_MAX];
    memset(file, 0, sizeof file);
    struct segment_header header = {.segno = 1, .limit_bytes = FILE_MAX};
    memcpy(header.nonce, nonce, sizeof nonce);
    uint32_t shape = take(in, 1);
    segment_header_encode(&header, file);
    if (shape & 1)
        file[take(in, 1) % SEGMENT_HEADER_SIZE] ^= 1;
    size_t at = SEGMENT_HEADER_SIZE;
    while (in->len > 64 && at + 256 < sizeof file)
        at += put_piece(in, file + at, sizeof file - at);
    store(folder, "00000000000000000001.log", file,
          shape & 2 || at > sizeof file ? sizeof file : at);
    if (shape & 4) {
        header = (struct segment_header){.segno = 2,
                                         .previous_segno = 1,
                                         .previous_end = take(in, 2),
                                         .previous_batch = take(in, 1),
                                         .previous_records = take(in, shape & 8 ? 4 : 1)};
        segment_header_encode(&header, file);
        store(folder, "00000000000000000002.log", file, 4096);
    }
    header = (struct segment_header){.segno = 1};
    memcpy(header.nonce, nonce, sizeof nonce);
    ack_header_encode(&header, file);
    size_t len = SEGMENT_ACK_HEADER_SIZE;
    for (; in->len > 0; len += SEGMENT_ACK_SIZE) {
        struct ack_entry entry = {.ordinal = take(in, shape & 16 ? 4 : 1),
                                  .kind = (uint8_t)take(in, 1),
                                  .rounds = (uint8_t)take(in, 1),
                                  .value = take(in, 1)};
        ack_encode(&entry, nonce, file + len);
    }
    store(folder, "00000000000000000001.ack", file, len);
}

/* Delivers all that waits; how much that was. */
static unsigned deliver(spool_t *spool)
{
    unsigned n = 0;
    struct segment_info info;
    struct err err;
    acks_t *acks = acks_new(spool);
    for (uint64_t segno = 0; spool_next(spool, segno, &info); segno = info.segno) {
        struct spool_cursor cursor = {.segno = info.segno};
        struct record_ref refs[5];
        int found;
        while ((found = spool_scan(spool, &cursor, refs, 5, &err)) > 0) {
            for (int i = 0; i < found; i++) {
                struct spool_blob blob;
                BATCH_CHECK(refs[i].id.ordinal < info.records);
                if (refs[i].lost == 0 && spool_read(spool, &refs[i], &blob, &err) == READ_OK) {
                    spool_blob_free(&blob);
                    n++;
                } else {
                    acks_lose(acks, &refs[i], 0);
                }
            }
        }
    }
    acks_destroy(&acks);
    return n;
}

static void clean(const char *folder)
{
    static const char *const parts[] = {"seg", "quarantine", "."};
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        DIR *dir = opendir(path);
        for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        if (dir != NULL)
            closedir(dir);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[64], path[80];
    struct input in = {data, size < 2000 ? size : 2000};
    snprintf(folder, sizeof folder, "/dev/shm/mcpd-fuzz-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/seg", folder);
    (void)mkdir(folder, 0700);
    (void)mkdir(path, 0700);
    log_open(LEVEL_ERROR + 1, false);
    make_segment(&in, folder);
    struct spool_config config = {.path = folder,
                                  .max_bytes = 64 << 20,
                                  .max_body_bytes = 1 << 20,
                                  .segment_bytes = FILE_MAX};
    struct spool_report report;
    struct err err = {""};
    spool_t *spool = spool_open(&config, &report, &err);
    BATCH_CHECK(spool != NULL || err.text[0] != '\0');
    if (spool != NULL) {
        unsigned first = deliver(spool);
        spool_close(&spool);
        spool = spool_open(&config, &report, &err);
        BATCH_CHECK(spool != NULL && report.corrupt_records == 0 && deliver(spool) == first);
        spool_close(&spool);
    }
    clean(folder);
    return 0;
}
