// SPDX-License-Identifier: MIT
/*
 * window: keeps the ledger supplied with the records that come next, however many wait in the
 * spool. While the ledger keeps up, what intake tells goes straight in; when it has no room, the
 * rest is found later by scanning from where it stopped. Segments whose failed records were dropped
 * from RAM are scanned again when these are due. Delivery's thread.
 */
#ifndef MCPD_BROKER_WINDOW_H
#define MCPD_BROKER_WINDOW_H

#include "broker/ledger.h"
#include "broker/spool.h"

/* A damaged range or record met while scanning. */
typedef void window_lost(void *arg, const struct record_ref *ref);

struct window {
    spool_t *spool;
    ledger_t *ledger;
    window_lost *on_lost;
    void *arg;
    struct spool_cursor head; /* everything before it is in the ledger, settled or parked */
    bool is_behind;           /* there may be records behind head that nobody will tell again */
    struct spool_cursor rescan;
    bool is_rescanning;
    uint64_t blocked_until_ms; /* the disk could not be read */
};

void window_init(struct window *self, spool_t *spool, ledger_t *ledger, window_lost *on_lost,
                 void *arg);

/* Records that intake made durable, in the order of the spool. */
void window_offer(struct window *self, const struct record_ref *refs, uint32_t count);

/* One step of scanning, if one is due and there is room. True: call again soon, there may be more.
 */
bool window_fill(struct window *self, uint64_t now_ms);
/* After window_fill said false: until time alone gives it something to do, UINT64_MAX: not before
 * entries are leased or leave the ledger. */
uint64_t window_wait_ms(const struct window *self, uint64_t now_ms);

#endif
