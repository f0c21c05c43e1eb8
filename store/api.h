// SPDX-License-Identifier: MIT
/*
 * api: reading what is stored. arg is a struct daemon. Errors are {"error":{"code","message"}}.
 */
#ifndef MCPD_STORE_API_H
#define MCPD_STORE_API_H

#include "common/httpd.h"

/* GET on the path of a listing: its rows, newest first, in pages. */
http_handler api_list;
/* GET /v1/traces/{id}: the trace with all its spans. */
http_handler api_read_trace;
http_handler api_read_session;

#endif
