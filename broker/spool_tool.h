// SPDX-License-Identifier: MIT
/*
 * spool_tool: `mcpd spool ls|cat|verify`, looking into a spool that no process uses. It takes the
 * spool's lock and changes nothing. One thread; blocks on the disk.
 */
#ifndef MCPD_SPOOL_TOOL_H
#define MCPD_SPOOL_TOOL_H

#include <stdio.h>

#include "common/err.h"

/* words: the verb and what follows it. 0; 1: verify found damage (told on out); -1 with the reason,
 * also for a verb that is none. */
int spool_tool_run(const char *path, char **words, int count, FILE *out, struct err *err) MUST_USE;

/* The verbs, a line each. */
extern const char *const spool_tool_help;

#endif
