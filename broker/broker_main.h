// SPDX-License-Identifier: MIT
/* broker_main: the broker as a role of the program skeleton. */
#ifndef MCPD_BROKER_MAIN_H
#define MCPD_BROKER_MAIN_H

#include "common/role.h"

extern const struct role broker_role;

#endif
