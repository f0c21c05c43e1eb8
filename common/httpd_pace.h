// SPDX-License-Identifier: MIT
/* httpd_pace: how slowly a body may come. Pure arithmetic; any thread. */
#ifndef MCPD_HTTPD_PACE_H
#define MCPD_HTTPD_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_GRACE_MS     5000 /* after it a body must have come at the minimum rate */
#define PACE_BYTES_PER_S  1024
#define PACE_CHUNKED_STEP 4096 /* most bytes of a chunked body that are read unseen at a time */

static inline bool pace_is_too_slow(uint64_t elapsed_ms, uint64_t bytes)
{
    return elapsed_ms >= PACE_GRACE_MS && bytes < elapsed_ms * PACE_BYTES_PER_S / 1000;
}

#endif
