// SPDX-License-Identifier: MIT
#include "store/backend.h"

#include <assert.h>
#include <stdlib.h>

struct backend_request *backend_request_new(void)
{
    struct backend_request *request = calloc(1, sizeof *request);
    assert(request);
    batch_init(&request->batch);
    return request;
}

void backend_request_destroy(struct backend_request **request_p)
{
    struct backend_request *request = *request_p;
    if (!request)
        return;
    *request_p = NULL;
    batch_fini(&request->batch);
    free(request->refused);
    free(request);
}

void backend_request_of(struct backend_request *request, const char *project)
{
    snprintf(request->project_name, sizeof request->project_name, "%s", project);
    request->project = request->project_name;
}

void backend_request_refuse(struct backend_request *request, size_t position)
{
    request->refused =
        realloc(request->refused, (request->refused_count + 1) * sizeof *request->refused);
    assert(request->refused);
    request->refused[request->refused_count++] = (uint32_t)position;
}

int row_count(void *arg, const struct list_value *values)
{
    struct row_count *count = arg;
    count->rows++;
    return count->sink(count->arg, values);
}
