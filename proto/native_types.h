// SPDX-License-Identifier: MIT
/* native_types: the parts of native, one function for each type of event. Each reads one object,
 * with the maker's scratch memory, and adds it to the batch, or a reject. */
#ifndef MCPD_NATIVE_TYPES_H
#define MCPD_NATIVE_TYPES_H

#include "proto/fields.h"
#include "proto/maker.h"

typedef enum batch_result native_type(struct maker *maker, struct value *event);

native_type native_span;
native_type native_log;
native_type native_metric;
native_type native_score;
native_type native_run;

/* An event with a field that could not be read: rejected with the code that fits the field. */
enum batch_result native_wrong(struct maker *maker, const struct fields_reader *reader,
                               struct slice id);

field_read native_trace_id; /* struct raw_id: hex, or bytes */
field_read native_span_id;
/* For readers of fields: one of the names, in any case, which end with null, or its number. */
int native_name(struct fields_reader *reader, struct value *value, const char *const *names,
                int64_t *number) MUST_USE;

#endif
