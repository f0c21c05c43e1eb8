// SPDX-License-Identifier: MIT
/* row_json: a row of a listing as JSON, as answers have it. Any thread. */
#ifndef MCPD_STORE_ROW_JSON_H
#define MCPD_STORE_ROW_JSON_H

#include "proto/json_out.h"
#include "store/listing.h"

/* Writes {, and the members that are not null, without the closing brace: more may follow. */
void row_json_write(struct json_out *out, const struct listing *listing,
                    const struct list_value *values);

#endif
