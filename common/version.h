// SPDX-License-Identifier: MIT
#ifndef MCPD_VERSION_H
#define MCPD_VERSION_H

#define MCPD_VERSION "0.1.0"

#endif
