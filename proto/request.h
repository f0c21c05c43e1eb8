// SPDX-License-Identifier: MIT
/*
 * request: the one struct that travels from gateway over broker to courier, as two frames: meta (a
 * msgpack map, request.def) and body. The meta frame is stored as the record's meta, byte for byte.
 */
#ifndef MCPD_REQUEST_H
#define MCPD_REQUEST_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

/* Largest meta: the door's header block is at most 16 KiB. */
#define REQUEST_META_MAX ((size_t)32 * 1024)

struct request {
#define REQUEST_FIELD(key, field) struct slice field;
#include "proto/request.def"
#undef REQUEST_FIELD
    uint64_t arrival_ns; /* wall clock, at the gateway */
};

int request_encode(const struct request *self, struct buf *meta) MUST_USE;

/* The slices point into meta. Unknown keys are ignored. -1 with the reason where the bytes are not
 * a meta of ours; nothing is allocated on the bytes' say. */
int request_decode(struct request *self, struct slice meta, struct err *err) MUST_USE;

#endif
