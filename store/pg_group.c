// SPDX-License-Identifier: MIT
#include "store/pg_group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"

static int compare_keys(const void *left, const void *right)
{
    const struct pg_key *a = left;
    const struct pg_key *b = right;
    if (a->project != b->project)
        return a->project < b->project ? -1 : 1;
    int order = memcmp(a->request->key, b->request->key, sizeof a->request->key);
    return order ? order : (a->order < b->order ? -1 : a->order > b->order);
}

static bool is_same_key(const struct pg_key *a, const struct pg_key *b)
{
    return a->project == b->project &&
           memcmp(a->request->key, b->request->key, sizeof a->request->key) == 0;
}

void pg_group_init(struct pg_group *self, struct backend_request *const *requests,
                   const int64_t *projects, size_t count)
{
    *self = (struct pg_group){.count = count};
    self->keys = calloc(count, sizeof *self->keys);
    assert(self->keys);
    for (size_t i = 0; i < count; i++)
        self->keys[i] =
            (struct pg_key){.project = projects[i], .request = requests[i], .order = (uint32_t)i};
    qsort(self->keys, count, sizeof *self->keys, compare_keys);
    for (size_t i = 1; i < count; i++)
        if (is_same_key(&self->keys[i - 1], &self->keys[i]))
            self->keys[i].state = PG_KEY_TWIN;
}

void pg_group_fini(struct pg_group *self)
{
    for (size_t i = 0; i < EVENT_TYPE_COUNT; i++)
        free(self->lists[i].items);
    free(self->keys);
    *self = (struct pg_group){0};
}

struct pg_key *pg_group_find_key(const struct pg_group *self, int64_t project, struct slice digest)
{
    size_t low = 0;
    size_t high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct pg_key *key = &self->keys[middle];
        bool is_before = key->project != project
                             ? key->project < project
                             : memcmp(key->request->key, digest.data, BACKEND_DIGEST_LEN) < 0;
        if (is_before)
            low = middle + 1;
        else
            high = middle;
    }
    struct pg_key *found = low < self->count ? &self->keys[low] : NULL;
    bool is_it = found && found->project == project && digest.len == BACKEND_DIGEST_LEN &&
                 memcmp(found->request->key, digest.data, BACKEND_DIGEST_LEN) == 0;
    return is_it ? found : NULL;
}

static void put_number(uint8_t *to, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(number >> (8 * (7 - i)));
}

/* The identity in bytes that sort; of a text a digest, as it only has to be the same order for all
 * who write. */
static void set_identity(struct pg_item *item)
{
    const struct event *event = item->event;
    uint8_t *to = item->identity;
    char score[IDENTITY_SCORE_SIZE];
    put_number(to, (uint64_t)item->project);
    switch (event->type) {
    case EVENT_SPAN:
        put_number(to + 8, event->span.start_ns / DAY_NS);
        memcpy(to + 16, event->span.trace_id, TRACE_ID_LEN);
        memcpy(to + 16 + TRACE_ID_LEN, event->span.span_id, SPAN_ID_LEN);
        break;
    case EVENT_LOG:
    case EVENT_METRIC:
        put_number(to + 8,
                   (event->type == EVENT_LOG ? event->log.ts_ns : event->metric.ts_ns) / DAY_NS);
        identity_of_event(item->request, event, to + 16);
        break;
    case EVENT_SCORE:
        if (event->score.id.len == 0)
            identity_of_score(&event->score, score);
        sha256(event->score.id.len ? event->score.id : slice_of(score), to + 8);
        break;
    case EVENT_RUN:
        sha256(event->run.id, to + 8);
        break;
    case EVENT_TYPE_COUNT:
        break;
    }
}

static void add_item(struct pg_group *self, const struct pg_key *key, const struct event *event,
                     size_t position)
{
    struct pg_items *list = &self->lists[event->type];
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 256;
        list->items = realloc(list->items, list->capacity * sizeof *list->items);
        assert(list->items);
    }
    struct pg_item *item = &list->items[list->count];
    *item = (struct pg_item){.request = key->request,
                             .event = event,
                             .project = key->project,
                             .position = (uint32_t)position,
                             .order = (uint32_t)list->count};
    set_identity(item);
    list->count++;
}

static int compare_items(const void *left, const void *right)
{
    const struct pg_item *a = left;
    const struct pg_item *b = right;
    int order = memcmp(a->identity, b->identity, sizeof a->identity);
    return order ? order : (a->order < b->order ? -1 : a->order > b->order);
}

static void list_events(struct pg_group *self, const struct pg_key *key)
{
    const struct batch *batch = &key->request->batch;
    size_t count = batch->event_count + batch->derived_count;
    for (size_t at = 0; at < count; at++)
        if (!self->left_out || !self->left_out[at])
            add_item(self, key,
                     at < batch->event_count ? &batch->events[at]
                                             : &batch->derived[at - batch->event_count],
                     at);
}

/* Of equal events the one that arrived first counts, so they are listed in the order of arrival. */
void pg_group_list(struct pg_group *self)
{
    size_t *arrived = calloc(self->count, sizeof *arrived);
    assert(arrived);
    for (size_t i = 0; i < self->count; i++)
        arrived[self->keys[i].order] = i;
    for (size_t i = 0; i < self->count; i++)
        if (self->keys[arrived[i]].state == PG_KEY_NEW)
            list_events(self, &self->keys[arrived[i]]);
    free(arrived);
    for (size_t type = 0; type < EVENT_TYPE_COUNT; type++)
        if (self->lists[type].count > 1)
            qsort(self->lists[type].items, self->lists[type].count, sizeof(struct pg_item),
                  compare_items);
}

bool pg_item_is_first(const struct pg_items *list, size_t at)
{
    return at == 0 || memcmp(list->items[at - 1].identity, list->items[at].identity,
                             sizeof list->items[at].identity) != 0;
}

static void count_items(const struct pg_items *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct pg_item *item = &list->items[i];
        struct backend_counts *counts = &item->request->counts;
        if (item->position >= item->request->batch.event_count)
            continue; /* derived: nobody sent it */
        if (item->is_new)
            counts->accepted++;
        else
            counts->duplicate++;
    }
}

/* A request whose key is another's in the group: a resend of that one. */
static void settle_twin(struct backend_request *twin, const struct backend_request *first)
{
    const struct backend_counts *then = &first->counts;
    twin->is_resend = true;
    twin->is_mismatch = memcmp(twin->body, first->body, sizeof twin->body) != 0;
    twin->counts = (struct backend_counts){.duplicate = then->accepted + then->duplicate,
                                           .rejected = then->rejected};
}

void pg_group_settle(struct pg_group *self)
{
    for (size_t i = 0; i < self->count; i++) {
        struct backend_request *request = self->keys[i].request;
        if (self->keys[i].state == PG_KEY_NEW)
            request->counts = (struct backend_counts){.rejected = request->batch.rejected +
                                                                  request->refused_count};
    }
    for (size_t type = 0; type < EVENT_TYPE_COUNT; type++)
        count_items(&self->lists[type]);
    const struct backend_request *first = NULL;
    for (size_t i = 0; i < self->count; i++) {
        if (self->keys[i].state == PG_KEY_TWIN)
            settle_twin(self->keys[i].request, first);
        else
            first = self->keys[i].request;
    }
}
