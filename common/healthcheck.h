// SPDX-License-Identifier: MIT
/* healthcheck: `mcpd healthcheck`, for containers: asks the process next door whether it lives. */
#ifndef MCPD_HEALTHCHECK_H
#define MCPD_HEALTHCHECK_H

#include "common/options.h"

/* GET /healthz of the first --admin-listen, else of the first --listen. 0 on a 200 within 3 s, else
 * -1 with the reason. Blocks. */
int healthcheck_run(const struct options *options, struct err *err) MUST_USE;

#endif
