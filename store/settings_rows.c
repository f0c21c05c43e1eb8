// SPDX-License-Identifier: MIT
#include "store/settings_rows.h"

#include <string.h>

#include "common/option_rows.h"

/* The file's struct has a name of its own. */
#define settings_file settings

#define OFFSET(object, field) offsetof(struct settings_##object, field)

static const struct {
    const char *title;
    size_t size;
} objects[OBJECT_COUNT] = {
#define OBJECT(object, title) {title, sizeof(struct settings_##object)},
#include "store/settings.def"
};

static const struct settings_field rows[] = {
#define FIELD(object, type, name, field, standard, min, max, help) \
    {OBJECT_##object, TYPE_##type, name, standard, min, max, help, OFFSET(object, field), 0, 0},
#define MANY(type, object, field, of, max, help) \
    {OBJECT_##object,                            \
     TYPE_##type,                                \
     #field,                                     \
     "",                                         \
     0,                                          \
     max,                                        \
     help,                                       \
     OFFSET(object, field),                      \
     OFFSET(object, field##_count),              \
     of},
#define LIST(object, field, of, max, help) MANY(LIST, object, field, OBJECT_##of, max, help)
#define MAP(object, field, of, max, help)  MANY(MAP, object, field, OBJECT_##of, max, help)
#define TEXTS(object, field, max, help)    MANY(TEXTS, object, field, 0, max, help)
#define PART(object, field, of, help) \
    {OBJECT_##object, TYPE_PART, #field, "", 0, 0, help, OFFSET(object, field), 0, OBJECT_##of},
#include "store/settings.def"
};

static const char *const later_sections[] = {
#define LATER(name) name,
#include "store/settings.def"
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

const struct settings_field *settings_rows(size_t *count)
{
    *count = COUNT_OF(rows);
    return rows;
}

const char *settings_object_title(enum settings_object object)
{
    return objects[object].title;
}

size_t settings_object_size(enum settings_object object)
{
    return objects[object].size;
}

bool settings_field_is_required(const struct settings_field *field)
{
    return field->standard[0] == '*';
}

const char *settings_field_words(const struct settings_field *field)
{
    const char *bar = strchr(field->standard, '|');
    return settings_field_is_required(field) && bar ? bar + 1 : field->standard;
}

bool settings_is_later(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(later_sections); i++)
        if (strcmp(name, later_sections[i]) == 0)
            return true;
    return false;
}

static void write_limit(enum field_type type, double value, char out[OPTION_NUMBER_MAX])
{
    if (type == TYPE_SIZE || type == TYPE_MS)
        option_format(type == TYPE_SIZE ? OPTION_SIZE : OPTION_MS, (uint64_t)value, out);
    else
        snprintf(out, OPTION_NUMBER_MAX, type == TYPE_DAYS ? "%.0fd" : "%.15g", value);
}

void settings_field_range(const struct settings_field *field, char out[SETTINGS_RANGE_MAX])
{
    char low[OPTION_NUMBER_MAX], high[OPTION_NUMBER_MAX];
    *out = '\0';
    if (field->type < TYPE_DAYS || field->type > TYPE_NUMBER || field->max == 0)
        return;
    write_limit(field->type, field->min, low);
    write_limit(field->type, field->max, high);
    snprintf(out, SETTINGS_RANGE_MAX, " (%s to %s)", low, high);
}

/* --- docs/settings.md --- */

static const char *value_word(const struct settings_field *field)
{
    static const char *const words[] = {
        [TYPE_TEXT] = "text",     [TYPE_NAME] = "name",         [TYPE_PROJECT] = "project",
        [TYPE_URL] = "URL",       [TYPE_VARIABLE] = "variable", [TYPE_SHA256] = "64 hex digits",
        [TYPE_CHOICE] = "one of", [TYPE_TIME] = "date or time", [TYPE_DAYS] = "days, `30d`",
        [TYPE_MS] = "time",       [TYPE_SIZE] = "size",         [TYPE_COUNT] = "number",
        [TYPE_NUMBER] = "number", [TYPE_LIST] = "list of maps", [TYPE_TEXTS] = "list of texts",
        [TYPE_MAP] = "map",       [TYPE_PART] = "map",
    };
    return words[field->type];
}

static void print_choice(const struct settings_field *field, FILE *out)
{
    for (const char *word = settings_field_words(field); *word;) {
        size_t len = strcspn(word, "|");
        fprintf(out, " `%.*s`", (int)len, word);
        word += len + (word[len] == '|');
    }
}

static void print_default(const struct settings_field *field, FILE *out)
{
    bool is_number = field->type >= TYPE_DAYS && field->type <= TYPE_NUMBER;
    if (settings_field_is_required(field))
        fputs("must be there", out);
    else if (*field->standard && !(is_number && strstr(field->standard, "inf")))
        fprintf(out, "`%.*s`", (int)strcspn(field->standard, "|"), field->standard);
}

static void print_field(const struct settings_field *field, FILE *out)
{
    char range[SETTINGS_RANGE_MAX];
    settings_field_range(field, range);
    fprintf(out, "| `%s` | %s", field->name, value_word(field));
    if (field->type == TYPE_CHOICE)
        print_choice(field, out);
    if (field->type == TYPE_LIST || field->type == TYPE_TEXTS || field->type == TYPE_MAP)
        fprintf(out, ", up to %.0f", field->max);
    fprintf(out, "%s | ", range);
    print_default(field, out);
    fprintf(out, " | %s |\n", field->help);
}

void settings_markdown(FILE *out)
{
    fputs("# Settings file\n\nGenerated from `store/settings.def`: every field of the file that "
          "`--config` names. How it is\nused is in [configuration](configuration.md#the-settings-"
          "file). A field that does not stand here is refused.\n",
          out);
    for (int object = 0; object < OBJECT_COUNT; object++) {
        fprintf(out, "\n## %s\n\n| Field | Value | Default | Meaning |\n|---|---|---|---|\n",
                objects[object].title);
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            if ((int)rows[i].object == object)
                print_field(&rows[i], out);
    }
    fputs("\nA name is 1 to 64 of letters, digits, `.`, `_` and `-`, a project 1 to 40 of `a-z`, "
          "`0-9` and `-`.\nSections of later versions are refused as such:",
          out);
    for (size_t i = 0; i < COUNT_OF(later_sections); i++)
        fprintf(out, "%s `%s`", i > 0 ? "," : "", later_sections[i]);
    fputs(".\n", out);
}
