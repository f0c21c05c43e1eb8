// SPDX-License-Identifier: MIT
/* otlp_json_items: the parts of otlp_json, one function for the items of each signal. Each reads
 * one object, with the maker's scratch memory, and adds what it holds to the batch. */
#ifndef MCPD_OTLP_JSON_ITEMS_H
#define MCPD_OTLP_JSON_ITEMS_H

#include "proto/fields.h"
#include "proto/maker.h"

typedef enum batch_result otlp_json_item(struct maker *maker, struct value *item);

otlp_json_item otlp_json_span;
otlp_json_item otlp_json_log;
otlp_json_item otlp_json_metric;

/* An item with a field that could not be read: rejected alone, or BATCH_TOO_LARGE. what is its
 * name for the message. */
enum batch_result otlp_json_wrong(struct maker *maker, const struct fields_reader *reader,
                                  const char *what);

/* For readers of fields: a number, its digits, or the prefix and one of the names, which stand in
 * the order of their numbers and end with null. */
int otlp_json_enum(struct fields_reader *reader, struct value *value, const char *prefix,
                   const char *const *names, int64_t *number) MUST_USE;

#endif
