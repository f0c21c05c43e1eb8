// SPDX-License-Identifier: MIT
/* The rules across fields: what each value alone cannot tell. */
#include "common/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/key_form.h"

#define GATEWAY_BROKERS_MAX 16

/* HOST:PORT with a numeric IPv4 host. The door's library takes more (port suffixes that turn on
 * TLS, which it cannot do safely), hence the strictness. */
static int check_address(const char *flag, const char *address, struct err *err)
{
    const char *colon = strrchr(address, ':');
    size_t host_len = colon ? (size_t)(colon - address) : 0;
    if (!colon || host_len == 0 || strspn(address, "0123456789.") != host_len)
        return err_set(err, "%s: '%s' is not HOST:PORT with a numeric IPv4 address", flag, address);
    char *end;
    unsigned long port = isdigit((unsigned char)colon[1]) ? strtoul(colon + 1, &end, 10) : 65536;
    if (port <= 65535 && (*end == 's' || *end == 'r'))
        return err_set(err, "%s: '%s' asks for TLS, which ends in front of mcpd: put a proxy there",
                       flag, address);
    if (port > 65535 || *end)
        return err_set(err, "%s: '%s' has no port from 0 to 65535 behind the colon", flag, address);
    return 0;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0;
}

static const char *public_address(const struct options *self)
{
    for (size_t i = 0; i < self->listen.count; i++)
        if (!is_loopback(self->listen.items[i]))
            return self->listen.items[i];
    return NULL;
}

bool options_need_keys(const struct options *self)
{
    return public_address(self) && self->ingest_key.count == 0 && !self->allow_anonymous;
}

/* A settings file may have the keys; that is checked where it is read. */
static int check_listen(const struct options *self, enum role_bits role, struct err *err)
{
    if (self->listen.count == 0)
        return err_set(err, "--listen: at least one HOST:PORT is needed");
    for (size_t i = 0; i < self->listen.count; i++)
        if (check_address("--listen", self->listen.items[i], err) == -1)
            return -1;
    bool has_file = (role & R_DAEMON) && *self->config;
    if (!has_file && options_need_keys(self))
        return err_set(err,
                       "--listen: %s is beyond loopback and there is no --ingest-key: give one, "
                       "or --allow-anonymous to let every sender in",
                       public_address(self));
    return 0;
}

static int check_brokers(const struct options *self, size_t most, struct err *err)
{
    size_t given = self->broker.count;
    if (given >= 1 && given <= most)
        return 0;
    if (most == 1)
        return err_set(err, "--broker: exactly one endpoint is needed, %zu given", given);
    return err_set(err, "--broker: 1 to %zu endpoints are needed, %zu given", most, given);
}

/* Never shows the key. */
static int check_keys(const struct text_list *keys, struct err *err)
{
    struct grant hint;
    for (size_t i = 0; i < keys->count; i++)
        if (key_form_read(grant_parse(keys->items[i]).secret, &hint) == KEY_MISTYPED)
            return err_set(err,
                           "--ingest-key: number %zu of the keys is mistyped: its last six "
                           "characters do not fit the rest",
                           i + 1);
    return 0;
}

bool options_is_postgres_url(const char *text)
{
    return strncmp(text, "postgres://", 11) == 0 || strncmp(text, "postgresql://", 13) == 0;
}

/* Never shows the value, which may hold a password. */
static int check_store(const char *given, struct err *err)
{
    if (!*given || options_is_postgres_url(given))
        return 0;
    return err_set(err,
                   "--store: this is no postgres://USER:PASSWORD@HOST:PORT/DATABASE; an SQLite "
                   "file is named by --data");
}

static int check_runs(const char *given, struct err *err)
{
    bool is_word = strcmp(given, "embedded") == 0 || strcmp(given, "off") == 0;
    if (!*given || options_is_postgres_url(given) || is_word)
        return 0;
    return err_set(err, "--runs-data: embedded, a postgres:// URL or off is wanted");
}

int options_check(const struct options *self, enum role_bits role, struct err *err)
{
    for (size_t i = 0; i < self->admin_listen.count; i++)
        if (check_address("--admin-listen", self->admin_listen.items[i], err) == -1)
            return -1;
    if (check_keys(&self->ingest_key, err) == -1)
        return -1;
    if (role == R_ALL) /* `mcpd config` shows settings; it runs none of the roles */
        return 0;
    if ((role & (R_RELAY | R_GATEWAY | R_DAEMON)) && check_listen(self, role, err) == -1)
        return -1;
    if ((role & (R_RELAY | R_COURIER)) && self->upstream.count == 0)
        return err_set(err, "--upstream: at least one is needed, as http://mcpd.internal:4317");
    if ((role & R_GATEWAY) && check_brokers(self, GATEWAY_BROKERS_MAX, err) == -1)
        return -1;
    if ((role & R_COURIER) && check_brokers(self, 1, err) == -1)
        return -1;
    if ((role & R_DAEMON) && check_store(self->store, err) == -1)
        return -1;
    if ((role & R_DAEMON) && check_runs(self->runs_data, err) == -1)
        return -1;
    if ((role & (R_RELAY | R_BROKER | R_DAEMON)) && !*self->data)
        return err_set(err, "--data: an empty path is refused");
    return 0;
}
