// SPDX-License-Identifier: MIT
/*
 * body_format: which bodies the ingest paths take, and how the bytes of one become a batch. The
 * same for the one who stores them and for the one who only asks whether they can be read. Any
 * thread.
 */
#ifndef MCPD_BODY_FORMAT_H
#define MCPD_BODY_FORMAT_H

#include "common/buf.h"
#include "proto/batch.h"

enum ingest_door { DOOR_TRACES, DOOR_LOGS, DOOR_METRICS, DOOR_NATIVE, DOOR_COUNT };

/* A body may inflate to so many times what it may have over the wire. */
#define BODY_INFLATE_FACTOR 8

struct body_format; /* a content type that a door takes, with its decoder */

/* The door at exactly this path, or DOOR_COUNT. */
enum ingest_door body_door(const char *path);

/* Null when the door does not take the type; door must not be DOOR_COUNT, content_type may be null.
 */
const struct body_format *body_format_find(enum ingest_door door, const char *content_type);

/* Inflates and decodes a body as it was received, every limit checked before anything is built.
 * inflated is fresh from buf_init, whose limit bounds the plain body, and remains the caller's;
 * batch is fresh from batch_init. *plain is what was decoded, in body or in inflated. */
enum batch_result body_decode(const struct body_format *format, struct slice content_encoding,
                              struct slice body, const struct batch_policy *policy,
                              struct buf *inflated, struct batch *batch, struct slice *plain,
                              struct err *err) MUST_USE;

#endif
