// SPDX-License-Identifier: MIT
#include "span_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDS_PER_REQUEST (1 << 16)

enum meaning meaning_of(const char *column)
{
    static const struct {
        const char *column;
        enum meaning meaning;
    } meanings[] = {
        {"trace_id", TRACE_ID}, {"span_id", SPAN_ID}, {"parent_id", SPAN_ID},
        {"start_ns", TIME},     {"end_ns", TIME},     {"key", KEY},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strcmp(meanings[i].column, column) == 0)
            return meanings[i].meaning;
    return SAME;
}

static size_t find(const uint8_t *ids, size_t count, size_t len, const void *id)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(ids + i * len, id, len) == 0)
            return i;
    return count;
}

void span_numbers_add(struct span_numbers *self, const void *trace_id, const void *span_id)
{
    if (self->count == SPANS_MAX) {
        fprintf(stderr, "more than %d spans in a request\n", SPANS_MAX);
        exit(1);
    }
    if (find(self->traces[0], self->trace_count, 16, trace_id) == self->trace_count)
        memcpy(self->traces[self->trace_count++], trace_id, 16);
    memcpy(self->spans[self->count++], span_id, 8);
}

static size_t number_of(const uint8_t *ids, size_t count, size_t len, const void *id)
{
    size_t number = find(ids, count, len, id);
    if (number == count) {
        fprintf(stderr, "an id that no stored span has\n");
        exit(1);
    }
    return number;
}

size_t span_numbers_trace(const struct span_numbers *self, const void *trace_id)
{
    return number_of(self->traces[0], self->trace_count, 16, trace_id);
}

size_t span_numbers_span(const struct span_numbers *self, const void *span_id)
{
    return number_of(self->spans[0], self->count, 8, span_id);
}

/* splitmix64: no value comes twice, and they lie as far apart as random ones. */
static uint64_t spread(uint64_t number)
{
    uint64_t mixed = number * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

void span_id_renew(void *id, uint64_t request, size_t number)
{
    uint64_t value = spread(2 * (request * IDS_PER_REQUEST + number) + 1);
    memcpy(id, &value, sizeof value);
}

void trace_id_renew(void *id, uint64_t request, size_t number)
{
    uint64_t value = spread(2 * (request * IDS_PER_REQUEST + number));
    memcpy(id, &value, sizeof value);
}

static uint64_t read_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double bench_now_seconds(void)
{
    return (double)read_clock_ns(CLOCK_MONOTONIC) / 1e9;
}

uint64_t bench_wall_ns(void)
{
    return read_clock_ns(CLOCK_REALTIME);
}
