// SPDX-License-Identifier: MIT
/* Whatever bytes come, under each encoding (the first byte chooses), the output stays in its limit
 * or is refused with a reason. */
#include "proto/inflate.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const encodings[] = {"gzip", "deflate", "zstd"};
    enum { LIMIT = 65536 };
    if (size == 0)
        return 0;
    struct slice body = exact_copy((struct slice){(const char *)data + 1, size - 1});
    struct slice plain;
    struct buf out;
    struct err err = {""};
    buf_init(&out, LIMIT);
    enum batch_result result =
        inflate_body(slice_of(encodings[data[0] % 3]), body, &out, &plain, &err);
    BATCH_CHECK(out.len <= LIMIT);
    BATCH_CHECK(result == BATCH_OK || err.text[0] != '\0');
    buf_fini(&out);
    free((char *)body.data);
    return 0;
}
