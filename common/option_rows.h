// SPDX-License-Identifier: MIT
/* option_rows: the rows of options.def for the files that walk them (parser, help, config). */
#ifndef MCPD_OPTION_ROWS_H
#define MCPD_OPTION_ROWS_H

#include "common/options.h"

enum option_type {
    OPTION_SIZE,
    OPTION_MS,
    OPTION_SECONDS,
    OPTION_COUNT,
    OPTION_BOOL,
    OPTION_CHOICE,
    OPTION_TEXT,
    OPTION_LIST,
    OPTION_SECRET,
    OPTION_SECRETS
};

struct option_row {
    enum option_type type;
    size_t offset; /* of the field in struct options */
    const char *flag;
    unsigned roles;
    const char *standard; /* default, as text; of a CHOICE all words */
    uint64_t min;
    uint64_t max; /* 0: none */
    const char *help;
};

const struct option_row *option_rows(size_t *count);
bool option_is_list(const struct option_row *row);
bool option_is_secret(const struct option_row *row);

/* A number in the largest unit that divides it: "16MiB", "30s". */
#define OPTION_NUMBER_MAX 32
void option_format(enum option_type type, uint64_t value, char out[OPTION_NUMBER_MAX]);

/* MCPD_INGEST_KEY, or with plural MCPD_INGEST_KEYS. */
#define OPTION_NAME_MAX 64
void option_variable(const char *flag, bool plural, char out[OPTION_NAME_MAX]);

#endif
