// SPDX-License-Identifier: MIT
#include "store/runs.h"

#include <assert.h>
#include <string.h>

#include "common/sha256.h"

#define RUN_TEXTS 7

enum runs_place runs_place(const struct options *options, const char **where)
{
    const char *given = options->runs_data;
    if (strcmp(given, "off") == 0)
        return RUNS_OFF;
    if (!*given)
        return RUNS_WITH_STORE;
    *where = strcmp(given, "embedded") == 0 ? options->data : given;
    const char *store = *options->store ? options->store : options->data;
    return strcmp(*where, store) == 0 ? RUNS_WITH_STORE : RUNS_APART;
}

/* Both requests live on their own, so the copy shares no memory with its original. */
static struct slice copy_text(struct arena *arena, struct slice text)
{
    char *copy = arena_copy(arena, text.data, text.len);
    assert(copy); /* no limit was set */
    return (struct slice){copy, text.len};
}

static void copy_run(struct batch *batch, const struct event *event)
{
    struct event *copy = batch_add(batch, EVENT_RUN);
    assert(copy); /* as many fit as into the batch they come from */
    *copy = *event;
    struct slice *texts[RUN_TEXTS] = {&copy->run.id,      &copy->run.state,   &copy->run.agent,
                                      &copy->run.session, &copy->run.service, &copy->run.env,
                                      &copy->run.attrs};
    for (size_t i = 0; i < RUN_TEXTS; i++)
        *texts[i] = copy_text(&batch->arena, *texts[i]);
}

static void make_key(struct backend_request *runs, const uint8_t key[BACKEND_DIGEST_LEN])
{
    static const char prefix[] = "runs:";
    char text[sizeof prefix - 1 + BACKEND_DIGEST_LEN];
    uint8_t digest[SHA256_LEN];
    memcpy(text, prefix, sizeof prefix - 1);
    memcpy(text + sizeof prefix - 1, key, BACKEND_DIGEST_LEN);
    sha256((struct slice){text, sizeof text}, digest);
    memcpy(runs->key, digest, BACKEND_DIGEST_LEN);
}

struct backend_request *runs_take_out(struct backend_request *request)
{
    struct batch *batch = &request->batch;
    struct backend_request *runs = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < batch->event_count; i++) {
        if (batch->events[i].type != EVENT_RUN) {
            batch->events[kept++] = batch->events[i];
            continue;
        }
        if (!runs)
            runs = backend_request_new();
        copy_run(&runs->batch, &batch->events[i]);
    }
    batch->event_count = kept;
    if (!runs)
        return NULL;
    backend_request_of(runs, request->project);
    runs->key_ttl_s = request->key_ttl_s;
    memcpy(runs->body, request->body, sizeof runs->body);
    make_key(runs, request->key);
    return runs;
}

void runs_add_counts(struct backend_request *request, const struct backend_request *runs)
{
    request->counts.accepted += runs->counts.accepted;
    request->counts.duplicate += runs->counts.duplicate;
    request->counts.rejected += runs->counts.rejected;
}
