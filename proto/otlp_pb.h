// SPDX-License-Identifier: MIT
/*
 * otlp_pb: OTLP/HTTP protobuf bodies to a batch. Any thread with at least 1 MiB of stack; blocks
 * for as long as the body is large.
 */
#ifndef MCPD_OTLP_PB_H
#define MCPD_OTLP_PB_H

#include "proto/batch.h"

/* The body of POST /v1/traces (logs, metrics), not compressed. batch is fresh from batch_init. A
 * span, log record or data point that cannot be taken is a reject of the batch; a body that is no
 * request of its kind gives another result than BATCH_OK, with the reason. */
enum batch_result otlp_pb_traces(struct batch *batch, struct slice body,
                                 const struct batch_policy *policy, struct err *err) MUST_USE;
enum batch_result otlp_pb_logs(struct batch *batch, struct slice body,
                               const struct batch_policy *policy, struct err *err) MUST_USE;
enum batch_result otlp_pb_metrics(struct batch *batch, struct slice body,
                                  const struct batch_policy *policy, struct err *err) MUST_USE;

#endif
