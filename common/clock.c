// SPDX-License-Identifier: MIT
#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static uint64_t now_ns(clockid_t id)
{
    struct timespec ts;
    if (clock_gettime(id, &ts) == -1)
        abort();
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_ms(void)
{
    return now_ns(CLOCK_MONOTONIC) / 1000000u;
}

uint64_t clock_mono_us(void)
{
    return now_ns(CLOCK_MONOTONIC) / 1000u;
}

uint64_t clock_boot_ms(void)
{
    return now_ns(CLOCK_BOOTTIME) / 1000000u;
}

uint64_t clock_wall_ns(void)
{
    return now_ns(CLOCK_REALTIME);
}

uint64_t clock_wall_s(void)
{
    return now_ns(CLOCK_REALTIME) / 1000000000u;
}

uint64_t clock_until_ms(uint64_t at_ms, uint64_t now_ms)
{
    if (at_ms == UINT64_MAX)
        return UINT64_MAX;
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

uint64_t clock_sooner_ms(uint64_t one_ms, uint64_t other_ms)
{
    return one_ms < other_ms ? one_ms : other_ms;
}

void clock_random(void *out, size_t len)
{
    char *to = out;
    while (len > 0) {
        ssize_t n = getrandom(to, len, 0);
        if (n == -1 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        to += n;
        len -= (size_t)n;
    }
}

double clock_random_unit(void)
{
    uint64_t bits;
    clock_random(&bits, sizeof bits);
    return (double)(bits >> 11) / 9007199254740992.0; /* 2^53: every double step is reachable */
}

void clock_text(uint64_t wall_ns, char out[CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t)(wall_ns / 1000000000u);
    unsigned ms = (unsigned)(wall_ns / 1000000u % 1000u);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char date[24];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_TEXT_SIZE, "%s.%03uZ", date, ms);
}
