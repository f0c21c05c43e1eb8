// SPDX-License-Identifier: MIT
/* status_row: a line of docs/statuses.md, alike for every table of answers. */
#ifndef MCPD_STATUS_ROW_H
#define MCPD_STATUS_ROW_H

#include <stdio.h>

void status_rows_head(FILE *out);
/* retry_after_s of 0: none. */
void status_row(FILE *out, int status, const char *code, int retry_after_s, const char *meaning);

#endif
