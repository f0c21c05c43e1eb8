// SPDX-License-Identifier: MIT
/*
 * settings_yaml: the text of a settings file, YAML or JSON, as a tree. Only what a settings file
 * needs is taken: one document of maps, lists and texts. Anchors, aliases and tags are refused, and
 * so are equal keys in a map; depth and number of nodes are bounded. Any thread.
 */
#ifndef MCPD_STORE_SETTINGS_YAML_H
#define MCPD_STORE_SETTINGS_YAML_H

#include <stdbool.h>

#include "common/arena.h"
#include "common/err.h"

#define SETTINGS_DEPTH_MAX    8
#define SETTINGS_NODES_MAX    100000
#define SETTINGS_CHILDREN_MAX 2000

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    size_t line;      /* from 1 */
    const char *text; /* of NODE_TEXT; UTF-8 without control characters but line ends and tabs */
    bool is_plain;    /* not in quotes, so that an empty one stands for nothing */
    const char *key;  /* in a map; null elsewhere */
    size_t children;
    struct node *first;
    struct node *last;
    struct node *next; /* sibling */
};

/* The value of this name in a map, or null. */
const struct node *node_child(const struct node *map, const char *key);
/* The index-th item of a list, or null. */
const struct node *node_item(const struct node *list, size_t index);

/* Everything lies in the arena. Null with "line N: ..." as the reason. */
struct node *settings_yaml_read(struct slice text, struct arena *arena, struct err *err) MUST_USE;

#endif
