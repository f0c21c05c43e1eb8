// SPDX-License-Identifier: MIT
/*
 * ingest: the handlers that take telemetry: decode, store once, answer. arg is a struct daemon.
 * They block until the request is committed or its time is up; a 2xx is never given before.
 */
#ifndef MCPD_STORE_INGEST_H
#define MCPD_STORE_INGEST_H

#include "store/daemon.h"

/* Bodies decoded at once. */
#define INGEST_DECODERS 4

http_handler ingest_traces;  /* POST /v1/traces, OTLP */
http_handler ingest_logs;    /* POST /v1/logs, OTLP */
http_handler ingest_metrics; /* POST /v1/metrics, OTLP */
http_handler ingest_native;  /* POST /v1/ingest, native batches */

#endif
