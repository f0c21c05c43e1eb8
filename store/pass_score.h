// SPDX-License-Identifier: MIT
/* pass_score: the steps of the passes that settle traces and score them by rules; see pass_steps.
 */
#ifndef MCPD_STORE_PASS_SCORE_H
#define MCPD_STORE_PASS_SCORE_H

#include "store/passes.h"

/* Of the settings where they say nothing. */
#define SETTLE_QUIET_MS   30000
#define SETTLE_MAX_AGE_MS 3600000

pass_step_fn pass_settle;
pass_step_fn pass_score;

#endif
