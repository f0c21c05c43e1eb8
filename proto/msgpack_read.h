// SPDX-License-Identifier: MIT
/*
 * msgpack_read: a msgpack body to a value tree, as json_read does for JSON. Keys may be any bytes
 * (str or bin); a key of another kind makes the body malformed. bin and ext become bytes, an
 * integer beyond int64 a text of its digits. Any thread.
 */
#ifndef MCPD_MSGPACK_READ_H
#define MCPD_MSGPACK_READ_H

#include "proto/batch.h"
#include "proto/value.h"

/* Pre-walks the body, then builds its tree in the arena; texts point into the body. BATCH_OK; else
 * with the reason: what prewalk_msgpack gives, BATCH_MALFORMED, or BATCH_TOO_LARGE over the arena's
 * maximum. */
enum batch_result msgpack_read(struct arena *arena, struct slice body, struct value *out,
                               struct err *err) MUST_USE;

#endif
