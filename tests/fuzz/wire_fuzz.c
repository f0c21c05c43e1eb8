// SPDX-License-Identifier: MIT
/* A header frame or a meta from a stranger: whatever is taken points into the input, and what was
 * taken comes back the same when it is written and read again. */
#include <stdlib.h>
#include <string.h>

#include "proto/request.h"
#include "proto/wire.h"

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_inside(struct slice part, struct slice whole)
{
    require(part.len == 0 ||
            (part.data >= whole.data && part.data + part.len <= whole.data + whole.len));
}

static void try_frame(enum wire_route route, struct slice frame)
{
    struct wire_message message, again;
    struct slice items[WIRE_LIST_MAX];
    struct buf buf;
    struct err err;
    uint32_t count = 0;
    if (wire_decode(&message, route, frame, &err) != WIRE_OK)
        return;
    if (message.type == WIRE_RENEW) {
        struct wire_list list = message.RENEW.tokens;
        while (wire_list_next(&list, &items[count]))
            check_inside(items[count++], frame);
        require(count == message.RENEW.tokens.count);
        message.RENEW.tokens.items = items;
    }
    if (message.type == WIRE_DEAD)
        check_inside(message.DEAD.excerpt, frame);
    buf_init(&buf, 16 * WIRE_HEADER_MAX);
    require(wire_encode(&message, &buf) == 0);
    if (buf.len <= WIRE_HEADER_MAX) {
        struct buf twice;
        buf_init(&twice, 16 * WIRE_HEADER_MAX);
        require(wire_decode(&again, route, (struct slice){buf.data, buf.len}, &err) == WIRE_OK);
        if (again.type == WIRE_RENEW)
            again.RENEW.tokens.items = items;
        require(wire_encode(&again, &twice) == 0 && twice.len == buf.len &&
                memcmp(twice.data, buf.data, buf.len) == 0);
        buf_fini(&twice);
    }
    buf_fini(&buf);
}

static void try_meta(struct slice meta)
{
    struct request request, again;
    struct buf buf;
    struct err err;
    if (request_decode(&request, meta, &err) == -1)
        return;
    buf_init(&buf, 2 * REQUEST_META_MAX);
#define REQUEST_FIELD(key, field) check_inside(request.field, meta);
#include "proto/request.def"
#undef REQUEST_FIELD
    require(request_encode(&request, &buf) == 0);
    require(request_decode(&again, (struct slice){buf.data, buf.len}, &err) == 0);
    require(again.arrival_ns == request.arrival_ns && again.target.len == request.target.len);
    buf_fini(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    struct slice rest = {(const char *)data + 1, len - 1};
    if (data[0] % 5 == 4)
        try_meta(rest);
    else
        try_frame((enum wire_route)(1 << data[0] % 5), rest);
    return 0;
}
