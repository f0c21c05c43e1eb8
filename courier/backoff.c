// SPDX-License-Identifier: MIT
#include "courier/backoff.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define MS_PER_S               ((uint64_t)1000)
#define RETRY_AFTER_JITTER_MAX ((uint64_t)5000) /* ms */
#define HTTP_DATE_MAX          40               /* the longest form has 33 characters */

static const struct backoff_range round_range = {.base_ms = 1000, .cap_ms = 600 * 1000};

static uint64_t doubled(struct backoff_range range, unsigned strike)
{
    uint64_t wait_ms = range.base_ms;
    for (unsigned i = 1; i < strike && wait_ms < range.cap_ms; i++) {
        wait_ms *= 2;
    }
    return wait_ms < range.cap_ms ? wait_ms : range.cap_ms;
}

uint64_t backoff_cool_ms(struct backoff_range range, unsigned strike, double unit)
{
    return (uint64_t)ceil((double)doubled(range, strike) * (0.5 + 0.5 * unit));
}

uint64_t backoff_round_ms(uint32_t round, double unit)
{
    return backoff_cool_ms(round_range, round, unit);
}

uint64_t backoff_retry_after_ms(uint64_t retry_after_s, uint64_t max_s, double unit)
{
    uint64_t wait_ms = (retry_after_s < max_s ? retry_after_s : max_s) * MS_PER_S;
    uint64_t jitter_ms = wait_ms / 10;
    if (jitter_ms > RETRY_AFTER_JITTER_MAX)
        jitter_ms = RETRY_AFTER_JITTER_MAX;
    return wait_ms + (uint64_t)ceil((double)jitter_ms * unit);
}

/* -1 where the text is no HTTP date. strptime is read in the C locale: the program never sets
 * another. */
static int parse_date(struct slice text, int64_t *at_s)
{
    static const char *const forms[] = {
        "%a, %d %b %Y %H:%M:%S GMT", /* the one to send */
        "%a, %d-%b-%y %H:%M:%S GMT", /* RFC 850 */
        "%a %b %d %H:%M:%S %Y",      /* asctime */
    };
    char copy[HTTP_DATE_MAX + 1];
    if (text.len > HTTP_DATE_MAX)
        return -1;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm parts = {0};
        const char *end = strptime(copy, forms[i], &parts);
        if (end == copy + text.len) {
            *at_s = (int64_t)timegm(&parts);
            return 0;
        }
    }
    return -1;
}

static bool is_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    }
    return text.len > 0;
}

static uint64_t saturated_seconds(struct slice digits)
{
    uint64_t seconds = 0;
    for (size_t i = 0; i < digits.len && seconds < RETRY_AFTER_SATURATED_S; i++) {
        seconds = seconds * 10 + (uint64_t)(digits.data[i] - '0');
    }
    return seconds < RETRY_AFTER_SATURATED_S ? seconds : RETRY_AFTER_SATURATED_S;
}

uint64_t backoff_parse_retry_after(struct slice value, struct slice date, uint64_t wall_s)
{
    value = slice_trim(value);
    if (is_digits(value))
        return saturated_seconds(value);
    int64_t at_s = 0;
    if (value.len == 0 || parse_date(value, &at_s) == -1)
        return 0;
    int64_t from_s = 0;
    date = slice_trim(date);
    if (date.len == 0 || parse_date(date, &from_s) == -1)
        from_s = (int64_t)wall_s;
    if (at_s <= from_s)
        return 0;
    uint64_t seconds = (uint64_t)(at_s - from_s);
    return seconds < RETRY_AFTER_SATURATED_S ? seconds : RETRY_AFTER_SATURATED_S;
}
