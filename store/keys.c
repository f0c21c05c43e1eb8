// SPDX-License-Identifier: MIT
#include "store/keys.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"

struct key {
    uint8_t digest[SHA256_LEN];
    struct key_holder holder;
};

struct keys {
    struct key *items;
    size_t count;
};

/* rights[scope][right] */
static const bool rights[GRANT_SCOPE_COUNT][RIGHT_COUNT] = {
    [GRANT_IN] = {[RIGHT_SEND] = true},
    [GRANT_RD] = {[RIGHT_READ] = true},
    [GRANT_SC] = {[RIGHT_SEND] = true},
    [GRANT_AD] = {[RIGHT_SEND] = true, [RIGHT_READ] = true, [RIGHT_ADMIN] = true},
};

static int add(keys_t *self, const char *item, struct err *err)
{
    struct grant grant = grant_parse(item);
    struct key *key = &self->items[self->count];
    if (grant.secret.len == 0)
        return err_set(err, "--ingest-key: a key is empty");
    sha256(grant.secret, key->digest);
    for (size_t i = 0; i < self->count; i++)
        if (memcmp(self->items[i].digest, key->digest, SHA256_LEN) == 0)
            return err_set(err, "--ingest-key: two values have the same key");
    key->holder = (struct key_holder){.project = slice_dup(grant.project), .scope = grant.scope};
    self->count++;
    return 0;
}

keys_t *keys_new(const struct text_list *items, struct err *err)
{
    keys_t *self = calloc(1, sizeof *self);
    assert(self);
    self->items = calloc(items->count + 1, sizeof *self->items);
    assert(self->items);
    for (size_t i = 0; i < items->count; i++) {
        if (add(self, items->items[i], err) == -1) {
            keys_destroy(&self);
            break;
        }
    }
    return self;
}

void keys_destroy(keys_t **self_p)
{
    keys_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (size_t i = 0; i < self->count; i++)
        free((char *)self->items[i].holder.project);
    free(self->items);
    free(self);
}

bool keys_find(const keys_t *self, struct slice secret, enum key_right right,
               struct key_holder *holder)
{
    const struct key *found = NULL;
    uint8_t digest[SHA256_LEN];
    if (self->count == 0) {
        *holder = (struct key_holder){.project = GRANT_PROJECT_DEFAULT, .scope = GRANT_AD};
        return true;
    }
    sha256(secret, digest);
    for (size_t i = 0; i < self->count; i++)
        if (CRYPTO_memcmp(self->items[i].digest, digest, SHA256_LEN) == 0)
            found = &self->items[i];
    if (!found || !rights[found->holder.scope][right])
        return false;
    *holder = found->holder;
    return true;
}
