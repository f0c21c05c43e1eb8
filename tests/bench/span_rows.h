// SPDX-License-Identifier: MIT
/*
 * span_rows: what the rivals of B8 change in rows that a daemon stored, to have rows of further
 * requests: ids and times, so that nothing but these differs from what the daemon writes.
 */
#ifndef BENCH_SPAN_ROWS_H
#define BENCH_SPAN_ROWS_H

#include <stddef.h>
#include <stdint.h>

#define SPANS_MAX 10000 /* of one request */

/* What a column holds that differs from request to request. */
enum meaning { SAME, TRACE_ID, SPAN_ID, TIME, KEY };
enum meaning meaning_of(const char *column);

/* The ids of a request's spans, as numbers within the request. */
struct span_numbers {
    size_t count;
    size_t trace_count;
    uint8_t traces[SPANS_MAX][16]; /* as stored, in order of appearance */
    uint8_t spans[SPANS_MAX][8];
};

/* Takes the next stored span. */
void span_numbers_add(struct span_numbers *self, const void *trace_id, const void *span_id);
/* The number of a stored id; ends the program when it is none. */
size_t span_numbers_trace(const struct span_numbers *self, const void *trace_id);
size_t span_numbers_span(const struct span_numbers *self, const void *span_id);

/* Overwrites eight bytes of an id with what the request of this number has there. */
void span_id_renew(void *id, uint64_t request, size_t number);
/* As span_id_renew, of a trace's id; its last eight bytes stay. */
void trace_id_renew(void *id, uint64_t request, size_t number);

double bench_now_seconds(void);
uint64_t bench_wall_ns(void);

#endif
