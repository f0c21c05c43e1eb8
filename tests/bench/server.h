// SPDX-License-Identifier: MIT
/*
 * server: what the bench's own HTTP servers share: civetweb with the same options as the relay's
 * door, the body read whole, one write per reply. bench_serve returns at SIGTERM.
 */
#ifndef MCPD_BENCH_SERVER_H
#define MCPD_BENCH_SERVER_H

#include <stddef.h>

#define BENCH_BODY_MAX ((size_t)128 * 1024)
#define BENCH_HEAD     8 /* free bytes in front of the body, for a length */

/* A request's body, in memory of the worker thread that lives until the handler returns: `body` is
 * preceded by BENCH_HEAD bytes the handler may use. Returns 0 for a 202, -1 for a 503. */
typedef int bench_handler(void *arg, char *body, size_t len);

/* Serves POST on 127.0.0.1:port until SIGTERM. 0, or -1 when it could not start (said on stderr).
 */
int bench_serve(const char *port, bench_handler *handler, void *arg);

#endif
