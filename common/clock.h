// SPDX-License-Identifier: MIT
/*
 * clock: the only reader of time and of randomness. Everything that decides takes `now` as an
 * argument instead, so that it is tested without sleeping. Any thread.
 */
#ifndef MCPD_CLOCK_H
#define MCPD_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);
/* As clock_mono_ms, but it also counts the time that the machine slept. For beliefs that others may
 * end meanwhile; nothing can be waited for on it. */
uint64_t clock_boot_ms(void);
uint64_t clock_wall_ns(void); /* since 1970, UTC */
uint64_t clock_wall_s(void);

/* For due times (absolute milliseconds). How long until at_ms, 0 when it has come; UINT64_MAX,
 * which is never, stays so. */
uint64_t clock_until_ms(uint64_t at_ms, uint64_t now_ms);
/* The smaller of two, of times or of waits. */
uint64_t clock_sooner_ms(uint64_t one_ms, uint64_t other_ms);

/* Fills with unpredictable bytes (getrandom). Aborts when the kernel has none. */
void clock_random(void *out, size_t len);
/* Uniform in [0, 1). For jitter. */
double clock_random_unit(void);

/* "2026-01-02T03:04:05.678Z" */
#define CLOCK_TEXT_SIZE 32
void clock_text(uint64_t wall_ns, char out[CLOCK_TEXT_SIZE]);

#endif
