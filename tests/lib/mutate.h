// SPDX-License-Identifier: MIT
/*
 * Feeds a decoder broken variants of a good body: cut at every byte, and with bytes changed,
 * doubled and taken out at random, from a fixed seed, so that a failure comes back. Whatever comes
 * out must be a batch in order.
 */
#ifndef MCPD_TESTS_MUTATE_H
#define MCPD_TESTS_MUTATE_H

#include <stdlib.h>

#include "tests/lib/batch_check.h"
#include "tests/lib/pb_build.h"

typedef enum batch_result decoder_function(struct batch *, struct slice,
                                           const struct batch_policy *, struct err *);

/* Decodes a copy of exactly its size and checks what comes out. */
static inline enum batch_result decode_checked(decoder_function *decoder, struct slice body,
                                               const struct batch_policy *policy)
{
    struct batch batch;
    struct err err = {""};
    struct slice copy = exact_copy(body);
    batch_init(&batch);
    enum batch_result result = decoder(&batch, copy, policy, &err);
    BATCH_CHECK(result < BATCH_RESULT_COUNT);
    free((char *)copy.data); /* nothing in the batch may point into it */
    if (result == BATCH_OK)
        batch_check(&batch, policy);
    else
        BATCH_CHECK(err.text[0] != '\0' && utf8_is_clean(slice_of(err.text)));
    batch_fini(&batch);
    return result;
}

static inline uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static inline void mutate_once(char *bytes, size_t *len, uint32_t *random)
{
    static const char telling[] = "\x00\xff\x7f\x80{}[]\",:\\u-e0";
    size_t at = next_random(random) % *len;
    size_t part = next_random(random) % 8 + 1;
    switch (next_random(random) % 5) {
    case 0:
        bytes[at] = (char)next_random(random);
        break;
    case 1:
        bytes[at] = telling[next_random(random) % (sizeof(telling) - 1)];
        break;
    case 2:
        bytes[at] = (char)(bytes[at] ^ 1 << next_random(random) % 8);
        break;
    case 3: /* taken out */
        part = part < *len - at ? part : *len - at - 1;
        memmove(bytes + at, bytes + at + part, *len - at - part);
        *len -= part;
        break;
    default: /* doubled: there is room for 8 more */
        part = part < *len - at ? part : *len - at;
        memmove(bytes + at + part, bytes + at, *len - at);
        *len += part;
        break;
    }
}

/* rounds bodies with 1 to 4 mutations each; returns how many of them still decoded. */
static inline size_t decode_mutants(decoder_function *decoder, struct slice body, size_t rounds,
                                    const struct batch_policy *policy)
{
    uint32_t random = 2463534242;
    size_t decoded = 0;
    char *bytes = malloc(body.len + 64);
    for (size_t i = 0; i < rounds; i++) {
        size_t len = body.len;
        memcpy(bytes, body.data, len);
        for (size_t n = next_random(&random) % 4 + 1; n > 0 && len > 1; n--)
            mutate_once(bytes, &len, &random);
        decoded += decode_checked(decoder, (struct slice){bytes, len}, policy) == BATCH_OK;
    }
    free(bytes);
    return decoded;
}

#endif
