// SPDX-License-Identifier: MIT
/*
 * acks: writes what became of records to the segments' ack files, removes segments that are done,
 * and puts damaged bytes into quarantine/. Upkeep's thread only; every call but acks_add may block
 * on the disk. An ack that is lost costs one more delivery, so errors are counted and tried again,
 * and nothing here needs disk space to free disk space.
 */
#ifndef MCPD_ACKS_H
#define MCPD_ACKS_H

#include "broker/spool.h"

typedef struct acks acks_t;

acks_t *acks_new(spool_t *spool) MUST_USE;
/* Writes and syncs what is buffered (a clean stop), and frees. */
void acks_destroy(acks_t **self_p);

/* Buffers an entry; entries of a segment that is gone are dropped. ACK_DONE, ACK_MOVED, ACK_EXPIRY
 * and ACK_SUSPECT; ACK_DEAD after
 * dead_commit returned 0. */
void acks_add(acks_t *self, const struct record_id *id, enum ack_kind kind, uint8_t rounds,
              uint32_t value, uint64_t now_ms);

/* A record that read as READ_CORRUPT, or a damaged range from spool_scan: copies its bytes to
 * quarantine/, counts, logs, and settles its ordinals (spool_settle included, so that delivery only
 * has to drop it). */
void acks_lose(acks_t *self, const struct record_ref *ref, uint64_t now_ms);

/* Writes entries buffered for 20 ms, syncs files written 200 ms ago, removes sealed segments whose
 * records are all settled. Returns milliseconds until the next thing is due, UINT64_MAX: nothing;
 * call it at least each second all the same (segments get sealed and settled by others). */
uint64_t acks_tick(acks_t *self, uint64_t now_ms);
/* Everything buffered to disk now. 0, or -1: some could not be written. */
int acks_flush(acks_t *self, uint64_t now_ms);

#endif
