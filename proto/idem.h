// SPDX-License-Identifier: MIT
/*
 * idem: the Idempotency-Key. The sender's own, or `relay-` + lower-case hex SHA-256 of: the target
 * as received (query included), 0x00, Content-Encoding in lower case and trimmed (identity is
 * empty), 0x00, the body. Gateway and daemon derive it alike, so that a direct and a relayed copy
 * of one body meet.
 */
#ifndef MCPD_IDEM_H
#define MCPD_IDEM_H

#include "common/buf.h"
#include "common/err.h"

#define IDEM_KEY_MAX     200 /* visible characters of a sender's key */
#define IDEM_DERIVED_LEN 70  /* "relay-" and 64 hex digits */

/* Checks a sender's key: 1 to 200 visible ASCII characters; a pair of double quotes around it is
 * taken off ("abc" and abc are the same key). *key is set to the part that counts.
 * -1 with the reason. */
int idem_check(struct slice given, struct slice *key, struct err *err) MUST_USE;

void idem_derive(struct slice target, struct slice content_encoding, struct slice body,
                 char out[IDEM_DERIVED_LEN + 1]);

/* The same with what the digest needs kept from call to call: several times faster for small
 * bodies. One a thread. */
typedef struct idem idem_t;
idem_t *idem_new(void) MUST_USE;
void idem_destroy(idem_t **self_p);
void idem_derive_with(idem_t *self, struct slice target, struct slice content_encoding,
                      struct slice body, char out[IDEM_DERIVED_LEN + 1]);

#endif
