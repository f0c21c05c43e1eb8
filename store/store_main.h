// SPDX-License-Identifier: MIT
/* store_main: the daemon as a role. */
#ifndef MCPD_STORE_STORE_MAIN_H
#define MCPD_STORE_STORE_MAIN_H

#include "common/role.h"

extern const struct role daemon_role;

#endif
