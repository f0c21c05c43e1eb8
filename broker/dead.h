// SPDX-License-Identifier: MIT
/*
 * dead: dead letters, in dead/<n>.log, records of the same format as the segments' with the reason
 * beside them, so that one can be read and put back unchanged. Upkeep's thread only; calls block on
 * the disk. Above its share (10 % of the spool) the oldest file is dropped, counted and logged.
 */
#ifndef MCPD_DEAD_H
#define MCPD_DEAD_H

#include "broker/spool.h"

typedef struct dead dead_t;

/* Null with the reason when dead/ cannot be read. Damaged letters are stepped over and counted. */
dead_t *dead_new(spool_t *spool, struct err *err) MUST_USE;
void dead_destroy(dead_t **self_p);

/* Copies the record behind the others in dead/; it is not durable before dead_commit, so that many
 * can share one sync. 0, or -1: not copied, the record stays in the queue (no space, a failed
 * write; try again later). *result tells a record that cannot be read (READ_CORRUPT: acks_lose it).
 * After a failed write the next ones fail too, until dead_commit. */
int dead_add(dead_t *self, const struct record_ref *ref, const struct record_note *note,
             enum read_result *result, struct err *err) MUST_USE;
/* Syncs file and directory. 0: all that dead_add took since the last commit is durable; then the
 * caller acks each ACK_DEAD and only then answers delivery. -1: none of it counts, add them again
 * later. After a crash in between a letter may be there twice, with the same origin id. */
int dead_commit(dead_t *self, struct err *err) MUST_USE;

struct dead_id {
    uint64_t file;
    uint32_t ordinal;
};

/* A letter; slices point into memory that it owns. */
struct dead_letter {
    struct dead_id id;
    struct record_origin origin;
    struct record_note note;
    uint32_t meta_len;
    uint32_t body_len;
    struct slice meta; /* body, too, only from dead_read; dead_list gives meta alone */
    struct slice body;
    char *memory;
};
void dead_letter_fini(struct dead_letter *letter);

/* Up to max letters behind `after` ({0, 0}: from the start), oldest first, without bodies; each
 * must be ended by dead_letter_fini. The number, or -1. For the start, after->ordinal counts too:
 * pass the id of the last one seen. */
int dead_list(dead_t *self, const struct dead_id *after, struct dead_letter *out, int max,
              struct err *err) MUST_USE;
/* One letter, whole and checked. -1: no such letter, or damaged. */
int dead_read(dead_t *self, const struct dead_id *id, struct dead_letter *out,
              struct err *err) MUST_USE;
/* Forgets a letter (dropped by hand, or put back and durable in the queue again). kind: ACK_DONE or
 * ACK_MOVED. 0, or -1: no such letter. */
int dead_remove(dead_t *self, const struct dead_id *id, enum ack_kind kind,
                struct err *err) MUST_USE;

uint64_t dead_count(dead_t *self);
uint64_t dead_dropped(const dead_t *self); /* over the share, since start */

#endif
