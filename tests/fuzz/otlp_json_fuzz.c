// SPDX-License-Identifier: MIT
/* Whatever bytes come, each OTLP door gives a batch in order or a reason. */
#include "proto/otlp_json.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct batch_policy policy = {.now_ns = UINT64_C(1800000000000000000)};
    static decoder_function *const decoders[] = {otlp_json_traces, otlp_json_logs,
                                                 otlp_json_metrics};
    for (size_t i = 0; i < sizeof(decoders) / sizeof(decoders[0]); i++)
        (void)decode_checked(decoders[i], (struct slice){(const char *)data, size}, &policy);
    return 0;
}
