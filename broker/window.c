// SPDX-License-Identifier: MIT
#include "broker/window.h"

#include "common/log.h"

#define CHUNK      256 /* records a step */
#define BLOCKED_MS 1000

/* READY ones below which it is worth to scan, and above which records are left to a later scan: so
 * half of the window stays free for leased and deferred ones. */
#define LOW_WATER  (LEDGER_CAPACITY / 4)
#define HIGH_WATER (LEDGER_CAPACITY / 2)

void window_init(struct window *self, spool_t *spool, ledger_t *ledger, window_lost *on_lost,
                 void *arg)
{
    *self = (struct window){
        .spool = spool, .ledger = ledger, .on_lost = on_lost, .arg = arg, .is_behind = true};
}

static bool is_before(const struct record_ref *ref, const struct spool_cursor *cursor)
{
    return ref->id.segno < cursor->segno ||
           (ref->id.segno == cursor->segno && ref->offset < cursor->offset);
}

static struct spool_cursor behind(const struct record_ref *ref)
{
    return (struct spool_cursor){
        .segno = ref->id.segno,
        .offset = ref->offset + record_disk_len(ref->extra_len, ref->meta_len, ref->body_len),
        .ordinal = ref->id.ordinal + 1,
    };
}

void window_offer(struct window *self, const struct record_ref *refs, uint32_t count)
{
    for (uint32_t i = 0; i < count && !self->is_behind; i++) {
        if (is_before(&refs[i], &self->head))
            continue;
        if (ledger_room(self->ledger) == 0 ||
            ledger_count(self->ledger, ENTRY_READY) >= HIGH_WATER) {
            self->is_behind = true;
            return;
        }
        (void)ledger_add(self->ledger, &refs[i], false);
        self->head = behind(&refs[i]);
    }
}

static uint32_t chunk_size(const struct window *self)
{
    uint32_t room = ledger_room(self->ledger);
    return room < CHUNK ? room : CHUNK;
}

static int scan(struct window *self, struct spool_cursor *cursor, struct record_ref *refs,
                uint64_t now_ms)
{
    struct err err;
    int n = spool_scan(self->spool, cursor, refs, (int)chunk_size(self), &err);
    if (n == -1) {
        log_at(LEVEL_WARN, "spool.scan", NULL, LOG_NUM("segment", cursor->segno),
               LOG_TEXT("reason", err.text));
        self->blocked_until_ms = now_ms + BLOCKED_MS;
    }
    return n;
}

static void add(struct window *self, const struct record_ref *ref, bool is_rescan)
{
    if (ref->lost > 0)
        self->on_lost(self->arg, ref);
    else
        (void)ledger_add(self->ledger, ref, is_rescan);
}

/* A later segment is looked up before the scan: once there is one, this one gets no more records,
 * so an empty scan after that means that it is finished. */
static bool fill_head(struct window *self, uint64_t now_ms)
{
    struct record_ref refs[CHUNK];
    struct segment_info next;
    bool has_next = spool_next(self->spool, self->head.segno, &next);
    int n = self->head.segno > 0 ? scan(self, &self->head, refs, now_ms) : 0;
    for (int i = 0; i < n; i++)
        add(self, &refs[i], false);
    if (n == 0 && has_next)
        self->head = (struct spool_cursor){.segno = next.segno};
    else if (n == 0)
        self->is_behind = false;
    return n != -1 && self->is_behind;
}

static bool fill_rescan(struct window *self, uint64_t now_ms)
{
    struct record_ref refs[CHUNK];
    int n = scan(self, &self->rescan, refs, now_ms);
    for (int i = 0; i < n; i++) {
        if (is_before(&refs[i], &self->head))
            add(self, &refs[i], true);
        else
            n = 0; /* the head will come to the rest */
    }
    if (n == 0)
        self->is_rescanning = false;
    return n > 0;
}

bool window_fill(struct window *self, uint64_t now_ms)
{
    uint64_t segno;
    bool has_more = false;
    if (now_ms < self->blocked_until_ms || chunk_size(self) == 0)
        return false;
    if (!self->is_rescanning && ledger_parked(self->ledger, now_ms, &segno)) {
        self->rescan = (struct spool_cursor){.segno = segno};
        self->is_rescanning = true;
    }
    if (self->is_rescanning && ledger_count(self->ledger, ENTRY_AGAIN) < LOW_WATER)
        has_more = fill_rescan(self, now_ms);
    if (self->is_behind && ledger_count(self->ledger, ENTRY_READY) < LOW_WATER &&
        chunk_size(self) > 0)
        has_more = fill_head(self, now_ms) || has_more;
    return has_more;
}

uint64_t window_wait_ms(const struct window *self, uint64_t now_ms)
{
    if (now_ms < self->blocked_until_ms)
        return self->blocked_until_ms - now_ms;
    if (self->is_rescanning || chunk_size(self) == 0)
        return UINT64_MAX;
    return ledger_parked_wait_ms(self->ledger, now_ms);
}
