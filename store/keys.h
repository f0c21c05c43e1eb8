// SPDX-License-Identifier: MIT
/*
 * keys: who may do what in which project. Holds digests only; the secrets stay in the options. Any
 * thread, after it was made.
 */
#ifndef MCPD_STORE_KEYS_H
#define MCPD_STORE_KEYS_H

#include <stdbool.h>

#include "common/err.h"
#include "common/grant.h"
#include "common/options.h"

typedef struct keys keys_t;

/* From the values of --ingest-key. Null with the reason where one is empty or given twice. Without
 * any, everyone may do everything in the default project. */
keys_t *keys_new(const struct text_list *items, struct err *err) MUST_USE;
void keys_destroy(keys_t **self_p);

/* What a scope may be asked for. */
enum key_right { RIGHT_SEND, RIGHT_READ, RIGHT_ADMIN, RIGHT_COUNT };

/* Who presents a secret. */
struct key_holder {
    const char *project; /* lives as long as the keys */
    enum grant_scope scope;
};

/* Who presents this secret and has the right; false when nobody does. Takes the same time for every
 * secret of a length. */
bool keys_find(const keys_t *self, struct slice secret, enum key_right right,
               struct key_holder *holder);

#endif
