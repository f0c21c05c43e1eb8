// SPDX-License-Identifier: MIT
#include "store/settings_tool.h"

#include <string.h>

#include "common/clock.h"
#include "common/options.h"
#include "store/settings.h"

#define EXIT_IN_ORDER 0
#define EXIT_REFUSED  2

static void print_summary(const struct settings *settings, FILE *out)
{
    fprintf(out, "%zu key(s), %zu project(s), %zu scorer(s); sha256 %s\n", settings->keys_count,
            settings->projects_count, settings->scorers_count, settings->hash);
}

/* A file is often checked on another machine than the one that runs it. */
static void print_missing_variables(const char *path, const struct settings *settings, FILE *errors)
{
    for (size_t i = 0; i < settings->scorers_count; i++) {
        const struct settings_judge *judge = settings->scorers[i].judge;
        if (judge && judge->key_env && !options_named_variable(judge->key_env))
            fprintf(errors, "%s: note: scorers[%zu].judge.key_env: %s is not set here\n", path, i,
                    judge->key_env);
    }
}

/* No mistake, but seldom meant. */
static void print_expired_keys(const char *path, const struct settings *settings, FILE *errors)
{
    for (size_t i = 0; i < settings->keys_count; i++) {
        const struct settings_key *key = &settings->keys[i];
        if (key->expires_s > 0 && key->expires_s <= clock_wall_s())
            fprintf(errors, "%s: note: keys[%zu].expires: %s has expired\n", path, i, key->name);
    }
}

int settings_tool(int argc, char **argv, FILE *out, FILE *errors)
{
    struct err err = {{0}};
    if (argc != 1 || argv[0][0] == '-') {
        fprintf(errors, "mcpd: check takes one FILE, as 'mcpd check /etc/mcpd.yaml'\n");
        return EXIT_REFUSED;
    }
    const struct settings *settings = settings_read(argv[0], &err);
    if (!settings) {
        fprintf(errors, "%s: %s\n", argv[0], err.text);
        return EXIT_REFUSED;
    }
    print_missing_variables(argv[0], settings, errors);
    print_expired_keys(argv[0], settings, errors);
    fprintf(out, "%s: in order, ", argv[0]);
    print_summary(settings, out);
    settings_release(&settings);
    return EXIT_IN_ORDER;
}

void settings_print(const char *path, FILE *out)
{
    struct err err = {{0}};
    fprintf(out, OPTIONS_LABEL, "settings");
    if (!*path) {
        fputs("off, no --config\n", out);
        return;
    }
    const struct settings *settings = settings_read(path, &err);
    fprintf(out, "%s; ", path);
    if (settings)
        print_summary(settings, out);
    else
        fprintf(out, "refused: %s\n", err.text);
    settings_release(&settings);
}
