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

/* Every project's name was checked to fit. */
static struct key_holder holder_of(struct slice project, enum grant_scope scope)
{
    struct key_holder holder = {.scope = scope};
    snprintf(holder.project, sizeof holder.project, SLICE_FORMAT, SLICE_ARGS(project));
    return holder;
}

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
    key->holder = holder_of(grant.project, grant.scope);
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
    free(self->items);
    free(self);
}

size_t keys_count(const keys_t *self)
{
    return self->count;
}

const char *keys_project(const keys_t *self, size_t number)
{
    assert(number < self->count);
    return self->items[number].holder.project;
}

bool keys_allow(enum grant_scope scope, enum key_right right)
{
    return rights[scope][right];
}

bool keys_find(const keys_t *self, const struct settings *settings, struct slice secret,
               uint64_t now_s, struct key_holder *holder)
{
    const struct key_holder anyone = {.project = GRANT_PROJECT_DEFAULT, .scope = GRANT_AD};
    const struct key_holder *found = NULL;
    const struct settings_key *listed = NULL;
    uint8_t digest[SHA256_LEN];
    if (self->count == 0 && !settings->has_keys) {
        *holder = anyone;
        return true;
    }
    sha256(secret, digest);
    for (size_t i = 0; i < self->count; i++)
        if (CRYPTO_memcmp(self->items[i].digest, digest, SHA256_LEN) == 0)
            found = &self->items[i].holder;
    for (size_t i = 0; i < settings->keys_count; i++)
        if (CRYPTO_memcmp(settings->keys[i].sha256, digest, SHA256_LEN) == 0)
            listed = &settings->keys[i];
    if (listed) {
        *holder = holder_of(slice_of(listed->project), listed->scope);
        return listed->expires_s == 0 || now_s < listed->expires_s;
    }
    if (found)
        *holder = *found;
    return found != NULL;
}
