// SPDX-License-Identifier: MIT
/*
 * libpq's own words about a URL quote it, and a password with a character that should have been
 * escaped ends up in the host or the port, which errors of a connection name. So the URL is read
 * here first, and what cannot be a host or a port is refused without being shown.
 */
#include "store/pg_target.h"

#include <postgresql/libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/options.h"

static const char bad_url[] =
    "--store: this is no postgres://USER:PASSWORD@HOST:PORT/DATABASE (special characters of the "
    "password are written as %%XX, @ as %%40; behind ? stand parameters of libpq, as sslmode)";

/* What the user may set otherwise in the URL. */
static const struct {
    const char *keyword;
    const char *value;
} standards[] = {
    {"client_encoding", "UTF8"}, {"fallback_application_name", "mcpd"},
    {"keepalives_idle", "10"},   {"keepalives_interval", "5"},
    {"keepalives_count", "3"},   {"tcp_user_timeout", "15000"},
};

static const char *find(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val ? options->val : "";
    return "";
}

/* Letters, digits and what host names, addresses and socket folders are written with. */
static bool is_host(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:,/";
    return text[strspn(text, allowed)] == '\0';
}

static bool is_port(const char *text)
{
    return text[strspn(text, "0123456789,")] == '\0';
}

static void add(struct pg_target *self, size_t *count, const char *keyword, const char *value)
{
    self->keywords[*count] = keyword;
    self->values[*count] = value;
    (*count)++;
}

int pg_target_init(struct pg_target *self, const char *url, struct err *err)
{
    size_t count = 0;
    *self = (struct pg_target){0};
    PQconninfoOption *options = options_is_postgres_url(url) ? PQconninfoParse(url, NULL) : NULL;
    self->parsed = options;
    if (!options || !is_host(find(options, "host")) || !is_host(find(options, "hostaddr")) ||
        !is_port(find(options, "port"))) {
        pg_target_fini(self);
        return err_set(err, bad_url);
    }
    for (size_t i = 0; i < sizeof standards / sizeof *standards; i++)
        if (!*find(options, standards[i].keyword))
            add(self, &count, standards[i].keyword, standards[i].value);
    for (const PQconninfoOption *option = options; option->keyword; option++)
        if (option->val && count < PG_TARGET_KEYWORDS_MAX)
            add(self, &count, option->keyword, option->val);
    const char *host = *find(options, "host") ? find(options, "host") : find(options, "hostaddr");
    snprintf(self->label, sizeof self->label, "%s/%s", *host ? host : "localhost",
             find(options, "dbname"));
    return 0;
}

void pg_target_fini(struct pg_target *self)
{
    PQconninfoFree(self->parsed);
    *self = (struct pg_target){0};
}
