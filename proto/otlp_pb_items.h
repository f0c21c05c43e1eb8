// SPDX-License-Identifier: MIT
/* otlp_pb_items: the parts of otlp_pb, one function for the items of each signal. Each decodes one
 * message into the maker's scratch memory and adds what it holds to the batch. */
#ifndef MCPD_OTLP_PB_ITEMS_H
#define MCPD_OTLP_PB_ITEMS_H

#include "proto/maker.h"

typedef enum batch_result otlp_pb_item(struct maker *maker, struct slice message);

otlp_pb_item otlp_pb_span;
otlp_pb_item otlp_pb_log;
otlp_pb_item otlp_pb_metric;

/* Why a message could not be decoded into the arena: TOO_LARGE or MALFORMED, with the reason. */
enum batch_result otlp_pb_failed(struct maker *maker, const struct arena *arena, const char *what);

#endif
