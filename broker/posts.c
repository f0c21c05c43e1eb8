// SPDX-License-Identifier: MIT
#include "broker/posts.h"

#include <stdlib.h>

void *post_new(enum post_kind kind, size_t size)
{
    struct post *post = calloc(1, size);
    if (post == NULL)
        abort();
    post->kind = kind;
    return post;
}
