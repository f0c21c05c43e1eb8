// SPDX-License-Identifier: MIT
/* recover: what spool_open does with the files it finds. Internal to the spool. */
#ifndef MCPD_RECOVER_H
#define MCPD_RECOVER_H

#include "broker/spool.h"

/* Fills the table from the directory, mends what a crash left, sets next_segno. It may be killed at
 * any point and run again. -1 with the reason: a format that is not ours, damage with
 * refuse_on_corruption (then nothing was changed), or told to stop. */
int recover_run(spool_t *spool, struct spool_report *report, struct err *err) MUST_USE;

#endif
