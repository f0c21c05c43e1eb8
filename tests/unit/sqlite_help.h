// SPDX-License-Identifier: MIT
/* A folder of its own for an SQLite store, for the tests that open one. */
#ifndef MCPD_TESTS_SQLITE_HELP_H
#define MCPD_TESTS_SQLITE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HELP_FOLDER = 64, HELP_PATH = 96 };

/* Makes the folder and names the store's file in it. */
static inline void place_make(char folder[HELP_FOLDER], char path[HELP_PATH])
{
    snprintf(folder, HELP_FOLDER, "/tmp/mcpd-store-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, HELP_PATH, "%s/mcpd.db", folder);
}

/* The store is closed. */
static inline void place_remove(const char *folder, const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char file[HELP_PATH + 8];
        snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        unlink(file);
    }
    rmdir(folder);
}

#endif
