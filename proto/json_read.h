// SPDX-License-Identifier: MIT
/*
 * json_read: a JSON body to a value tree. Reads what RFC 8259 allows and repairs, instead of
 * refusing, what would lose a whole batch for one text: any bytes within strings, lone surrogates
 * (U+FFFD), equal keys (all kept, in order), numbers that neither int64 nor double hold (they
 * become texts of their digits). A library reader refuses each of these. Any thread.
 */
#ifndef MCPD_JSON_READ_H
#define MCPD_JSON_READ_H

#include "proto/batch.h"
#include "proto/value.h"

/* The maximum for an arena in which the tree of any body of this length, that the pre-walk lets
 * pass, has room. */
size_t json_tree_max(size_t body_len);

/* Pre-walks the body, then builds its tree in the arena; texts without escapes point into the body.
 * BATCH_OK; else with the reason: what prewalk_json gives, or BATCH_TOO_LARGE over the arena's
 * maximum. */
enum batch_result json_read(struct arena *arena, struct slice body, struct value *out,
                            struct err *err) MUST_USE;

#endif
