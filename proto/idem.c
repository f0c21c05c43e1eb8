// SPDX-License-Identifier: MIT
#include "proto/idem.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_LEN 32

static const char prefix[] = "relay-";

struct idem {
    EVP_MD *algorithm;
    EVP_MD_CTX *context;
};

static bool is_visible(char c)
{
    return c > ' ' && c < 127;
}

int idem_check(struct slice given, struct slice *key, struct err *err)
{
    bool is_quoted = given.len >= 2 && given.data[0] == '"' && given.data[given.len - 1] == '"';
    if (is_quoted) {
        given.data++;
        given.len -= 2;
    }
    if (given.len < 1 || given.len > IDEM_KEY_MAX)
        return err_set(err, "Idempotency-Key has %zu characters, allowed are 1 to %d", given.len,
                       IDEM_KEY_MAX);
    for (size_t i = 0; i < given.len; i++)
        if (!is_visible(given.data[i]))
            return err_set(err, "Idempotency-Key has a character that is not visible ASCII, at %zu",
                           i + 1);
    *key = given;
    return 0;
}

idem_t *idem_new(void)
{
    idem_t *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    /* Fetched once: finding the algorithm costs more than the digest of a small body. */
    self->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    self->context = EVP_MD_CTX_new();
    if (!self->algorithm || !self->context)
        abort();
    return self;
}

void idem_destroy(idem_t **self_p)
{
    idem_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    EVP_MD_CTX_free(self->context);
    EVP_MD_free(self->algorithm);
    free(self);
}

/* Lower case, blanks cut, "identity" is nothing. */
static int add_encoding(EVP_MD_CTX *context, struct slice encoding)
{
    encoding = slice_trim(encoding);
    if (slice_equals_nocase(encoding, "identity"))
        return 1;
    for (size_t i = 0; i < encoding.len; i++) {
        char c = encoding.data[i];
        char lower = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
        if (!EVP_DigestUpdate(context, &lower, 1))
            return 0;
    }
    return 1;
}

static void write_hex(const unsigned char *digest, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_LEN; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out = 0;
}

void idem_derive_with(idem_t *self, struct slice target, struct slice content_encoding,
                      struct slice body, char out[IDEM_DERIVED_LEN + 1])
{
    unsigned char digest[SHA256_LEN];
    EVP_MD_CTX *context = self->context;
    int ok = EVP_DigestInit_ex2(context, self->algorithm, NULL) &&
             EVP_DigestUpdate(context, target.data, target.len) &&
             EVP_DigestUpdate(context, "", 1) && add_encoding(context, content_encoding) &&
             EVP_DigestUpdate(context, "", 1) && EVP_DigestUpdate(context, body.data, body.len) &&
             EVP_DigestFinal_ex(context, digest, NULL);
    if (!ok)
        abort(); /* out of memory; there is no other reason */
    memcpy(out, prefix, sizeof prefix - 1);
    write_hex(digest, out + sizeof prefix - 1);
}

void idem_derive(struct slice target, struct slice content_encoding, struct slice body,
                 char out[IDEM_DERIVED_LEN + 1])
{
    idem_t *self = idem_new();
    idem_derive_with(self, target, content_encoding, body, out);
    idem_destroy(&self);
}
