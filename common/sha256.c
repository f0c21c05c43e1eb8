// SPDX-License-Identifier: MIT
#include "common/sha256.h"

#include <assert.h>
#include <openssl/evp.h>

void sha256(struct slice bytes, uint8_t digest[SHA256_LEN])
{
    unsigned len;
    int ok = EVP_Digest(bytes.data, bytes.len, digest, &len, EVP_sha256(), NULL);
    assert(ok == 1 && len == SHA256_LEN);
}

void sha256_hex(struct slice bytes, char hex[SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_LEN];
    sha256(bytes, digest);
    for (size_t i = 0; i < SHA256_LEN; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * (size_t)SHA256_LEN] = '\0';
}
