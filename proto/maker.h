// SPDX-License-Identifier: MIT
/*
 * maker: what all decoders share on the way from a body to the batch: the memory of one item, the
 * resource and scope around it, the checks of ids and times, the JSON columns. A decoder fills a
 * raw_span, raw_log, ... in the scratch memory, adds it, and resets the scratch memory before the
 * next. One thread at a time.
 */
#ifndef MCPD_MAKER_H
#define MCPD_MAKER_H

#include "proto/batch.h"
#include "proto/genai.h"
#include "proto/json_out.h"
#include "proto/value.h"

/* An id as sent. */
struct raw_id {
    enum { RAW_ID_ABSENT, RAW_ID_GOOD, RAW_ID_ZERO, RAW_ID_BAD } state;
    uint8_t bytes[16];
};

#define TRACE_ID_LEN 16
#define SPAN_ID_LEN  8

/* len is 16 or 8. An empty text or no bytes are an absent id. */
struct raw_id raw_id_from_hex(struct slice text, size_t len);
struct raw_id raw_id_from_bytes(struct slice bytes, size_t len);
/* Copies a good one and returns true. */
bool raw_id_copy(const struct raw_id *id, uint8_t *out, size_t len);
/* A member with the id in hex; left out unless it is good. */
void raw_id_write(struct json_out *out, const char *key, const struct raw_id *id, size_t len);

/* What items of one resource, and of one scope in it, share. */
struct raw_scope {
    struct slice name;
    struct slice version;
    struct value *attributes;
};

struct maker {
    struct batch *batch;
    const struct batch_policy *policy;
    struct err *err;
    struct slice text;        /* the body where it is JSON, else empty; the decoder's to set */
    struct slice message;     /* the protobuf message being decoded, or */
    const struct value *item; /* the value being decoded: the decoder's to set, for rejects */
    struct arena scratch;     /* of one item: the decoder's, which resets it */
    struct json_out attrs;
    struct json_out content;
    struct json_out extra;         /* a log's body, a metric's data */
    struct json_out resource_json; /* "resource":{...}, or nothing */
    struct json_out scope_json;    /* "scope":{...}, or nothing */
    struct genai_found resource;
    struct arena resource_memory; /* what resource points to; the decoder's to fill and reset */
};

/* The batch's memory is limited in proportion to the body's length. */
void maker_init(struct maker *self, struct batch *batch, const struct batch_policy *policy,
                size_t body_len, struct err *err);
void maker_fini(struct maker *self);

/* Says which resource and which scope the next items have. members must live, in resource_memory or
 * in the body's tree, until the next call; scope only for the call. */
void maker_resource(struct maker *self, struct value *members);
void maker_scope(struct maker *self, const struct raw_scope *scope);

/* What is wrong with an item; message is static text, null when nothing is. */
struct finding {
    enum reject_code code;
    const char *message;
};

/* A time that must be there, not too far ahead and not too old. */
struct finding maker_check_time(const struct maker *self, uint64_t ns);
/* The ids of something that may belong to a span: either may be absent (or zero), none may be bad.
 */
struct finding maker_check_ids(const struct raw_id *trace_id, const struct raw_id *span_id);

/* The next event in the batch. Null with the reason when there are too many. */
struct event *maker_add(struct maker *self, enum event_type type) MUST_USE;
/* Fails the body because an item takes too much memory. */
enum batch_result maker_too_large(struct maker *self);
/* Also keeps the item, see text, message and item. */
void maker_reject(struct maker *self, enum reject_code code, struct slice id, const char *message);

/* Looks through members for what the resource does not say better, and copies it to the slots. -1
 * over the batch's memory. */
int maker_fill_columns(struct maker *self, const struct value *members,
                       const struct genai_slot *slots, void *out) MUST_USE;

/* Takes content out of members: writes it as members to the content buffer and marks it skipped.
 * The members must have been looked through for duplicates. */
void maker_move_content(struct maker *self, struct value *members);

/* {"attributes":...,"resource":...,"scope":... written to the attrs buffer; the caller adds its own
 * members and the closing brace. */
void maker_open_attrs(struct maker *self, struct value *attributes);

#endif
