// SPDX-License-Identifier: MIT
/* gateway_main: the gateway as a role of the program skeleton. */
#ifndef MCPD_GATEWAY_MAIN_H
#define MCPD_GATEWAY_MAIN_H

#include "common/role.h"

extern const struct role gateway_role;

#endif
