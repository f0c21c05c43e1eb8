// SPDX-License-Identifier: MIT
#include "proto/body_format.h"

#include <assert.h>
#include <string.h>

#include "proto/inflate.h"
#include "proto/native.h"
#include "proto/otlp_json.h"
#include "proto/otlp_pb.h"
#include "proto/otlp_reply.h"

typedef enum batch_result decode_fn(struct batch *batch, struct slice body,
                                    const struct batch_policy *policy, struct err *err);
typedef bool type_fn(const char *content_type);

struct body_format {
    type_fn *is_type;
    decode_fn *decode;
};

static bool is_msgpack(const char *content_type)
{
    static const char name[] = "application/msgpack";
    size_t len = content_type ? strcspn(content_type, ";") : 0;
    return slice_equals_nocase(slice_trim((struct slice){content_type, len}), name);
}

static const struct {
    const char *path;
    struct body_format formats[3]; /* the last is empty */
} doors[DOOR_COUNT] = {
    [DOOR_TRACES] = {"/v1/traces",
                     {{otlp_is_protobuf, otlp_pb_traces}, {otlp_is_json, otlp_json_traces}}},
    [DOOR_LOGS] = {"/v1/logs", {{otlp_is_protobuf, otlp_pb_logs}, {otlp_is_json, otlp_json_logs}}},
    [DOOR_METRICS] = {"/v1/metrics",
                      {{otlp_is_protobuf, otlp_pb_metrics}, {otlp_is_json, otlp_json_metrics}}},
    [DOOR_NATIVE] = {"/v1/ingest", {{otlp_is_json, native_json}, {is_msgpack, native_msgpack}}},
};

enum ingest_door body_door(const char *path)
{
    enum ingest_door door = DOOR_TRACES;
    while (door < DOOR_COUNT && strcmp(path, doors[door].path) != 0)
        door++;
    return door;
}

const struct body_format *body_format_find(enum ingest_door door, const char *content_type)
{
    assert(door < DOOR_COUNT);
    for (const struct body_format *format = doors[door].formats; format->is_type; format++)
        if (format->is_type(content_type))
            return format;
    return NULL;
}

enum batch_result body_decode(const struct body_format *format, struct slice content_encoding,
                              struct slice body, const struct batch_policy *policy,
                              struct buf *inflated, struct batch *batch, struct slice *plain,
                              struct err *err)
{
    enum batch_result result = inflate_body(content_encoding, body, inflated, plain, err);
    return result == BATCH_OK ? format->decode(batch, *plain, policy, err) : result;
}
