// SPDX-License-Identifier: MIT
/*
 * settings: what the settings file (--config) says, as one snapshot that never changes: a new file
 * makes a new snapshot. It is counted; whoever holds it may read it from any thread, and everything
 * in it lives until the last holder has let go. The fields are the rows of settings.def.
 *
 * Every text is clean UTF-8 without control characters and never empty; null: not given.
 */
#ifndef MCPD_STORE_SETTINGS_H
#define MCPD_STORE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/grant.h"
#include "common/sha256.h"
#include "proto/batch.h"

#define SETTINGS_FILE_MAX    ((size_t)1024 * 1024)
#define SETTINGS_NAME_MAX    64 /* of A-Z, a-z, 0-9, '.', '_' and '-' */
#define SETTINGS_VERSION_LEN 12 /* of a version that was derived */

/* A key by its digest; the file holds no secret. */
struct settings_key {
    const char *name;
    const char *project;
    enum grant_scope scope;
    uint8_t sha256[SHA256_LEN];
    uint64_t expires_s; /* wall clock, since 1970; 0: never */
};

/* Ceilings a minute; 0: none. */
struct settings_quota {
    uint64_t requests;
    uint64_t events;
    uint64_t bytes;
};

struct settings_project {
    const char *name;
    uint64_t retention_days;            /* 0: for ever */
    const struct settings_quota *quota; /* null: none */
};

enum settings_target { SETTINGS_ON_TRACE };
enum settings_judge_format { SETTINGS_JUDGE_MCPD };

struct settings_judge {
    const char *url;
    enum settings_judge_format format;
    const char *key_env; /* name of a variable, for options_named_variable; null: no key */
    uint64_t timeout_ms;
    uint64_t max_input_bytes;
    uint64_t retries;
    uint64_t parallel;
};

struct settings_output {
    enum score_type type;
    double min; /* -INFINITY and INFINITY where not given */
    double max;
    const char *const *labels;
    size_t labels_count; /* 0: any label */
};

/* Either rule or judge is set. */
struct settings_scorer {
    const char *name;
    enum settings_target on;
    const char *project; /* null: all */
    const char *where;   /* null: every trace */
    const char *rule;
    const struct settings_judge *judge;
    double sample;                        /* 0 to 1 */
    const struct settings_output *output; /* never null; of a rule a boolean */
    const char *version;                  /* never null */
};

/* When a trace is taken to be complete. */
struct settings_settle {
    uint64_t quiet_ms;
    uint64_t max_age_ms;
};

struct settings {
    uint64_t version;
    const struct settings_settle *settle; /* null: not given */
    const struct settings_key *keys;
    size_t keys_count;
    const struct settings_project *projects;
    size_t projects_count;
    const struct settings_scorer *scorers;
    size_t scorers_count;

    bool has_keys; /* the section is there, however empty: nobody is let in without a key */
    /* SHA-256 of the file in hex, for comparing replicas; empty where there is no file. */
    char hash[SHA256_HEX_SIZE];

    struct arena arena; /* settings.c's own, like the next */
    _Atomic unsigned holders;
};

/* A snapshot without anything, as of a daemon without --config; held once. */
const struct settings *settings_none(void) MUST_USE;
/* Reads, checks; held once. Null with one line that names the file's line, the field, what is wrong
 * and what is allowed. The first is for the file's bytes, the second for a file (links are
 * followed); blocks. */
const struct settings *settings_parse(struct slice text, struct err *err) MUST_USE;
const struct settings *settings_read(const char *path, struct err *err) MUST_USE;
/* The file's bytes alone, of which there may be SETTINGS_FILE_MAX. */
int settings_load(const char *path, struct buf *content, struct err *err) MUST_USE;

/* One more holder. */
const struct settings *settings_hold(const struct settings *self) MUST_USE;
/* Lets go; takes null. */
void settings_release(const struct settings **self_p);

/* Null where the file has nothing of this project. */
const struct settings_project *settings_project(const struct settings *self, const char *name);

/* docs/settings.md */
void settings_markdown(FILE *out);

#endif
