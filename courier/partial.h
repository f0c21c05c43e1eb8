// SPDX-License-Identifier: MIT
/*
 * partial: what an upstream that took a request left out of it, by its own words: OTLP's
 * partialSuccess in JSON or protobuf, or the counts of our daemon's doors. Pure. Any thread.
 */
#ifndef MCPD_COURIER_PARTIAL_H
#define MCPD_COURIER_PARTIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

/* answer is the beginning of a 2xx answer's body, whatever it is. Returns how many items were
 * rejected; 0 also where it cannot be understood. */
uint64_t partial_rejected(struct slice answer, bool is_protobuf);

#endif
