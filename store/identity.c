// SPDX-License-Identifier: MIT
#include "store/identity.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

#include "proto/codec.h"

void identity_of_event(const struct backend_request *request, const struct event *event,
                       uint8_t out[IDENTITY_LEN])
{
    memcpy(out, request->key, BACKEND_DIGEST_LEN);
    for (size_t i = 0; i < 4; i++)
        out[BACKEND_DIGEST_LEN + i] = (uint8_t)(event->index >> (8 * (3 - i)));
}

static void add(EVP_MD_CTX *context, struct slice part)
{
    /* Ended by a byte that no text holds, so that parts cannot be mistaken for each other. */
    int ok = EVP_DigestUpdate(context, part.data, part.len) && EVP_DigestUpdate(context, "", 1);
    assert(ok);
}

void identity_of_score(const struct score *score, char out[IDENTITY_SCORE_SIZE])
{
    uint8_t full[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    assert(ok);
    char target = (char)('0' + score->target);
    add(context, score->source);
    add(context, score->name);
    add(context, (struct slice){&target, 1});
    add(context, (struct slice){(const char *)score->trace_id, sizeof score->trace_id});
    add(context, (struct slice){(const char *)score->span_id, sizeof score->span_id});
    add(context, score->session);
    add(context, score->run);
    add(context, score->scorer);
    add(context, score->version);
    ok = EVP_DigestFinal_ex(context, full, NULL);
    assert(ok);
    EVP_MD_CTX_free(context);
    codec_hex_encode(full, BACKEND_DIGEST_LEN, out);
    out[IDENTITY_SCORE_SIZE - 1] = '\0';
}
