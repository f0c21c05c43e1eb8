// SPDX-License-Identifier: MIT
/*
 * bare: the upper bound of anything behind civetweb: reads the body, answers 202, stores nothing.
 *   bare PORT
 */
#include "server.h"

#include <stdio.h>

static int forget(void *arg, char *body, size_t len)
{
    (void)arg;
    (void)body;
    (void)len;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: bare PORT\n");
        return 2;
    }
    return bench_serve(argv[1], forget, NULL) == 0 ? 0 : 1;
}
