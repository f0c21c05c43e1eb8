// SPDX-License-Identifier: MIT
/* settings_tool: what is told of a settings file without running a daemon. */
#ifndef MCPD_STORE_SETTINGS_TOOL_H
#define MCPD_STORE_SETTINGS_TOOL_H

#include <stdio.h>

/* `mcpd check FILE`: the arguments behind that word. Says on out that the file is in order, or on
 * errors what is not, with the line. Returns the exit status, 0 or 2. */
int settings_tool(int argc, char **argv, FILE *out, FILE *errors);

/* The line of `mcpd config`; an empty path means that there is no file. */
void settings_print(const char *path, FILE *out);

#endif
