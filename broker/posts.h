// SPDX-License-Identifier: MIT
/*
 * posts: what the broker's three actors tell each other, through one mailbox each. A post is
 * malloc'd by who sends it and freed by who takes it.
 *
 *     intake   -> delivery: POST_COMMIT     records are durable
 *     delivery -> upkeep:   POST_OUTCOMES   what became of records
 *     delivery -> upkeep:   POST_DEAD       one for dead/
 *     upkeep   -> delivery: POST_BURIED     it is durable there, or was lost; the entry may go
 *     delivery -> intake:   POST_BOARD      what intake tells gateways in STATUS
 */
#ifndef MCPD_BROKER_POSTS_H
#define MCPD_BROKER_POSTS_H

#include "broker/spool.h"
#include "common/mailbox.h"

enum post_kind { POST_COMMIT, POST_OUTCOMES, POST_DEAD, POST_BURIED, POST_BOARD, POST_KINDS };

struct post {
    struct mailbox_item item; /* first */
    enum post_kind kind;
};

struct post_commit {
    struct post post;
    uint32_t count;
    struct record_ref refs[];
};

enum outcome_kind {
    OUTCOME_DONE,
    OUTCOME_EXPIRY,  /* value: how many by now */
    OUTCOME_SUSPECT, /* rounds; value: first failure, unix seconds */
    OUTCOME_LOST     /* does not read back: quarantine; answered by POST_BURIED */
};

struct outcome {
    enum outcome_kind kind;
    uint8_t rounds;
    uint32_t value;
    struct record_ref ref;
};

#define OUTCOMES_MAX 256
struct post_outcomes {
    struct post post;
    uint32_t count;
    struct outcome at[OUTCOMES_MAX];
};

struct post_dead {
    struct post post;
    struct record_ref ref;
    struct record_note note; /* slices point into texts */
    char texts[];
};

struct post_buried {
    struct post post;
    struct record_id id;
};

struct post_board {
    struct post post;
    bool has_courier; /* one has told of its upstreams */
    uint32_t upstreams_up;
    uint32_t upstreams_total;
    uint32_t oldest_s;
    char note[128];
};

/* Zeroed memory of this size with its kind set; aborts without memory. */
void *post_new(enum post_kind kind, size_t size) MUST_USE;

#endif
