// SPDX-License-Identifier: MIT
/* What people read of the options: --help, the reference page, `mcpd config`. */
#include "common/option_rows.h"

#include <stdlib.h>
#include <string.h>

static const char *value_word(const struct option_row *row)
{
    static const char *const words[] = {
        [OPTION_SIZE] = "SIZE",   [OPTION_MS] = "TIME",     [OPTION_SECONDS] = "SECONDS",
        [OPTION_COUNT] = "N",     [OPTION_BOOL] = "on|off", [OPTION_TEXT] = "TEXT",
        [OPTION_LIST] = "TEXT",   [OPTION_SECRET] = "KEY",  [OPTION_SECRETS] = "KEY",
        [OPTION_CHOICE] = "WORD",
    };
    return row->type == OPTION_CHOICE ? row->standard : words[row->type];
}

static void standard_text(const struct option_row *row, char out[OPTION_NUMBER_MAX])
{
    snprintf(out, OPTION_NUMBER_MAX, "%.*s",
             row->type == OPTION_CHOICE ? (int)strcspn(row->standard, "|") : OPTION_NUMBER_MAX - 1,
             row->standard);
}

void options_help(enum role_bits role, FILE *out)
{
    size_t count;
    const struct option_row *rows = option_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if ((rows[i].roles & role) == 0)
            continue;
        char standard[OPTION_NUMBER_MAX];
        standard_text(&rows[i], standard);
        fprintf(out, "  --%s %s%s\n        %s%s%s%s\n", rows[i].flag, value_word(&rows[i]),
                option_is_list(&rows[i]) ? "  (repeatable)" : "", rows[i].help,
                *standard ? " (default " : "", standard, *standard ? ")" : "");
        if (option_is_secret(&rows[i]))
            fprintf(out, "  --%s-file FILE\n        the same, read from a file, a key a line\n",
                    rows[i].flag);
    }
}

static void role_words(unsigned roles, FILE *out)
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {{R_RELAY, "relay"},
                 {R_GATEWAY, "gateway"},
                 {R_BROKER, "broker"},
                 {R_COURIER, "courier"},
                 {R_DAEMON, "daemon"}};
    if (roles == R_ALL) {
        fputs("all", out);
        return;
    }
    const char *comma = "";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (roles & words[i].bit) {
            fprintf(out, "%s%s", comma, words[i].word);
            comma = ", ";
        }
}

void options_markdown(FILE *out)
{
    fputs("# Options\n\nGenerated from `common/options.def`. Order: default, environment, flag; a "
          "flag replaces a whole list. Sizes\naccept `512MiB`, times `30s` or `250ms`. A list's "
          "variable is plural and comma separated; the singular works too.\n\n"
          "| Flag | Variable | Roles | Default | Range | Meaning |\n|---|---|---|---|---|---|\n",
          out);
    size_t count;
    const struct option_row *rows = option_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const struct option_row *row = &rows[i];
        char variable[OPTION_NAME_MAX], standard[OPTION_NUMBER_MAX];
        char low[OPTION_NUMBER_MAX] = "", high[OPTION_NUMBER_MAX] = "";
        option_variable(row->flag, option_is_list(row), variable);
        standard_text(row, standard);
        if (row->max > 0) {
            option_format(row->type, row->min, low);
            option_format(row->type, row->max, high);
        }
        fprintf(out, "| `--%s`%s | `%s` | ", row->flag, option_is_secret(row) ? " and `-file`" : "",
                variable);
        role_words(row->roles, out);
        fprintf(out, " | %s | %s%s%s", *standard ? standard : "none", low, *low ? " to " : "",
                high);
        if (row->type == OPTION_CHOICE)
            for (const char *c = row->standard; *c; c++)
                fprintf(out, *c == '|' ? ", " : "%c", *c);
        fprintf(out, " | %s |\n", row->help);
    }
}

/* A URL without the password somebody may have put in front of its host, and without what follows
 * it behind a blank. */
static void print_url(const char *url, FILE *out)
{
    size_t len = strcspn(url, " ");
    const char *scheme_end = strstr(url, "://");
    size_t host_at = scheme_end ? (size_t)(scheme_end + 3 - url) : 0;
    size_t authority_len = host_at + strcspn(url + host_at, "/ ");
    const char *at = memrchr(url + host_at, '@', authority_len - host_at);
    if (at) {
        fprintf(out, "%.*s***", (int)host_at, url);
        host_at = (size_t)(at - url);
        fprintf(out, "%.*s", (int)(len - host_at), url + host_at);
    } else {
        fprintf(out, "%.*s", (int)len, url);
    }
}

static void print_list(const struct text_list *list, FILE *out)
{
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "", list->items[i]);
}

static void print_door(const struct options *self, FILE *out)
{
    char body[OPTION_NUMBER_MAX];
    option_format(OPTION_SIZE, self->max_body_bytes, body);
    fprintf(out, OPTIONS_LABEL, "door");
    print_list(&self->listen, out);
    if (self->ingest_key.count > 0)
        fprintf(out, "; %zu ingest key(s)", self->ingest_key.count);
    else
        fputs("; no key needed", out);
    fprintf(out, "; bodies up to %s in %llu s; %llu threads\n", body,
            (unsigned long long)self->request_timeout_seconds, (unsigned long long)self->threads);
}

static void print_relay(const struct options *self, FILE *out)
{
    fprintf(out, OPTIONS_LABEL, "relay");
    if (self->upstream.count == 0) {
        fputs("off, no --upstream\n", out);
        return;
    }
    fprintf(out, "%zu upstream(s) in order", self->upstream.count);
    for (size_t i = 0; i < self->upstream.count; i++) {
        fputs(", ", out);
        print_url(self->upstream.items[i], out);
    }
    char *spool = options_spool_path(self);
    fprintf(out, "; %s; spool at %s, %llu MiB\n",
            *self->upstream_key ? "the key of --upstream-key presented"
                                : "each sender's key passed on",
            spool, (unsigned long long)(self->spool_max_bytes >> 20));
    free(spool);
}

/* URLs hold passwords and are not shown. */
static void print_daemon(const struct options *self, FILE *out)
{
    char ttl[OPTION_NUMBER_MAX];
    char pass[OPTION_NUMBER_MAX];
    const char *runs = self->runs_data;
    option_format(OPTION_MS, self->idempotency_ttl, ttl);
    option_format(OPTION_MS, self->pass_interval, pass);
    if (*self->store)
        fprintf(out, OPTIONS_LABEL "data in a Postgres, shared", "daemon");
    else
        fprintf(out, OPTIONS_LABEL "data at %s", "daemon", self->data);
    if (strcmp(runs, "embedded") == 0)
        fprintf(out, "; runs at %s", self->data);
    else if (*runs)
        fprintf(out, "; runs %s", strcmp(runs, "off") == 0 ? "off" : "in a Postgres");
    fprintf(out, "; keys of requests remembered for %s; passes every %s\n", ttl, pass);
}

void options_print(const struct options *self, FILE *out)
{
    char time[OPTION_NUMBER_MAX];
    print_door(self, out);
    print_relay(self, out);
    option_format(OPTION_MS, self->lease, time);
    fprintf(out, OPTIONS_LABEL "leases of %s\n", "broker", time);
    fprintf(out, OPTIONS_LABEL "%llu worker(s)\n", "courier", (unsigned long long)self->workers);
    print_daemon(self, out);
    fprintf(out, OPTIONS_LABEL, "admin");
    if (self->admin_listen.count > 0)
        print_list(&self->admin_listen, out);
    else
        fputs("off, no --admin-listen", out);
    fprintf(out, "\n" OPTIONS_LABEL "%s, from %s up\n", "log", self->log_format, self->log_level);
}
