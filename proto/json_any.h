// SPDX-License-Identifier: MIT
/*
 * json_any: OTLP's attributes and values in JSON, {"key":"k","value":{"intValue":"1"}}, turned in
 * place into what they mean: a member k with the integer 1. Readers for tables of fields. Any
 * thread; recursion is bounded by the pre-walk.
 */
#ifndef MCPD_JSON_ANY_H
#define MCPD_JSON_ANY_H

#include "proto/fields.h"

field_read json_any_value;      /* struct value *: an AnyValue */
field_read json_any_attributes; /* struct value *: a list of members */

field_read json_any_trace_id; /* struct raw_id: hex, checked only when it is used */
field_read json_any_span_id;

#endif
