// SPDX-License-Identifier: MIT
/*
 * native: the body of POST /v1/ingest, a native batch in JSON or msgpack, to a batch. Any thread
 * with at least 1 MiB of stack.
 */
#ifndef MCPD_NATIVE_H
#define MCPD_NATIVE_H

#include "proto/batch.h"

/* The body is not compressed; batch is fresh from batch_init. An event that cannot be taken is a
 * reject of the batch; a body that is no batch gives another result than BATCH_OK, with the reason.
 */
enum batch_result native_json(struct batch *batch, struct slice body,
                              const struct batch_policy *policy, struct err *err) MUST_USE;
/* The same tree in msgpack; ids may be bin of 16 and 8 bytes instead of hex. */
enum batch_result native_msgpack(struct batch *batch, struct slice body,
                                 const struct batch_policy *policy, struct err *err) MUST_USE;

#endif
