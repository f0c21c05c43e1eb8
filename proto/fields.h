// SPDX-License-Identifier: MIT
/*
 * fields: fills a struct from a map of a value tree by a table: which key goes where, and how it is
 * read. Unknown keys are ignored; of equal keys the last one stands; null is as if the key were not
 * there. Any thread.
 */
#ifndef MCPD_FIELDS_H
#define MCPD_FIELDS_H

#include "proto/batch.h"
#include "proto/value.h"

/* Shared by the readers of one body. */
struct fields_reader {
    struct arena *arena; /* for what readers build */
    bool is_camel;       /* the table's names are camelCase, and snake_case is taken too */
    struct slice wrong;  /* the key whose value could not be read */
    bool is_full;        /* the arena was */
};

/* Reads value into the field; -1 when it has another type than can be meant. */
typedef int field_read(struct fields_reader *reader, struct value *value, void *field);

struct field {
    const char *name; /* null ends the table */
    field_read *read;
    size_t offset;
};

/* -1 when map is none or one of its fields could not be read; reader->wrong tells which one. */
int fields_read(struct fields_reader *reader, struct value *map, const struct field *fields,
                void *out) MUST_USE;

/* Reads each map of an array into a zeroed struct of that size, by the table, and chains them in
 * order: the structs' first member is the pointer to the next one, *first the pointer to the first.
 * -1 as fields_read, or when the arena is full. */
int fields_read_chain(struct fields_reader *reader, struct value *array, const struct field *fields,
                      size_t size, void *first) MUST_USE;

field_read field_text;   /* struct slice: a text */
field_read field_u64;    /* uint64_t: a number, or its digits as text */
field_read field_i64;    /* int64_t: likewise */
field_read field_u32;    /* uint64_t that holds at most 32 bits: likewise */
field_read field_double; /* double: likewise, also "NaN", "Infinity", "-Infinity" */
field_read field_bool;   /* bool */
field_read field_value;  /* struct value *: any value */
field_read field_list;   /* struct value *: the first element of an array */
field_read field_map;    /* struct value *: the first member of a map */

/* Digits of an integer, with a minus for signed ones, and nothing else. */
int fields_parse_i64(struct slice text, int64_t *number) MUST_USE;
int fields_parse_u64(struct slice text, uint64_t *number) MUST_USE;

#endif
