// SPDX-License-Identifier: MIT
/*
 * Both libraries are fed the whole body and drained in pieces, so that the output grows only as it
 * comes: what a header says of its size is never believed. At the limit one byte more is asked for;
 * only if it comes is the body too large.
 */
#include "proto/inflate.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define PIECE ((size_t)64 * 1024)

/* Where the next bytes go: into the buffer, or at its limit into `over`. */
struct drain {
    struct buf *out;
    char *at;
    size_t len;
    char over;
};

static void drain_open(struct drain *self)
{
    size_t room = self->out->max - self->out->len;
    self->len = room < PIECE ? room : PIECE;
    self->at = self->len > 0 ? buf_reserve(self->out, self->len) : NULL;
    if (!self->at) {
        self->at = &self->over;
        self->len = 1;
    }
}

/* -1 when the bytes written are beyond the limit. */
static int drain_close(struct drain *self, size_t written)
{
    if (self->at == &self->over)
        return written == 0 ? 0 : -1;
    self->out->len += written;
    return 0;
}

static enum batch_result damaged(struct err *err, const char *encoding)
{
    err_set(err, "the %s body is cut short, damaged or followed by other bytes", encoding);
    return BATCH_BAD_ENCODING;
}

static enum batch_result too_large(const struct buf *out, struct err *err)
{
    err_set(err, "the body is larger than %zu bytes when decompressed", out->max);
    return BATCH_TOO_LARGE;
}

/* One zlib stream or gzip member, from stream->next_in on. */
static enum batch_result inflate_member(z_stream *stream, struct buf *out, const char *encoding,
                                        struct err *err)
{
    int rc = Z_OK;
    while (rc != Z_STREAM_END) {
        struct drain drain = {.out = out};
        drain_open(&drain);
        stream->next_out = (Bytef *)drain.at;
        stream->avail_out = (uInt)drain.len;
        rc = inflate(stream, Z_NO_FLUSH);
        if (rc != Z_OK && rc != Z_STREAM_END)
            return damaged(err, encoding); /* Z_BUF_ERROR too: all input was there from the start */
        if (drain_close(&drain, drain.len - stream->avail_out) == -1)
            return too_large(out, err);
    }
    return BATCH_OK;
}

static enum batch_result inflate_zlib(int window_bits, const char *encoding, struct slice body,
                                      struct buf *out, struct err *err)
{
    z_stream stream = {0};
    if (body.len > UINT_MAX || inflateInit2(&stream, window_bits) != Z_OK)
        return damaged(err, encoding);
    stream.next_in = (Bytef *)(uintptr_t)body.data;
    stream.avail_in = (uInt)body.len;
    enum batch_result result;
    do {
        result = inflate_member(&stream, out, encoding, err);
        if (result == BATCH_OK && inflateReset(&stream) != Z_OK)
            result = damaged(err, encoding);
    } while (result == BATCH_OK && stream.avail_in > 0);
    inflateEnd(&stream);
    return result;
}

static enum batch_result inflate_gzip(struct slice body, struct buf *out, struct err *err)
{
    return inflate_zlib(MAX_WBITS + 16, "gzip", body, out, err);
}

static enum batch_result inflate_deflate(struct slice body, struct buf *out, struct err *err)
{
    return inflate_zlib(MAX_WBITS, "deflate", body, out, err);
}

static enum batch_result inflate_zstd(struct slice body, struct buf *out, struct err *err)
{
    enum { WINDOW_LOG_MAX = 23 }; /* 8 MiB, what HTTP's zstd allows */
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_inBuffer in = {body.data, body.len, 0};
    enum batch_result result = BATCH_OK;
    size_t rc = 1; /* 0: at the end of a frame */
    if (!stream ||
        ZSTD_isError(ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        result = damaged(err, "zstd");
    while (result == BATCH_OK && (rc != 0 || in.pos < in.size)) {
        struct drain drain = {.out = out};
        drain_open(&drain);
        ZSTD_outBuffer piece = {drain.at, drain.len, 0};
        size_t before = in.pos;
        rc = ZSTD_decompressStream(stream, &piece, &in);
        bool is_stuck = in.pos == before && piece.pos == 0;
        if (ZSTD_isError(rc) || (rc != 0 && is_stuck))
            result = damaged(err, "zstd");
        else if (drain_close(&drain, piece.pos) == -1)
            result = too_large(out, err);
    }
    ZSTD_freeDStream(stream);
    return result;
}

static const struct {
    const char *name;
    enum batch_result (*inflate)(struct slice body, struct buf *out, struct err *err);
} encodings[] = {
    {"gzip", inflate_gzip},
    {"x-gzip", inflate_gzip},
    {"deflate", inflate_deflate},
    {"zstd", inflate_zstd},
};

enum batch_result inflate_body(struct slice encoding, struct slice body, struct buf *out,
                               struct slice *plain, struct err *err)
{
    encoding = slice_trim(encoding);
    if (encoding.len == 0 || slice_equals_nocase(encoding, "identity")) {
        *plain = body;
        return BATCH_OK;
    }
    for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++) {
        if (!slice_equals_nocase(encoding, encodings[i].name))
            continue;
        size_t start = out->len;
        enum batch_result result = encodings[i].inflate(body, out, err);
        *plain = (struct slice){out->data ? out->data + start : "", out->len - start};
        return result;
    }
    err_set(err, "a content encoding other than identity, gzip, deflate or zstd");
    return BATCH_UNKNOWN_ENCODING;
}
