// SPDX-License-Identifier: MIT
/*
 * grant: what a value of --ingest-key gives: `SECRET`, or `PROJECT/SCOPE=SECRET`. The doors compare
 * the secret; the daemon also keeps to project and scope. A secret that is a key as key_form has
 * them names both itself, where the long form does not. Any thread.
 */
#ifndef MCPD_GRANT_H
#define MCPD_GRANT_H

#include <stdbool.h>

#include "common/buf.h"

#define GRANT_PROJECT_DEFAULT    "default"
#define GRANT_PROJECT_MAX        40
#define GRANT_PROJECT_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789-"

enum grant_scope {
    GRANT_IN, /* send */
    GRANT_RD, /* read */
    GRANT_SC, /* send scores */
    GRANT_AD, /* all */
    GRANT_SCOPE_COUNT
};

struct grant {
    struct slice project;
    enum grant_scope scope;
    struct slice secret;
};

/* Who presents a key that is known. */
struct key_holder {
    char project[GRANT_PROJECT_MAX + 1];
    enum grant_scope scope;
};

/* "in", "rd", "sc", "ad"; false for any other name. */
bool grant_scope_find(struct slice name, enum grant_scope *scope) MUST_USE;

/* The slices point into item. A text that does not have the long form is a secret as a whole: it
 * sends to the default project, unless it says otherwise itself. */
struct grant grant_parse(const char *item);
/* Whether the item was likely meant to have the long form, as "shop/admin=SECRET", and has not.
 * What random texts end with, as the '=' of base64, is not that. */
bool grant_is_doubtful(const char *item) MUST_USE;

#endif
