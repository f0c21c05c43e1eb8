// SPDX-License-Identifier: MIT
/*
 * grant: what a value of --ingest-key gives: `SECRET`, or `PROJECT/SCOPE=SECRET`. The doors compare
 * the secret; the daemon also keeps to project and scope. Any thread.
 */
#ifndef MCPD_GRANT_H
#define MCPD_GRANT_H

#include "common/buf.h"

#define GRANT_PROJECT_DEFAULT "default"
#define GRANT_PROJECT_MAX     40

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

/* The slices point into item. A text that does not have the long form is a secret as a whole: it
 * sends to the default project. */
struct grant grant_parse(const char *item);

#endif
