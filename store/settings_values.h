// SPDX-License-Identifier: MIT
/* settings_values: the text of one value of a settings file, read and checked as its field's type
 * asks. */
#ifndef MCPD_STORE_SETTINGS_VALUES_H
#define MCPD_STORE_SETTINGS_VALUES_H

#include "store/settings_rows.h"

/* Puts the value into the field of the object's struct; text must live as long as that. -1 when it
 * is no such value or out of range; nothing was written then. */
int settings_value_read(const struct settings_field *field, const char *text,
                        void *object) MUST_USE;

/* What the field takes, in words: "a size such as 64KiB". */
const char *settings_value_words(const struct settings_field *field);

#endif
