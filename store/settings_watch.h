// SPDX-License-Identifier: MIT
/*
 * settings_watch: the settings in force. A thread of its own looks whether the file has changed and
 * puts a new snapshot in place as a whole, or keeps the old one and logs why, once for each change.
 */
#ifndef MCPD_STORE_SETTINGS_WATCH_H
#define MCPD_STORE_SETTINGS_WATCH_H

#include "common/options.h"
#include "store/settings.h"

typedef struct settings_watch settings_watch_t;

/* Reads the file of --config and starts the thread; without --config the settings are empty for
 * ever. The options must outlive it. Null with the reason where the file is not in order. */
settings_watch_t *settings_watch_new(const struct options *options, struct err *err) MUST_USE;
void settings_watch_destroy(settings_watch_t **self_p);

/* What is in force now, held for the caller. Any thread. */
const struct settings *settings_watch_hold(settings_watch_t *self) MUST_USE;

/* Has the file read now, changed or not; does not wait for it. Any thread. */
void settings_watch_reload(settings_watch_t *self);

#endif
