// SPDX-License-Identifier: MIT
/*
 * inflate: undoes Content-Encoding under an output limit. Any thread.
 */
#ifndef MCPD_INFLATE_H
#define MCPD_INFLATE_H

#include "proto/batch.h"

/* encoding is the header's value or empty; identity, gzip (any number of members), deflate (the
 * zlib form, as HTTP means it) and zstd are known, in any case, alone. Appends to out, whose max is
 * the limit (8 times the largest body); for identity out stays untouched and *plain is the body
 * itself. *plain points into out or body.
 *
 * BATCH_OK; BATCH_UNKNOWN_ENCODING; BATCH_TOO_LARGE over the limit; BATCH_BAD_ENCODING when the
 * bytes are cut short, damaged or followed by others. All but OK with the reason. */
enum batch_result inflate_body(struct slice encoding, struct slice body, struct buf *out,
                               struct slice *plain, struct err *err) MUST_USE;

#endif
