// SPDX-License-Identifier: MIT
/*
 * An object is filled by walking the rows of its kind, and an object within it by the same
 * function, as deep as the rows go. Defaults are read as values of the file are.
 */
#include "store/settings_fields.h"

#include <assert.h>
#include <string.h>

#include "store/settings_values.h"

#define SHOWN_MAX     40 /* characters of a value that a message repeats */
#define PLACE_MAX     120
#define WORDS_MAX     200
#define TEXT_ITEM_MAX 200

/* Where in the file: "scorers[1].judge". */
struct place {
    const struct place *up;
    const char *name; /* null: of a list's item, by its index */
    size_t index;
};

struct reader {
    struct arena *arena;
    struct err *err;
};

static void write_place(const struct place *place, char out[PLACE_MAX])
{
    size_t len = 0;
    *out = '\0';
    if (!place)
        return;
    write_place(place->up, out);
    len = strlen(out);
    if (place->name)
        snprintf(out + len, PLACE_MAX - len, "%s%.48s", len > 0 ? "." : "", place->name);
    else
        snprintf(out + len, PLACE_MAX - len, "[%zu]", place->index);
}

/* Always -1. */
static int complain(const struct reader *reader, size_t line, const struct place *place,
                    const char *text)
{
    char where[PLACE_MAX];
    write_place(place, where);
    return err_set(reader->err, "line %zu: %s%s%s", line, where, *where ? ": " : "", text);
}

static bool is_nothing(const struct node *node)
{
    static const char *const nothings[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != NODE_TEXT || !node->is_plain)
        return false;
    for (size_t i = 0; i < sizeof nothings / sizeof nothings[0]; i++)
        if (strcmp(node->text, nothings[i]) == 0)
            return true;
    return false;
}

/* What came instead, fit for a message. Where a secret may stand by mistake, it is not shown. */
static void write_found(const struct settings_field *field, const struct node *node,
                        char out[SHOWN_MAX + 8])
{
    if (node->kind != NODE_TEXT)
        snprintf(out, SHOWN_MAX + 8, "a %s", node->kind == NODE_MAP ? "map" : "list");
    else if (is_nothing(node))
        snprintf(out, SHOWN_MAX + 8, "nothing");
    else if (field->type == TYPE_SHA256 || field->type == TYPE_VARIABLE || field->type == TYPE_URL)
        snprintf(out, SHOWN_MAX + 8, "this");
    else
        snprintf(out, SHOWN_MAX + 8, "'%.*s'", SHOWN_MAX, node->text);
}

static int refuse_value(const struct reader *reader, const struct settings_field *field,
                        const struct node *node, const struct place *place)
{
    char found[SHOWN_MAX + 8], range[SETTINGS_RANGE_MAX], text[WORDS_MAX];
    write_found(field, node, found);
    settings_field_range(field, range);
    snprintf(text, sizeof text, "%s is not %s%s%s%s", found, settings_value_words(field),
             field->type == TYPE_CHOICE ? settings_field_words(field) : "", range,
             field->type == TYPE_LIST && is_nothing(node) ? "; an empty one is written []" : "");
    return complain(reader, node->line, place, text);
}

static const struct settings_field *find_field(enum settings_object object, const char *name)
{
    size_t count;
    const struct settings_field *rows = settings_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].object == object && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static int refuse_name(const struct reader *reader, enum settings_object object,
                       const struct node *node, const struct place *place)
{
    char text[WORDS_MAX];
    size_t count;
    const struct settings_field *rows = settings_rows(&count);
    if (object == OBJECT_file && settings_is_later(node->key)) {
        snprintf(text, sizeof text, "the section '%s' is not known to this version", node->key);
        return complain(reader, node->line, place, text);
    }
    size_t len =
        (size_t)snprintf(text, sizeof text, "'%.*s' is unknown; allowed are", SHOWN_MAX, node->key);
    const char *comma = " ";
    for (size_t i = 0; i < count && len < sizeof text; i++) {
        if (rows[i].object != object)
            continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", comma, rows[i].name);
        comma = ", ";
    }
    return complain(reader, node->line, place, text);
}

static int fill_object(const struct reader *reader, enum settings_object object,
                       const struct node *node, const struct place *place, void *out);

static void *allocate(const struct reader *reader, size_t size)
{
    void *memory = arena_zalloc(reader->arena, size);
    assert(memory); /* the arena has room for as many nodes as there may be */
    return memory;
}

/* An array of the field's objects, put into the struct with its length. */
static char *put_array(const struct reader *reader, const struct settings_field *field,
                       const struct node *node, size_t item_size, void *out)
{
    void *items = allocate(reader, node->children * item_size);
    *(void **)((char *)out + field->offset) = items;
    *(size_t *)((char *)out + field->count_offset) = node->children;
    return items;
}

static int check_many(const struct reader *reader, const struct settings_field *field,
                      enum node_kind kind, const struct node *node, const struct place *place)
{
    char text[WORDS_MAX];
    if (node->kind != kind)
        return refuse_value(reader, field, node, place);
    if (node->children <= (size_t)field->max)
        return 0;
    snprintf(text, sizeof text, "%zu are given, %.0f are allowed", node->children, field->max);
    return complain(reader, node->line, place, text);
}

static int fill_list(const struct reader *reader, const struct settings_field *field,
                     const struct node *node, const struct place *place, void *out)
{
    if (check_many(reader, field, NODE_LIST, node, place) == -1)
        return -1;
    size_t size = settings_object_size(field->of);
    char *item = put_array(reader, field, node, size, out);
    struct place own = {.up = place};
    for (const struct node *child = node->first; child; child = child->next, item += size) {
        if (fill_object(reader, field->of, child, &own, item) == -1)
            return -1;
        own.index++;
    }
    return 0;
}

/* The names are projects' names, and each stands in its object, too. */
static int fill_map(const struct reader *reader, const struct settings_field *field,
                    const struct node *node, const struct place *place, void *out)
{
    struct settings_field name = {.type = TYPE_PROJECT,
                                  .offset = offsetof(struct settings_project, name)};
    if (check_many(reader, field, NODE_MAP, node, place) == -1)
        return -1;
    size_t size = settings_object_size(field->of);
    char *item = put_array(reader, field, node, size, out);
    for (const struct node *child = node->first; child; child = child->next, item += size) {
        struct place own = {.up = place, .name = child->key};
        struct node key = {.line = child->line, .text = child->key};
        if (settings_value_read(&name, child->key, item) == -1)
            return refuse_value(reader, &name, &key, place);
        if (fill_object(reader, field->of, child, &own, item) == -1)
            return -1;
    }
    return 0;
}

static int fill_texts(const struct reader *reader, const struct settings_field *field,
                      const struct node *node, const struct place *place, void *out)
{
    struct settings_field one = {.type = TYPE_TEXT, .max = TEXT_ITEM_MAX};
    if (check_many(reader, field, NODE_LIST, node, place) == -1)
        return -1;
    char *item = put_array(reader, field, node, sizeof(char *), out);
    struct place own = {.up = place};
    for (const struct node *child = node->first; child; child = child->next) {
        if (child->kind != NODE_TEXT || is_nothing(child) ||
            settings_value_read(&one, child->text, item) == -1)
            return refuse_value(reader, &one, child, &own);
        item += sizeof(char *);
        own.index++;
    }
    return 0;
}

static int fill_part(const struct reader *reader, const struct settings_field *field,
                     const struct node *node, const struct place *place, void *out)
{
    void *part = allocate(reader, settings_object_size(field->of));
    *(void **)((char *)out + field->offset) = part;
    return fill_object(reader, field->of, node, place, part);
}

static int fill_field(const struct reader *reader, const struct settings_field *field,
                      const struct node *node, const struct place *place, void *out)
{
    struct place own = {.up = place, .name = field->name};
    switch (field->type) {
    case TYPE_LIST:
        return fill_list(reader, field, node, &own, out);
    case TYPE_MAP:
        return fill_map(reader, field, node, &own, out);
    case TYPE_TEXTS:
        return fill_texts(reader, field, node, &own, out);
    case TYPE_PART:
        return fill_part(reader, field, node, &own, out);
    default:
        if (node->kind != NODE_TEXT || is_nothing(node) ||
            settings_value_read(field, node->text, out) == -1)
            return refuse_value(reader, field, node, &own);
        return 0;
    }
}

static void put_standard(const struct settings_field *field, void *out)
{
    char word[32];
    const char *text = field->standard;
    if (!*text)
        return;
    if (field->type == TYPE_CHOICE) { /* the first of its words */
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, "|"), text);
        text = word;
    }
    int rc = settings_value_read(field, text, out);
    assert(rc == 0); /* a default in the table that its own row refuses */
}

static int fill_object(const struct reader *reader, enum settings_object object,
                       const struct node *node, const struct place *place, void *out)
{
    size_t count;
    const struct settings_field *rows = settings_rows(&count);
    if (node->kind != NODE_MAP)
        return complain(reader, node->line, place, "a map of fields is expected here");
    for (size_t i = 0; i < count; i++)
        if (rows[i].object == object && !settings_field_is_required(&rows[i]))
            put_standard(&rows[i], out);
    for (const struct node *child = node->first; child; child = child->next) {
        const struct settings_field *field = find_field(object, child->key);
        if (!field)
            return refuse_name(reader, object, child, place);
        if (fill_field(reader, field, child, place, out) == -1)
            return -1;
    }
    for (size_t i = 0; i < count; i++) {
        char text[WORDS_MAX];
        if (rows[i].object != object || !settings_field_is_required(&rows[i]) ||
            node_child(node, rows[i].name))
            continue;
        snprintf(text, sizeof text, "'%s' is missing: %s", rows[i].name, rows[i].help);
        return complain(reader, node->line, place, text);
    }
    return 0;
}

int settings_fill(struct settings *self, const struct node *root, struct err *err)
{
    struct reader reader = {.arena = &self->arena, .err = err};
    return fill_object(&reader, OBJECT_file, root, NULL, self);
}

struct settings_output *settings_standard_output(struct settings *self)
{
    struct reader reader = {.arena = &self->arena};
    struct node nothing = {.kind = NODE_MAP};
    struct settings_output *output = allocate(&reader, sizeof *output);
    int rc = fill_object(&reader, OBJECT_output, &nothing, NULL, output);
    assert(rc == 0); /* none of its fields must be there */
    return output;
}
