// SPDX-License-Identifier: MIT
/* courier_main: the role of delivering from a broker to the upstreams. */
#ifndef MCPD_COURIER_COURIER_MAIN_H
#define MCPD_COURIER_COURIER_MAIN_H

#include "common/role.h"

extern const struct role courier_role;

#endif
