// SPDX-License-Identifier: MIT
#include "proto/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to here each member is compared with each; beyond, they are sorted. */
#define DUPLICATES_BY_PAIRS 24

void value_set_source(struct value *value, size_t start, size_t end)
{
    value->source_at = start < UINT32_MAX ? (uint32_t)start : UINT32_MAX;
    value->source_len = end - start < UINT32_MAX ? (uint32_t)(end - start) : UINT32_MAX;
}

struct value *value_append(struct arena *arena, struct value_list *list)
{
    struct value *value = arena_zalloc(arena, sizeof(*value));
    if (!value)
        return NULL;
    if (list->last)
        list->last->next = value;
    else
        list->first = value;
    list->last = value;
    return value;
}

struct value *value_append_double(struct arena *arena, struct value_list *list, double number)
{
    struct value *value = value_append(arena, list);
    if (value) {
        value->type = VALUE_DOUBLE;
        value->number = number;
    }
    return value;
}

int value_set_uint(struct arena *arena, struct value *value, uint64_t number)
{
    char digits[24];
    if (number <= INT64_MAX) {
        value->type = VALUE_INT;
        value->integer = (int64_t)number;
        return 0;
    }
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number);
    value->type = VALUE_TEXT;
    value->text = (struct slice){arena_copy(arena, digits, len), len};
    return value->text.data ? 0 : -1;
}

static bool is_container(const struct value *value)
{
    return value->type == VALUE_ARRAY || value->type == VALUE_MAP;
}

size_t value_depth(const struct value *value)
{
    if (!is_container(value))
        return 0;
    size_t deepest = 0;
    for (const struct value *child = value->first; child; child = child->next) {
        size_t depth = value_depth(child);
        if (depth > deepest)
            deepest = depth;
    }
    return deepest + 1;
}

static int compare_slices(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len > 0 ? memcmp(a.data, b.data, a.len) : 0;
}

struct place {
    struct value *value;
    size_t order;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;
    int order = compare_slices(left->value->key, right->value->key);
    if (order != 0)
        return order;
    return left->order < right->order ? -1 : 1;
}

static int mark_sorted(struct value *first, size_t count, struct arena *scratch)
{
    struct place *places = arena_alloc(scratch, count * sizeof(*places));
    if (!places)
        return -1;
    size_t order = 0;
    for (struct value *value = first; value; value = value->next, order++)
        places[order] = (struct place){value, order};
    qsort(places, count, sizeof(*places), compare_places);
    for (size_t i = 0; i + 1 < count; i++)
        if (compare_slices(places[i].value->key, places[i + 1].value->key) == 0)
            places[i].value->is_skipped = true;
    return 0;
}

int value_mark_duplicates(struct value *first, struct arena *scratch)
{
    size_t count = 0;
    for (struct value *value = first; value; value = value->next)
        count++;
    if (count > DUPLICATES_BY_PAIRS)
        return mark_sorted(first, count, scratch);
    for (struct value *value = first; value; value = value->next)
        for (struct value *later = value->next; later && !value->is_skipped; later = later->next)
            if (compare_slices(value->key, later->key) == 0)
                value->is_skipped = true;
    return 0;
}
