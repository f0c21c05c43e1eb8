// SPDX-License-Identifier: MIT
#include "broker/status.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

#define STATUS_MS      1000
#define CLOSED_LOOK_MS 100 /* between looks while gateways hold requests back */

static void add_note(char *note, size_t size, uint64_t count, const char *what)
{
    size_t len = strlen(note);
    if (count > 0)
        snprintf(note + len, size - len, "%s%llu %s%s", len > 0 ? "; " : "",
                 (unsigned long long)count, what, count == 1 ? "" : "s");
}

static const char *intake_word(const struct spool_usage *usage,
                               const struct appender_health *health)
{
    if (health->is_refusing)
        return "write error";
    if (usage->is_low_disk)
        return "low disk";
    return usage->is_full ? "full" : "ok";
}

static bool is_news(const struct status *self, const struct wire_STATUS *now)
{
    const struct wire_STATUS *told = &self->told;
    return now->intake.data != told->intake.data || now->upstreams_up != told->upstreams_up ||
           now->upstreams_total != told->upstreams_total || !slice_equals(now->note, self->note);
}

bool status_is_due(struct status *self, struct broker_core *core, const appender_t *appender,
                   const struct post_board *board, uint64_t now_ms, struct wire_STATUS *out)
{
    struct spool_usage usage;
    struct appender_health health;
    char note[sizeof self->note];
    spool_usage(core->spool, &usage);
    appender_health(appender, now_ms, &health);
    const char *word = intake_word(&usage, &health);
    snprintf(note, sizeof note, "%s", board->note);
    add_note(note, sizeof note, atomic_load(&core->corrupt_records), "corrupt record");
    add_note(note, sizeof note, core->report.missing_segments, "missing segment");
    add_note(note, sizeof note, health.write_errors, "write error");
    *out = (struct wire_STATUS){
        .used = usage.used_bytes,
        .max = usage.max_bytes,
        .intake = slice_of(word),
        .upstreams_up = board->upstreams_up,
        .upstreams_total = board->has_courier ? board->upstreams_total : 0,
        .oldest_s = board->oldest_s,
        .note = slice_of(note),
    };
    if (now_ms < self->due_at_ms && !is_news(self, out))
        return false;
    const char *before = atomic_exchange(&core->intake_word, word);
    if (strcmp(before, word) != 0)
        log_at(LEVEL_WARN, "spool.state", NULL, LOG_TEXT("intake", word),
               LOG_TEXT("before", before), LOG_NUM("used_bytes", usage.used_bytes));
    memcpy(self->note, note, sizeof note);
    out->note.data = self->note;
    self->told = *out;
    self->due_at_ms = now_ms + STATUS_MS;
    return true;
}

uint64_t status_wait_ms(const struct status *self, uint64_t now_ms)
{
    uint64_t wait_ms = clock_until_ms(self->due_at_ms, now_ms);
    bool is_closed = self->told.intake.len > 0 && !slice_equals(self->told.intake, "ok");
    /* While it is, no request comes that would wake intake when there is room again. */
    return is_closed && wait_ms > CLOSED_LOOK_MS ? CLOSED_LOOK_MS : wait_ms;
}

void status_hurry(struct status *self)
{
    self->due_at_ms = 0;
}
