// SPDX-License-Identifier: MIT
#include "broker/board.h"

#include <string.h>

#include "common/clock.h"
#include "common/metrics.h"

/* The ledger knows it exactly for its window; what was dropped from there, or never had room, the
 * spool knows to the accuracy of a segment. */
static uint32_t oldest_s(const ledger_t *ledger, const struct spool_usage *usage)
{
    uint64_t arrival_ns = ledger_oldest_ns(ledger), now_ns = clock_wall_ns();
    bool is_elsewhere = arrival_ns == 0 || ledger_has_parked(ledger);
    if (is_elsewhere && usage->oldest_ns > 0 && (arrival_ns == 0 || usage->oldest_ns < arrival_ns))
        arrival_ns = usage->oldest_ns;
    if (usage->waiting == 0 || arrival_ns == 0 || arrival_ns >= now_ns)
        return 0;
    return (uint32_t)((now_ns - arrival_ns) / 1000000000u);
}

/* Of several couriers the one that sees most upstreams up; null: none has told. */
static const struct courier *best_informed(const struct couriers *couriers)
{
    const struct courier *best = NULL;
    for (const struct courier *courier = couriers->first; courier; courier = courier->next)
        if (!courier->is_gone && courier->has_upstreams &&
            (best == NULL || courier->upstreams_up > best->upstreams_up))
            best = courier;
    return best;
}

static void correct_waiting(const struct spool_usage *usage, int64_t *drift)
{
    int64_t off_by = metrics_get(METRIC_relay_spool_entries) - (int64_t)usage->waiting;
    if (off_by != 0 && off_by == *drift)
        metrics_add(METRIC_relay_spool_entries, (uint64_t)-off_by);
    *drift = off_by;
}

struct post_board *board_new(spool_t *spool, const ledger_t *ledger,
                             const struct couriers *couriers, int64_t *drift)
{
    struct spool_usage usage;
    struct post_board *board = post_new(POST_BOARD, sizeof *board);
    const struct courier *best = best_informed(couriers);
    spool_usage(spool, &usage);
    board->oldest_s = oldest_s(ledger, &usage);
    board->has_courier = best != NULL;
    if (best != NULL) {
        board->upstreams_up = best->upstreams_up;
        board->upstreams_total = best->upstreams_total;
        memcpy(board->note, best->note, sizeof board->note);
    }
    correct_waiting(&usage, drift);
    metrics_set(METRIC_relay_spool_bytes, (int64_t)usage.used_bytes);
    metrics_set(METRIC_relay_spool_oldest, board->oldest_s);
    metrics_set(METRIC_queue_leases, ledger_count(ledger, ENTRY_LEASED));
    metrics_set(METRIC_queue_couriers, couriers->count);
    return board;
}
