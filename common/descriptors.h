// SPDX-License-Identifier: MIT
/* descriptors: how many file descriptors this process has open, and how many it may. Any thread. */
#ifndef MCPD_DESCRIPTORS_H
#define MCPD_DESCRIPTORS_H

#include <stdint.h>

#include "common/err.h"

/* Counts them, a system call or two for each hundred. When there is not one left to count with,
 * *used is *max. -1 where the system does not tell. */
int descriptors_count(uint64_t *used, uint64_t *max) MUST_USE;

#endif
