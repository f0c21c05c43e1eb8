// SPDX-License-Identifier: MIT
/*
 * libyaml gives events one at a time and keeps nothing of them; the tree is built on a stack of the
 * containers that are open. A map's key is an event as a value is, told apart by whether the map on
 * top has a key that waits for its value.
 */
#include "store/settings_yaml.h"

#include <string.h>
#include <yaml.h>

struct builder {
    struct arena *arena;
    struct err *err;
    struct node *root;
    struct node *open[SETTINGS_DEPTH_MAX];
    size_t depth;
    const char *key; /* of the map on top, waiting for its value */
    size_t nodes;
    bool is_over; /* the document has ended */
};

static int too_large(struct builder *self, size_t line)
{
    return err_set(self->err, "line %zu: the file says too much: up to %d values are taken", line,
                   SETTINGS_NODES_MAX);
}

static size_t line_of(const yaml_event_t *event)
{
    return event->start_mark.line + 1;
}

static struct node *top(const struct builder *self)
{
    return self->depth > 0 ? self->open[self->depth - 1] : NULL;
}

/* A copy of the scalar's text; null after setting the reason. */
static const char *copy_text(struct builder *self, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
            err_set(self->err, "line %zu: a text holds a control character", line_of(event));
            return NULL;
        }
    }
    char *copy = arena_copy(self->arena, text, len + 1); /* libyaml puts a NUL behind it */
    if (!copy)
        too_large(self, line_of(event));
    return copy;
}

static int take_key(struct builder *self, const yaml_event_t *event)
{
    if (event->type != YAML_SCALAR_EVENT)
        return err_set(self->err, "line %zu: a name is expected here, not a list or map",
                       line_of(event));
    self->key = copy_text(self, event);
    if (!self->key)
        return -1;
    const struct node *first = node_child(top(self), self->key);
    if (first)
        return err_set(self->err, "line %zu: '%.40s' stands here twice, first in line %zu",
                       line_of(event), self->key, first->line);
    return 0;
}

/* A new node, put where it belongs. */
static struct node *add_node(struct builder *self, enum node_kind kind, const yaml_event_t *event)
{
    struct node *parent = top(self);
    if (++self->nodes > SETTINGS_NODES_MAX) {
        too_large(self, line_of(event));
        return NULL;
    }
    if (parent && parent->children >= SETTINGS_CHILDREN_MAX) {
        err_set(self->err, "line %zu: a list or map holds more than %d items", line_of(event),
                SETTINGS_CHILDREN_MAX);
        return NULL;
    }
    struct node *node = arena_zalloc(self->arena, sizeof *node);
    if (!node) {
        too_large(self, line_of(event));
        return NULL;
    }
    node->kind = kind;
    node->line = line_of(event);
    node->key = self->key;
    self->key = NULL;
    if (!parent)
        self->root = node;
    else if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    if (parent) {
        parent->last = node;
        parent->children++;
    }
    return node;
}

static int take_text(struct builder *self, const yaml_event_t *event)
{
    struct node *node = add_node(self, NODE_TEXT, event);
    if (!node)
        return -1;
    node->text = copy_text(self, event);
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return node->text ? 0 : -1;
}

static int open_container(struct builder *self, enum node_kind kind, const yaml_event_t *event)
{
    if (self->depth == SETTINGS_DEPTH_MAX)
        return err_set(self->err, "line %zu: more than %d levels deep", line_of(event),
                       SETTINGS_DEPTH_MAX);
    struct node *node = add_node(self, kind, event);
    if (!node)
        return -1;
    self->open[self->depth++] = node;
    return 0;
}

/* Anchors, aliases and tags: what only YAML has, and what makes a small file large. */
static bool is_plain_event(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return false;
    case YAML_SCALAR_EVENT:
        return !event->data.scalar.anchor && !event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return !event->data.sequence_start.anchor && !event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return !event->data.mapping_start.anchor && !event->data.mapping_start.tag;
    default:
        return true;
    }
}

static int take_event(struct builder *self, const yaml_event_t *event)
{
    if (!is_plain_event(event))
        return err_set(self->err,
                       "line %zu: anchors (&), aliases (*) and tags (!) are not taken; "
                       "a text that begins so needs quotes",
                       line_of(event));
    bool is_value = event->type == YAML_SCALAR_EVENT || event->type == YAML_SEQUENCE_START_EVENT ||
                    event->type == YAML_MAPPING_START_EVENT;
    if (is_value && top(self) && top(self)->kind == NODE_MAP && !self->key)
        return take_key(self, event);
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_text(self, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(self, NODE_LIST, event);
    case YAML_MAPPING_START_EVENT:
        return open_container(self, NODE_MAP, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        self->depth--;
        return 0;
    case YAML_DOCUMENT_START_EVENT:
        if (self->is_over)
            return err_set(self->err, "line %zu: a second document begins; one is taken",
                           line_of(event));
        return 0;
    case YAML_DOCUMENT_END_EVENT:
        self->is_over = true;
        return 0;
    default:
        return 0;
    }
}

static int refuse_syntax(const yaml_parser_t *parser, struct err *err)
{
    if (parser->error == YAML_READER_ERROR)
        return err_set(err, "line %zu: %s (the file is read as UTF-8)", parser->mark.line + 1,
                       parser->problem);
    return err_set(err, "line %zu: this is neither YAML nor JSON: %s%s%s",
                   parser->problem_mark.line + 1, parser->problem ? parser->problem : "no memory",
                   parser->context ? " " : "", parser->context ? parser->context : "");
}

static int read_events(struct builder *self, yaml_parser_t *parser)
{
    for (bool is_end = false; !is_end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return refuse_syntax(parser, self->err);
        is_end = event.type == YAML_STREAM_END_EVENT;
        int rc = take_event(self, &event);
        yaml_event_delete(&event);
        if (rc == -1)
            return -1;
    }
    return 0;
}

const struct node *node_child(const struct node *map, const char *key)
{
    for (const struct node *node = map->first; node; node = node->next)
        if (strcmp(node->key, key) == 0)
            return node;
    return NULL;
}

const struct node *node_item(const struct node *list, size_t index)
{
    const struct node *node = list->first;
    while (node && index-- > 0)
        node = node->next;
    return node;
}

struct node *settings_yaml_read(struct slice text, struct arena *arena, struct err *err)
{
    struct builder builder = {.arena = arena, .err = err};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        err_set(err, "line 1: no memory");
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.len);
    int rc = read_events(&builder, &parser);
    yaml_parser_delete(&parser);
    if (rc == 0 && !builder.root)
        rc = err_set(err, "line 1: the file is empty");
    return rc == 0 ? builder.root : NULL;
}
