// SPDX-License-Identifier: MIT
/*
 * options: every setting of every role from one table, options.def. Parsed once in main; the roles
 * get the struct read-only. Order: default, environment, flag; a flag replaces a whole list.
 */
#ifndef MCPD_OPTIONS_H
#define MCPD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/err.h"

/* Which roles take an option; a relay has a bit of its own, as it is not the sum of its parts
 * (it takes no --broker). */
enum role_bits {
    R_GATEWAY = 1,
    R_BROKER = 2,
    R_COURIER = 4,
    R_DAEMON = 8,
    R_RELAY = 16,
    R_ALL = 31,
};

struct text_list {
    char **items; /* NUL-terminated, owned */
    size_t count;
};

typedef uint64_t option_SIZE;
typedef uint64_t option_MS;
typedef uint64_t option_SECONDS;
typedef uint64_t option_COUNT;
typedef bool option_BOOL;
typedef char *option_CHOICE;
typedef char *option_TEXT; /* never null; empty when not given */
typedef char *option_SECRET;
typedef struct text_list option_LIST;
typedef struct text_list option_SECRETS;

struct options {
#define OPTION(type, field, flag, roles, standard, min, max, help) option_##type field;
#include "common/options.def"
#undef OPTION
};

/* Reads defaults, variables (as environ) and argv (argv[0] and the role's name already taken out:
 * every argument is an option) for a role, checks each value and the rules across fields
 * (options_check). Returns 0; or -1 with one line that names the option and what is allowed.
 * Secrets in argv are overwritten as soon as they are copied. */
int options_parse(struct options *self, enum role_bits role, int argc, char **argv,
                  char **variables, struct err *err) MUST_USE;
void options_fini(struct options *self);

/* The index of the first of the arguments that is neither an option nor an option's value (the
 * role's name), or -1. */
int options_find_word(int argc, char **argv);

/* The rules across fields, for the role; called by options_parse. */
int options_check(const struct options *self, enum role_bits role, struct err *err) MUST_USE;

/* Whether a store is named by a Postgres URL; else by the path of a file. */
bool options_is_postgres_url(const char *text);

/* Whether others than this machine can reach the door and nothing among the options says who may.
 */
bool options_need_keys(const struct options *self);

/* --help: the options of a role. */
void options_help(enum role_bits role, FILE *out);
/* The same table as Markdown, docs/options.md. */
void options_markdown(FILE *out);

/* `mcpd config`: a line a part, secrets masked. A part's label is padded to a column. */
#define OPTIONS_LABEL "%-16s"
void options_print(const struct options *self, FILE *out);

/* Value parsers, also for settings that are not options ("512MiB", "30s", "250ms").
 * -1 unless the whole text is one number with one known unit that fits 64 bits. */
int options_parse_size(const char *text, uint64_t *bytes) MUST_USE;
int options_parse_ms(const char *text, uint64_t *ms) MUST_USE;

/* The value of a variable whose name stands in a settings file, so that a secret need not; null
 * where it is not set or empty. Lives as long as the process. */
const char *options_named_variable(const char *name);

/* <spool-dir>/relay, malloc'd: from --spool-dir, or the path of --data with a final .db replaced by
 * .spool (added where there is none). */
char *options_spool_path(const struct options *self) MUST_USE;

#endif
