// SPDX-License-Identifier: MIT
/*
 * api: reading what is stored. arg is a struct daemon. Errors are {"error":{"code","message"}}.
 */
#ifndef MCPD_STORE_API_H
#define MCPD_STORE_API_H

#include "common/httpd.h"

/* GET /v1/traces: newest first; parameters from, to, session, model, tool, agent, status, limit,
 * cursor, project. */
http_handler api_list_traces;
/* GET /v1/traces/{id}: the trace with all its spans. */
http_handler api_read_trace;

#endif
