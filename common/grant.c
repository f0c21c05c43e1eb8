// SPDX-License-Identifier: MIT
#include "common/grant.h"

#include <string.h>

static const char *const scopes[GRANT_SCOPE_COUNT] = {
    [GRANT_IN] = "/in=",
    [GRANT_RD] = "/rd=",
    [GRANT_SC] = "/sc=",
    [GRANT_AD] = "/ad=",
};

struct grant grant_parse(const char *item)
{
    size_t project_len = strspn(item, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (project_len > 0 && project_len <= GRANT_PROJECT_MAX) {
        for (int scope = 0; scope < GRANT_SCOPE_COUNT; scope++) {
            size_t scope_len = strlen(scopes[scope]);
            if (strncmp(item + project_len, scopes[scope], scope_len) == 0)
                return (struct grant){.project = {item, project_len},
                                      .scope = (enum grant_scope)scope,
                                      .secret = slice_of(item + project_len + scope_len)};
        }
    }
    return (struct grant){
        .project = slice_of(GRANT_PROJECT_DEFAULT), .scope = GRANT_IN, .secret = slice_of(item)};
}
