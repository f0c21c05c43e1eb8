// SPDX-License-Identifier: MIT
#include "common/httpd_impl.h"

#include <string.h>

bool route_takes_method(const char *wanted, const char *method)
{
    return strcmp(wanted, method) == 0 ||
           (strcmp(wanted, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* Encoded and folded forms never reach a folder's route: a proxy in front may read them another
 * way. */
static bool is_plain(const char *path)
{
    return !strchr(path, '%') && !strstr(path, "//") && !strstr(path, "/.");
}

static bool is_path_of(const struct http_route *route, const char *path)
{
    if (!route->path)
        return true;
    size_t len = strlen(route->path);
    if (len > 1 && route->path[len - 1] == '/')
        return strncmp(path, route->path, len) == 0 && is_plain(path);
    return strcmp(path, route->path) == 0;
}

static void allow_add(struct buf *allow, const char *method)
{
    const char *more = strcmp(method, "GET") == 0 ? "GET, HEAD" : method;
    if (buf_add_str(allow, allow->len == 0 ? "Allow: " : ", ") == -1 ||
        buf_add_str(allow, more) == -1)
        buf_reset(allow); /* a table of routes that long does not exist */
}

const struct http_route *route_find(const struct http_route *routes, const char *method,
                                    const char *path, enum refusal *refusal, struct buf *allow)
{
    for (const struct http_route *route = routes; route && route->handler; route++) {
        if (!is_path_of(route, path))
            continue;
        if (route_takes_method(route->method, method))
            return route;
        allow_add(allow, route->method);
    }
    *refusal = allow->len > 0 ? REFUSAL_METHOD : REFUSAL_NOT_FOUND;
    if (allow->len > 0 && buf_add(allow, "\r\n", 3) == -1) /* with its NUL */
        buf_reset(allow);
    return NULL;
}
