// SPDX-License-Identifier: MIT
/* main and the tables of programs and tools: the only file that knows several roles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/broker_main.h"
#include "broker/spool_tool.h"
#include "common/healthcheck.h"
#include "common/key_form.h"
#include "common/metrics.h"
#include "common/options.h"
#include "common/role.h"
#include "common/version.h"
#include "courier/courier_main.h"
#include "gateway/gateway_main.h"
#include "proto/batch.h"
#include "proto/genai.h"
#include "proto/verdict.h"
#include "proto/wire.h"
#include "store/expr.h"
#include "store/refusal.h"
#include "store/settings.h"
#include "store/settings_tool.h"
#include "store/store_main.h"

#define EXIT_USAGE 2

static const struct program programs[] = {
    {"daemon", R_DAEMON, (const struct role *const[]){&daemon_role, NULL},
     "the regional daemon: stores each request once and reads it back (also without a role's "
     "name)"},
    {"relay", R_RELAY,
     (const struct role *const[]){&broker_role, &courier_role, &gateway_role, NULL},
     "gateway, broker and courier in one process"},
    {"gateway", R_GATEWAY, (const struct role *const[]){&gateway_role, NULL},
     "HTTP in: answers a sender when its request is on a broker's disk"},
    {"broker", R_BROKER, (const struct role *const[]){&broker_role, NULL},
     "the queue on disk between gateways and couriers"},
    {"courier", R_COURIER, (const struct role *const[]){&courier_role, NULL},
     "HTTP out: delivers from a broker to the upstreams, with failover"},
};
#define PROGRAM_COUNT (sizeof programs / sizeof programs[0])

static int print_usage(void)
{
    printf("usage: mcpd [ROLE] [OPTION...]\n\nRoles:\n");
    for (size_t i = 0; i < PROGRAM_COUNT; i++)
        printf("  %-10s %s\n", programs[i].name, programs[i].help);
    printf("\nTools:\n  config     print the settings as they come out of flags and environment\n"
           "  check FILE   read a settings file (--config) and say what is wrong with it\n"
           "  healthcheck  ask the process that these settings run whether it lives\n"
           "  version    print the version\n%s%s"
           "\n`mcpd ROLE --help` lists a role's options.\n",
           key_form_help, spool_tool_help);
    return EXIT_SUCCESS;
}

static int print_help(const struct program *program)
{
    printf("usage: mcpd %s [OPTION...]\n%s\n\nOptions, each also as variable MCPD_OPTION:\n",
           program->name, program->help);
    options_help(program->bit, stdout);
    return EXIT_SUCCESS;
}

static int fail(const struct err *err)
{
    fprintf(stderr, "mcpd: %s\n", err->text);
    return EXIT_USAGE;
}

static int print_config(int argc, char **argv)
{
    struct options options;
    struct err err;
    int rc = options_parse(&options, R_ALL, argc, argv, environ, &err);
    if (rc == 0) {
        options_print(&options, stdout);
        settings_print(options.config, stdout);
    }
    options_fini(&options);
    return rc == 0 ? EXIT_SUCCESS : fail(&err);
}

static int check_health(int argc, char **argv)
{
    struct options options;
    struct err err;
    int rc = options_parse(&options, R_ALL, argc, argv, environ, &err);
    if (rc == 0)
        rc = healthcheck_run(&options, &err);
    options_fini(&options);
    if (rc == -1)
        fprintf(stderr, "mcpd: %s\n", err.text);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Words are what is left when the options are taken out: "ls", "cat 1.2". */
static int look_into_spool(int argc, char **argv)
{
    struct options options;
    struct err err;
    char *words[3];
    int count = 0;
    for (int at; count < 3 && (at = options_find_word(argc, argv)) >= 0; argc--) {
        words[count++] = argv[at];
        memmove(&argv[at], &argv[at + 1], (size_t)(argc - at) * sizeof *argv);
    }
    int rc = options_parse(&options, R_ALL, argc, argv, environ, &err);
    if (rc == 0) {
        char *path = options_spool_path(&options);
        rc = spool_tool_run(path, words, count, stdout, &err);
        free(path);
    }
    options_fini(&options);
    return rc == -1 ? fail(&err) : rc;
}

static const char statuses_intro[] =
    "# Statuses\n\n"
    "Generated from the tables the answers are made of. A refusal is\n"
    "`{\"error\":{\"code\":\"...\",\"message\":\"...\"}}`, on the OTLP paths a `google.rpc.Status` "
    "with\nthe message, in the request's encoding. A 503 is to be sent again with the same bytes "
    "and\n"
    "key, a 4xx is not. A success is 202 from a relay, 200 on the OTLP paths and from a daemon.\n";

/* docs/statuses.md: the tables of all who answer. */
static void print_statuses(FILE *out)
{
    static const struct {
        const char *title;
        void (*print)(FILE *out);
    } tables[] = {
        {"Relay and gateway", verdict_markdown},
        {"Daemon", refusal_markdown},
        {"Bodies that cannot be read (daemon; relay and gateway with `--validate-otlp`)",
         batch_markdown},
        {"All of them, before a body is looked at", httpd_markdown},
        {"Why an event was rejected from a batch that was read", reject_markdown},
    };
    fputs(statuses_intro, out);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        fprintf(out, "\n## %s\n\n", tables[i].title);
        tables[i].print(out);
    }
}

/* The generated pages of docs/, one by its name. */
static int print_docs(int argc, char **argv)
{
    const char *name = argc > 0 ? argv[0] : NULL;
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } pages[] = {
        {"options", options_markdown}, {"metrics", metrics_markdown},
        {"messages", wire_markdown},   {"attributes", genai_markdown},
        {"statuses", print_statuses},  {"settings", settings_markdown},
        {"where", expr_markdown},
    };
    for (size_t i = 0; name && i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(name, pages[i].name) != 0)
            continue;
        pages[i].print(stdout);
        return EXIT_SUCCESS;
    }
    return EXIT_USAGE;
}

static int run(const struct program *program, int argc, char **argv)
{
    struct options options;
    struct err err;
    int rc = options_parse(&options, program->bit, argc, argv, environ, &err);
    int status = rc == 0 ? role_run(program, &options) : fail(&err);
    options_fini(&options);
    return status;
}

static const struct program *find_program(const char *name)
{
    for (size_t i = 0; i < PROGRAM_COUNT; i++)
        if (strcmp(programs[i].name, name) == 0)
            return &programs[i];
    return NULL;
}

/* mcpd-gateway and the like: the role is the name the program was called by. */
static const char *role_of_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    return strncmp(base, "mcpd-", 5) == 0 && find_program(base + 5) ? base + 5 : NULL;
}

static bool asks_for(int argc, char **argv, const char *flag)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], flag) == 0)
            return true;
    return false;
}

static int print_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return printf("mcpd %s\n", MCPD_VERSION) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int print_usage_tool(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return print_usage();
}

static int make_key(int argc, char **argv)
{
    struct err err;
    return key_form_tool(argc, argv, stdin, stdout, &err) == 0 ? EXIT_SUCCESS : fail(&err);
}

static int check_settings(int argc, char **argv)
{
    return settings_tool(argc, argv, stdout, stderr);
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} tools[] = {
    {"-h", print_usage_tool}, {"check", check_settings},     {"config", print_config},
    {"docs", print_docs},     {"healthcheck", check_health}, {"help", print_usage_tool},
    {"key", make_key},        {"spool", look_into_spool},    {"version", print_version},
};

/* A word that is neither a role nor a tool, or what an option before it was to have, when that is
 * no option at all. */
static int fail_word(const char *word, int before, char **argv)
{
    struct options options;
    struct err err;
    int rc = options_parse(&options, R_ALL, before, argv, environ, &err);
    options_fini(&options);
    if (rc == 0)
        err_set(&err, "'%s' is neither a role nor a tool; see mcpd --help", word);
    return fail(&err);
}

int main(int argc, char **argv)
{
    const char *word = argc > 0 ? role_of_name(argv[0]) : NULL;
    argc = argc > 0 ? argc - 1 : 0;
    argv++;
    int word_at = word ? -1 : options_find_word(argc, argv);
    if (word_at >= 0) {
        word = argv[word_at];
        memmove(&argv[word_at], &argv[word_at + 1], (size_t)(argc - word_at) * sizeof *argv);
        argc--;
    }
    if (asks_for(argc, argv, "--help") || asks_for(argc, argv, "-h"))
        return word && find_program(word) ? print_help(find_program(word)) : print_usage();
    if (asks_for(argc, argv, "--version"))
        return print_version(argc, argv);
    for (size_t i = 0; word && i < sizeof tools / sizeof tools[0]; i++)
        if (strcmp(tools[i].name, word) == 0)
            return tools[i].run(argc, argv);
    const struct program *program = find_program(word ? word : "daemon");
    if (!program)
        return fail_word(word, word_at, argv);
    return run(program, argc, argv);
}
