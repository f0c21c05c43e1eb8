// SPDX-License-Identifier: MIT
/*
 * pg_target: the database that a postgres:// URL names. The URL holds a password: nothing but the
 * label (hosts and database) is ever for logs and answers, no error here repeats any part of it.
 */
#ifndef MCPD_STORE_PG_TARGET_H
#define MCPD_STORE_PG_TARGET_H

#include "common/err.h"

#define PG_TARGET_KEYWORDS_MAX 64

struct pg_target {
    const char *keywords[PG_TARGET_KEYWORDS_MAX + 1]; /* for PQconnectStartParams, ended by null */
    const char *values[PG_TARGET_KEYWORDS_MAX + 1];
    void *parsed; /* owns them */
    char label[160];
};

/* Reads a URL as libpq does and adds what our connections need. -1 with the reason. */
int pg_target_init(struct pg_target *self, const char *url, struct err *err) MUST_USE;
void pg_target_fini(struct pg_target *self); /* safe on a zeroed struct and twice */

#endif
