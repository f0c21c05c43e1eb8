// SPDX-License-Identifier: MIT
#include "store/settings_check.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "store/expr.h"
#include "store/settings_fields.h"

/* Of all texts that make a definition. */
#define DEFINITION_MAX ((size_t)64 * 1024)

/* The line of a field of a list's item, or of the item where the field was left out. */
static size_t line_of(const struct node *root, const char *list, size_t index, const char *field)
{
    const struct node *item = node_item(node_child(root, list), index);
    const struct node *node = field ? node_child(item, field) : NULL;
    return node ? node->line : item->line;
}

static int check_keys(const struct settings *self, const struct node *root, struct err *err)
{
    for (size_t i = 0; i < self->keys_count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct settings_key *key = &self->keys[i], *other = &self->keys[j];
            if (strcmp(key->name, other->name) == 0)
                return err_set(err, "line %zu: keys[%zu].name: '%s' is the name of keys[%zu], too",
                               line_of(root, "keys", i, "name"), i, key->name, j);
            if (memcmp(key->sha256, other->sha256, SHA256_LEN) == 0)
                return err_set(err, "line %zu: keys[%zu].sha256: this is the key of keys[%zu], too",
                               line_of(root, "keys", i, "sha256"), i, j);
        }
    }
    return 0;
}

/* What is wrong with the scorer in itself; null: nothing. *field is set to where. */
static const char *find_fault(const struct settings_scorer *scorer, const char **field)
{
    const struct settings_output *output = scorer->output;
    *field = NULL;
    if (!scorer->rule == !scorer->judge)
        return "exactly one of rule and judge must be there";
    *field = "output";
    if (!output)
        return NULL;
    bool has_range = isfinite(output->min) || isfinite(output->max);
    if (scorer->rule && output->type != SCORE_BOOLEAN)
        return "a rule gives a boolean; leave output out";
    if (has_range && output->type != SCORE_NUMBER)
        return "min and max are for the type number";
    if (output->labels_count > 0 && output->type != SCORE_LABEL)
        return "labels are for the type label";
    if (output->min > output->max)
        return "min is above max";
    return NULL;
}

static int check_condition(const struct node *root, size_t i, const char *field, const char *text,
                           struct err *err)
{
    struct err reason = {""};
    expr_t *expr = text ? expr_parse(text, listing_row(LISTING_TRACES), &reason) : NULL;
    bool is_wrong = text && !expr;
    expr_destroy(&expr);
    if (!is_wrong)
        return 0;
    return err_set(err, "line %zu: scorers[%zu].%s: %s", line_of(root, "scorers", i, field), i,
                   field, reason.text);
}

static void add_part(struct buf *out, const char *name, const char *text)
{
    int rc = text ? buf_printf(out, "%s=%zu:%s\n", name, strlen(text), text) : 0;
    assert(rc == 0); /* all of it is bounded by the limits of the fields */
}

/* A digest of what decides a score: with another one, older scores mean something else. */
static const char *derive_version(struct settings *self, const struct settings_scorer *scorer)
{
    struct buf definition;
    char hex[SHA256_HEX_SIZE], numbers[128];
    const struct settings_output *output = scorer->output;
    buf_init(&definition, DEFINITION_MAX);
    add_part(&definition, "where", scorer->where);
    add_part(&definition, "rule", scorer->rule);
    if (scorer->judge) {
        add_part(&definition, "url", scorer->judge->url);
        snprintf(numbers, sizeof numbers, "%d %llu", (int)scorer->judge->format,
                 (unsigned long long)scorer->judge->max_input_bytes);
        add_part(&definition, "judge", numbers);
    }
    snprintf(numbers, sizeof numbers, "%d %d %.17g %.17g", (int)scorer->on, (int)output->type,
             output->min, output->max);
    add_part(&definition, "output", numbers);
    for (size_t i = 0; i < output->labels_count; i++)
        add_part(&definition, "label", output->labels[i]);
    sha256_hex((struct slice){definition.data, definition.len}, hex);
    buf_fini(&definition);
    char *version = arena_zalloc(&self->arena, SETTINGS_VERSION_LEN + 1);
    assert(version);
    memcpy(version, hex, SETTINGS_VERSION_LEN);
    return version;
}

static void complete_scorer(struct settings *self, struct settings_scorer *scorer)
{
    if (!scorer->output) {
        struct settings_output *output = settings_standard_output(self);
        if (scorer->rule)
            output->type = SCORE_BOOLEAN;
        scorer->output = output;
    }
    if (!scorer->version)
        scorer->version = derive_version(self, scorer);
}

static int check_scorers(struct settings *self, const struct node *root, struct err *err)
{
    /* Not const while it is being made. */
    struct settings_scorer *scorers = (struct settings_scorer *)self->scorers;
    for (size_t i = 0; i < self->scorers_count; i++) {
        const char *field;
        const char *fault = find_fault(&scorers[i], &field);
        if (fault)
            return err_set(err, "line %zu: scorers[%zu]%s%s: %s",
                           line_of(root, "scorers", i, field), i, field ? "." : "",
                           field ? field : "", fault);
        if (check_condition(root, i, "where", scorers[i].where, err) == -1 ||
            check_condition(root, i, "rule", scorers[i].rule, err) == -1)
            return -1;
        for (size_t j = 0; j < i; j++)
            if (strcmp(scorers[i].name, scorers[j].name) == 0)
                return err_set(err,
                               "line %zu: scorers[%zu].name: '%s' is the name of scorers[%zu], too",
                               line_of(root, "scorers", i, "name"), i, scorers[i].name, j);
        complete_scorer(self, &scorers[i]);
    }
    return 0;
}

int settings_check(struct settings *self, const struct node *root, struct err *err)
{
    self->has_keys = node_child(root, "keys") != NULL;
    return check_keys(self, root, err) == 0 ? check_scorers(self, root, err) : -1;
}
