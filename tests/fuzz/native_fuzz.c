// SPDX-License-Identifier: MIT
/* Whatever bytes come, native_json gives a batch in order or a reason. */
#include "proto/native.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct batch_policy policy = {.now_ns = UINT64_C(1800000000000000000),
                                               .types = EVENT_BITS_ALL};
    (void)decode_checked(native_json, (struct slice){(const char *)data, size}, &policy);
    return 0;
}
