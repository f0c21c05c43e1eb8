// SPDX-License-Identifier: MIT
/*
 * A body is whole only when every byte of its Content-Length came, or when the chunk reader
 * reported the last chunk and no fault before. The library's read returns what it has on a timeout
 * and 0 or -1 when nothing more came, for whatever reason, so neither is ever taken for the end.
 *
 * Memory follows the bytes that came, not the length that was announced: a sender who announces
 * much and sends nothing holds next to nothing of --max-inflight-bytes.
 */
#include "common/httpd_impl.h"

#include <assert.h>
#include <string.h>

#include "common/clock.h"
#include "common/httpd_pace.h"

#define FIRST_STEP        ((size_t)64 * 1024)
#define MAX_STEP          ((size_t)1024 * 1024)
#define DISCARD_MAX_BYTES ((size_t)256 * 1024)
#define DISCARD_MAX_MS    500
#define DISCARD_STEP      ((size_t)16 * 1024)

static bool hold(struct worker *worker, uint64_t bytes)
{
    httpd_t *door = worker->door;
    uint64_t before = atomic_fetch_add(&door->inflight_bytes, bytes);
    worker->held_bytes += bytes;
    return before + bytes <= door->max_inflight_bytes;
}

void body_release(struct worker *worker)
{
    if (worker->held_bytes > 0)
        atomic_fetch_sub(&worker->door->inflight_bytes, worker->held_bytes);
    worker->held_bytes = 0;
}

static void watch_begin(struct watch_slot *slot, uint64_t now_ms, uint64_t due_ms,
                        bool is_resumable)
{
    atomic_store_explicit(&slot->since_ms, now_ms, memory_order_relaxed);
    atomic_store_explicit(&slot->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->is_resumable, is_resumable, memory_order_relaxed);
    atomic_store_explicit(&slot->due_ms, due_ms, memory_order_release);
}

static void watch_end(struct watch_slot *slot)
{
    atomic_store_explicit(&slot->due_ms, 0, memory_order_release);
}

/* Reads up to `step` bytes behind what is in the buffer; returns what mg_read did. */
static int read_step(struct exchange *self, struct buf *body, size_t step)
{
    char *to = buf_reserve(body, step);
    assert(to);
    atomic_store_explicit(&self->worker->slot->was_woken, false, memory_order_relaxed);
    int got = mg_read(self->conn, to, step);
    if (got > 0)
        body->len += (size_t)got;
    atomic_store_explicit(&self->worker->slot->bytes, body->len, memory_order_relaxed);
    return got;
}

static bool is_late(const struct exchange *self, const struct buf *body)
{
    uint64_t now_ms = clock_mono_ms();
    return now_ms >= self->deadline_ms || pace_is_too_slow(now_ms - self->start_ms, body->len);
}

static enum refusal read_with_length(struct exchange *self, struct buf *body)
{
    struct watch_slot *slot = self->worker->slot;
    size_t length = (size_t)self->headers.content_length;
    while (body->len < length) {
        size_t step = body->len < FIRST_STEP ? FIRST_STEP : body->len;
        step = step > MAX_STEP ? MAX_STEP : step;
        step = step > length - body->len ? length - body->len : step;
        if (self->worker->held_bytes < body->len + step && !hold(self->worker, step))
            return REFUSAL_INFLIGHT;
        int got = read_step(self, body, step);
        if (got == (int)step)
            continue;
        if (is_late(self, body))
            return REFUSAL_BODY_LATE;
        if (got <= 0 && !atomic_load(&slot->was_woken))
            return REFUSAL_BODY_SHORT;
    }
    return REFUSAL_NONE;
}

static enum refusal read_chunked(struct exchange *self, struct buf *body)
{
    for (;;) {
        if (body->len > self->door->max_body_bytes)
            return REFUSAL_TOO_LARGE;
        size_t room = body->max - body->len;
        size_t step = room < PACE_CHUNKED_STEP ? room : PACE_CHUNKED_STEP;
        if (self->worker->held_bytes < body->len + step && !hold(self->worker, FIRST_STEP))
            return REFUSAL_INFLIGHT;
        int got = read_step(self, body, step);
        if (got == 0)
            return REFUSAL_NONE;
        if (got < 0) /* here the watcher wakes only whom it wants to end */
            return atomic_load(&self->worker->slot->was_woken) ? REFUSAL_BODY_LATE
                                                               : REFUSAL_BODY_SHORT;
        if (is_late(self, body))
            return REFUSAL_BODY_LATE;
    }
}

enum refusal body_read(struct exchange *self)
{
    struct buf *body = &self->worker->body;
    buf_init(body, (size_t)self->door->max_body_bytes + PACE_CHUNKED_STEP);
    bool is_chunked = self->headers.is_chunked;
    if (!is_chunked && self->headers.content_length == 0)
        return REFUSAL_NONE;
    watch_begin(self->worker->slot, self->start_ms, self->deadline_ms, !is_chunked);
    enum refusal refusal = is_chunked ? read_chunked(self, body) : read_with_length(self, body);
    watch_end(self->worker->slot);
    return refusal;
}

void body_discard(struct exchange *self)
{
    bool has_body = self->headers.is_chunked || self->headers.content_length > 0;
    if (!has_body || self->headers.wants_continue) /* it waits for our word before it sends */
        return;
    struct buf rest;
    buf_init(&rest, DISCARD_STEP);
    uint64_t now_ms = clock_mono_ms();
    uint64_t due_ms = now_ms + DISCARD_MAX_MS;
    watch_begin(self->worker->slot, now_ms, due_ms, true);
    size_t total = 0;
    int got;
    do {
        buf_reset(&rest);
        got = read_step(self, &rest, DISCARD_STEP);
        total += got > 0 ? (size_t)got : 0;
    } while (got > 0 && total < DISCARD_MAX_BYTES && clock_mono_ms() < due_ms);
    watch_end(self->worker->slot);
    buf_fini(&rest);
}
