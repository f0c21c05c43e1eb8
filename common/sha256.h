// SPDX-License-Identifier: MIT
/* sha256: the digest of bytes that lie in one piece. Any thread. */
#ifndef MCPD_SHA256_H
#define MCPD_SHA256_H

#include <stdint.h>

#include "common/buf.h"

#define SHA256_LEN      32
#define SHA256_HEX_SIZE (2 * SHA256_LEN + 1)

void sha256(struct slice bytes, uint8_t digest[SHA256_LEN]);
/* The same in lower-case hex, with a terminating NUL. */
void sha256_hex(struct slice bytes, char hex[SHA256_HEX_SIZE]);

#endif
