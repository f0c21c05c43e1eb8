// SPDX-License-Identifier: MIT
#include "common/grant.h"

#include <string.h>

#include "common/key_form.h"

bool grant_scope_find(struct slice name, enum grant_scope *scope)
{
    static const char *const names[GRANT_SCOPE_COUNT] = {
        [GRANT_IN] = "in",
        [GRANT_RD] = "rd",
        [GRANT_SC] = "sc",
        [GRANT_AD] = "ad",
    };
    for (int i = 0; i < GRANT_SCOPE_COUNT; i++) {
        if (!slice_equals(name, names[i]))
            continue;
        *scope = (enum grant_scope)i;
        return true;
    }
    return false;
}

/* PROJECT/SCOPE=SECRET */
static bool parse_long(const char *item, struct grant *grant)
{
    enum { SCOPE_LEN = 2 };
    size_t project_len = strspn(item, GRANT_PROJECT_CHARACTERS);
    if (project_len == 0 || project_len > GRANT_PROJECT_MAX || item[project_len] != '/')
        return false;
    const char *scope = item + project_len + 1;
    if (strcspn(scope, "=") != SCOPE_LEN || scope[SCOPE_LEN] != '=' ||
        !grant_scope_find((struct slice){scope, SCOPE_LEN}, &grant->scope))
        return false;
    grant->project = (struct slice){item, project_len};
    grant->secret = slice_of(scope + SCOPE_LEN + 1);
    return true;
}

bool grant_is_doubtful(const char *item)
{
    struct grant grant;
    size_t head = strcspn(item, "=");
    const char *secret = item + head + strspn(item + head, "=");
    return *secret && memchr(item, '/', head) && !parse_long(item, &grant);
}

struct grant grant_parse(const char *item)
{
    struct grant grant;
    if (!parse_long(item, &grant) && key_form_read(slice_of(item), &grant) != KEY_GOOD)
        grant = (struct grant){.project = slice_of(GRANT_PROJECT_DEFAULT),
                               .scope = GRANT_IN,
                               .secret = slice_of(item)};
    return grant;
}
