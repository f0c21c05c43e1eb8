// SPDX-License-Identifier: MIT
/* pass_steps: the steps of the daemon's passes, in order; their arg is the struct daemon. */
#ifndef MCPD_STORE_PASS_STEPS_H
#define MCPD_STORE_PASS_STEPS_H

#include "store/passes.h"

extern const struct pass_step pass_steps[];

#endif
