// SPDX-License-Identifier: MIT
/* settings_rows: the rows of settings.def, for the files that walk them: the reader, the readers of
 * single values, the reference page. */
#ifndef MCPD_STORE_SETTINGS_ROWS_H
#define MCPD_STORE_SETTINGS_ROWS_H

#include "store/settings.h"

enum settings_object {
#define OBJECT(object, title) OBJECT_##object,
#include "store/settings.def"
    OBJECT_COUNT
};

enum field_type {
    TYPE_TEXT,
    TYPE_NAME,
    TYPE_PROJECT,
    TYPE_URL,
    TYPE_VARIABLE,
    TYPE_SHA256,
    TYPE_CHOICE,
    TYPE_TIME,
    TYPE_DAYS,
    TYPE_MS,
    TYPE_SIZE,
    TYPE_COUNT,
    TYPE_NUMBER,
    TYPE_LIST,
    TYPE_TEXTS,
    TYPE_MAP,
    TYPE_PART,
};

struct settings_field {
    enum settings_object object;
    enum field_type type;
    const char *name;
    const char *standard; /* "" : may be left out; "*": must be there */
    double min;
    double max;
    const char *help;
    size_t offset;           /* in the object's struct */
    size_t count_offset;     /* of how many a list or map has */
    enum settings_object of; /* what a list, map or part holds */
};

const struct settings_field *settings_rows(size_t *count);
const char *settings_object_title(enum settings_object object);
size_t settings_object_size(enum settings_object object); /* of its struct */
bool settings_field_is_required(const struct settings_field *field);
/* The words of a CHOICE, separated by '|'. */
const char *settings_field_words(const struct settings_field *field);
/* Whether later versions know this section. */
bool settings_is_later(const char *name);

#define SETTINGS_RANGE_MAX 80
/* " (100ms to 10m)", or "" where there is no range. */
void settings_field_range(const struct settings_field *field, char out[SETTINGS_RANGE_MAX]);

#endif
