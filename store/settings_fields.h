// SPDX-License-Identifier: MIT
/* settings_fields: the objects of a settings file, filled from its tree by the rows of
 * settings.def. What one field alone cannot tell is checked elsewhere (settings_check). */
#ifndef MCPD_STORE_SETTINGS_FIELDS_H
#define MCPD_STORE_SETTINGS_FIELDS_H

#include "store/settings.h"
#include "store/settings_yaml.h"

/* Fills self from the root of the tree; everything lies in the arena of self. 0; -1 with
 * "line N: FIELD: ..." as the reason. */
int settings_fill(struct settings *self, const struct node *root, struct err *err) MUST_USE;

/* A part's standard values, for one that was left out. */
struct settings_output *settings_standard_output(struct settings *self) MUST_USE;

#endif
