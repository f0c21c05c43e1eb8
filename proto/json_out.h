// SPDX-License-Identifier: MIT
/*
 * json_out: JSON text written into a buffer; the first overflow sticks and is asked for once, at
 * the end. Bytes become {"bytes":"<base64>"}; NaN and infinities the texts "NaN", "Infinity",
 * "-Infinity". One thread at a time.
 */
#ifndef MCPD_JSON_OUT_H
#define MCPD_JSON_OUT_H

#include "proto/value.h"

struct json_out {
    struct buf buf;
    bool is_full;
    struct arena *scratch; /* for finding duplicate keys; may be reset by its owner between calls */
};

void json_out_init(struct json_out *self, size_t max_bytes, struct arena *scratch);
void json_out_fini(struct json_out *self);
void json_out_reset(struct json_out *self);

void json_out_raw(struct json_out *self, const char *text, size_t len);
void json_out_str(struct json_out *self, const char *text);   /* raw, as it stands */
void json_out_text(struct json_out *self, struct slice text); /* quoted, escaped, cleaned */
void json_out_int(struct json_out *self, int64_t number);
void json_out_value(struct json_out *self, const struct value *value);
/* {"key":value,...} of the members that are not skipped. */
void json_out_members(struct json_out *self, const struct value *first);

/* Starts the next member of the object being written: a comma where one is due, and the key, which
 * needs no escaping. */
void json_out_key(struct json_out *self, const char *key);
/* The value under its own key, which is escaped. */
void json_out_member(struct json_out *self, const struct value *member);
/* Members that are left out when empty, or 0, or without members. */
void json_out_text_member(struct json_out *self, const char *key, struct slice text);
void json_out_number_member(struct json_out *self, const char *key, uint64_t number);
void json_out_map_member(struct json_out *self, const char *key, struct value *members);
/* Members that were written before, without braces around them. */
void json_out_fragment(struct json_out *self, const struct json_out *fragment);

/* A copy of what was written, in the arena; empty where nothing was. -1 over the arena's maximum,
 * or when the buffer overflowed. */
int json_out_keep(const struct json_out *self, struct arena *arena, struct slice *out) MUST_USE;

#endif
