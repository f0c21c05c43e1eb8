// SPDX-License-Identifier: MIT
/* What the msgpack pre-walk lets pass, the reader steps over whole; native batches in msgpack give
 * a batch in order or a reason. */
#include "proto/mpread.h"
#include "proto/native.h"
#include "proto/prewalk.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct batch_policy policy = {.now_ns = UINT64_C(1800000000000000000),
                                               .types = EVENT_BITS_ALL};
    struct slice body = exact_copy((struct slice){(const char *)data, size});
    struct mpread reader;
    struct err err = {""};
    enum batch_result result = prewalk_msgpack(body, &err);
    mpread_init(&reader, body);
    int rc = mpread_skip(&reader);
    if (result == BATCH_OK)
        BATCH_CHECK(rc == 0 && mpread_at_end(&reader));
    (void)decode_checked(native_msgpack, body, &policy);
    free((char *)body.data);
    return 0;
}
