// SPDX-License-Identifier: MIT
/* core: what the three actors of one broker have in common; made by broker_main, outlives them. */
#ifndef MCPD_BROKER_CORE_H
#define MCPD_BROKER_CORE_H

#include <stdatomic.h>
#include <stdint.h>

#include "broker/spool.h"
#include "common/mailbox.h"
#include "common/role.h"

/* Heartbeat told to peers in WELCOME. */
#define BROKER_HB_MS 1000

struct broker_core {
    const struct role_env *env;
    spool_t *spool;
    struct spool_report report; /* of the start */
    uint64_t boot_id;           /* part of every lease token, the epoch in WELCOME */
    struct mailbox to_intake;
    struct mailbox to_delivery;
    struct mailbox to_upkeep;
    _Atomic(const char *) intake_word; /* intake: ok, full, low disk or write error */
    _Atomic(uint64_t) corrupt_records; /* since start; for the note in STATUS */
};

#endif
