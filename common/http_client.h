// SPDX-License-Identifier: MIT
/*
 * http_client: what holds for every request that this program sends over libcurl: no redirects, no
 * proxies of the environment, no other protocols, no signals. Any thread, a handle at a time.
 */
#ifndef MCPD_HTTP_CLIENT_H
#define MCPD_HTTP_CLIENT_H

#include <stdbool.h>

#include <curl/curl.h>
#include <sys/socket.h>

/* Sets it on a new handle. */
void http_client_set_up(CURL *easy);

/* For addresses that people write into settings files. Lets the handle connect nowhere where a
 * machine tells its own secrets: link-local addresses and the metadata services of clouds, however
 * a name was resolved. *is_refused, which must outlive the handle, is set when that stopped a
 * connection. */
void http_client_guard(CURL *easy, bool *is_refused);
/* The addresses that are guarded. */
bool http_client_is_forbidden(const struct sockaddr *address);

/* Setting an option fails without memory, or where libcurl is older than what we are built for. */
void http_client_must(CURLcode code);

#endif
