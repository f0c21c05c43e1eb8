// SPDX-License-Identifier: MIT
/* settings_check: what is wrong between the fields of a settings file, and what follows from them.
 */
#ifndef MCPD_STORE_SETTINGS_CHECK_H
#define MCPD_STORE_SETTINGS_CHECK_H

#include "store/settings.h"
#include "store/settings_yaml.h"

/* self was filled from root, which tells the lines. Sets what was left out and follows from the
 * rest (outputs, versions). 0; -1 with "line N: FIELD: ..." as the reason. */
int settings_check(struct settings *self, const struct node *root, struct err *err) MUST_USE;

#endif
