// SPDX-License-Identifier: MIT
/*
 * gate: bounds what decoding costs. A few bodies are decoded at once, so that hostile ones cannot
 * add up; and no further one is begun while the decoded ones that wait for the disk hold too much
 * memory. Any thread.
 */
#ifndef MCPD_STORE_GATE_H
#define MCPD_STORE_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned slots;
    size_t held_bytes;
    size_t max_bytes;
};

void gate_init(struct gate *self, unsigned slots, size_t max_bytes);
void gate_fini(struct gate *self);

/* Waits for a slot and for memory, until deadline_ms (clock_mono_ms); false when there was none. */
bool gate_enter(struct gate *self, uint64_t deadline_ms);
/* Gives the slot back; what was decoded holds so many bytes until gate_release. */
void gate_leave(struct gate *self, size_t held_bytes);
void gate_release(struct gate *self, size_t held_bytes);

#endif
