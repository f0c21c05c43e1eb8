// SPDX-License-Identifier: MIT
/*
 * keys: who may do what in which project: the keys of --ingest-key and those of the settings in
 * force. Holds digests only; the secrets stay in the options. Any thread, after it was made.
 */
#ifndef MCPD_STORE_KEYS_H
#define MCPD_STORE_KEYS_H

#include <stdbool.h>

#include "common/err.h"
#include "common/grant.h"
#include "common/options.h"
#include "store/settings.h"

typedef struct keys keys_t;

/* From the values of --ingest-key. Null with the reason where one is empty or given twice. */
keys_t *keys_new(const struct text_list *items, struct err *err) MUST_USE;
void keys_destroy(keys_t **self_p);

/* The projects of the values, by their number below the count. */
size_t keys_count(const keys_t *self);
const char *keys_project(const keys_t *self, size_t number);

/* What a scope may be asked for. */
enum key_right { RIGHT_SEND, RIGHT_READ, RIGHT_ADMIN, RIGHT_COUNT };
bool keys_allow(enum grant_scope scope, enum key_right right);

/* Who presents this secret at now_s (wall clock); false when nobody known does. Where there is
 * neither an --ingest-key nor a section of keys, everyone is let in and may do everything in the
 * default project. Of a key that both have, the settings count. Takes the same time for every
 * secret of a length. */
bool keys_find(const keys_t *self, const struct settings *settings, struct slice secret,
               uint64_t now_s, struct key_holder *holder);

#endif
