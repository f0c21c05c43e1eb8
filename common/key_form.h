// SPDX-License-Identifier: MIT
/*
 * key_form: keys that say what they are for and tell a typo from a wrong key:
 *
 *     mcpd_<scope>_<project>_<secret>_<check>
 *
 * scope is in, rd, sc or ad; project 1 to 40 of a-z, 0-9 and '-'; secret 32 of 0-9, A-Z and a-z;
 * check the CRC-32 of all before the last '_', in base 62 (the same digits in that order), 6
 * digits. What stands in a key is a hint: what it may do says whoever knows it. Any thread.
 */
#ifndef MCPD_KEY_FORM_H
#define MCPD_KEY_FORM_H

#include <stdio.h>

#include "common/err.h"
#include "common/grant.h"

enum key_verdict {
    KEY_OTHER, /* not of this form */
    KEY_GOOD,
    KEY_MISTYPED, /* of this form, but the check does not fit */
};

/* The secret of *grant is the whole key; it is filled for KEY_GOOD alone and points into key. */
enum key_verdict key_form_read(struct slice key, struct grant *grant);

/* `mcpd key`: the arguments behind that word. Prints a new key, or the digest of the one on `in`;
 * -1 with the reason. */
int key_form_tool(int argc, char **argv, FILE *in, FILE *out, struct err *err) MUST_USE;
extern const char key_form_help[];

#endif
