// SPDX-License-Identifier: MIT
/*
 * The promise: of what comes several times in one group only the first counts, and all who write
 * the same rows take them in the same order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "store/pg_group.h"

#define START_NS 1767323045000000000ull
#define REQUESTS 4

struct fixture {
    struct backend_request *requests[REQUESTS];
    int64_t projects[REQUESTS];
    struct pg_group group;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    for (size_t i = 0; i < REQUESTS; i++) {
        fixture.requests[i] = backend_request_new();
        fixture.projects[i] = 1;
    }
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *self = *state;
    pg_group_fini(&self->group);
    for (size_t i = 0; i < REQUESTS; i++)
        backend_request_destroy(&self->requests[i]);
    return 0;
}

static void set_key(struct backend_request *request, uint8_t key, uint8_t body)
{
    memset(request->key, key, sizeof request->key);
    memset(request->body, body, sizeof request->body);
}

static void add_span(struct backend_request *request, uint8_t trace, uint8_t id)
{
    struct span *span = &batch_add(&request->batch, EVENT_SPAN)->span;
    memset(span->trace_id, trace, sizeof span->trace_id);
    memset(span->span_id, id, sizeof span->span_id);
    span->start_ns = START_NS;
    span->end_ns = START_NS + 1;
}

/* As pg_keys does for keys that nobody has. */
static void take_keys(struct pg_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->keys[i].state == PG_KEY_UNKNOWN)
            group->keys[i].state = PG_KEY_NEW;
}

/* As the database does where it has none of them. */
static void store_first(struct pg_items *list)
{
    for (size_t i = 0; i < list->count; i++)
        list->items[i].is_new = pg_item_is_first(list, i);
}

static void check_counts(const struct backend_request *request, uint64_t accepted,
                         uint64_t duplicate, uint64_t rejected)
{
    assert_int_equal(request->counts.accepted, accepted);
    assert_int_equal(request->counts.duplicate, duplicate);
    assert_int_equal(request->counts.rejected, rejected);
}

static void keys_are_in_order_and_the_first_of_twins_counts(void **state)
{
    struct fixture *self = *state;
    static const uint8_t keys[REQUESTS] = {9, 3, 9, 9};
    for (size_t i = 0; i < REQUESTS; i++) {
        set_key(self->requests[i], keys[i], i == 3 ? 1 : 0);
        add_span(self->requests[i], 1, (uint8_t)(i + 1));
    }
    pg_group_init(&self->group, self->requests, self->projects, REQUESTS);
    assert_ptr_equal(self->group.keys[0].request, self->requests[1]);
    assert_ptr_equal(self->group.keys[1].request, self->requests[0]);
    assert_int_equal(self->group.keys[1].state, PG_KEY_UNKNOWN);
    assert_int_equal(self->group.keys[2].state, PG_KEY_TWIN);
    assert_int_equal(self->group.keys[3].state, PG_KEY_TWIN);

    take_keys(&self->group);
    pg_group_list(&self->group);
    assert_int_equal(self->group.lists[EVENT_SPAN].count, 2);
    store_first(&self->group.lists[EVENT_SPAN]);
    pg_group_settle(&self->group);
    check_counts(self->requests[0], 1, 0, 0);
    check_counts(self->requests[1], 1, 0, 0);
    check_counts(self->requests[2], 0, 1, 0);
    check_counts(self->requests[3], 0, 1, 0);
    assert_true(self->requests[2]->is_resend && !self->requests[2]->is_mismatch);
    assert_true(self->requests[3]->is_resend && self->requests[3]->is_mismatch);
}

static void a_key_of_another_project_is_no_twin(void **state)
{
    struct fixture *self = *state;
    self->projects[1] = 2;
    set_key(self->requests[0], 5, 0);
    set_key(self->requests[1], 5, 0);
    pg_group_init(&self->group, self->requests, self->projects, 2);
    assert_int_equal(self->group.keys[1].state, PG_KEY_UNKNOWN);
    struct slice digest = {(const char *)self->requests[0]->key, BACKEND_DIGEST_LEN};
    assert_ptr_equal(pg_group_find_key(&self->group, 2, digest), &self->group.keys[1]);
    assert_null(pg_group_find_key(&self->group, 3, digest));
    digest.len--;
    assert_null(pg_group_find_key(&self->group, 2, digest));
}

/* Two requests with the same spans in opposite order: one order, and the earlier one is first. */
static void events_are_in_the_order_of_their_identities(void **state)
{
    struct fixture *self = *state;
    set_key(self->requests[0], 7, 0);
    set_key(self->requests[1], 2, 0); /* its key comes first, it did not */
    for (uint8_t i = 1; i <= 5; i++) {
        add_span(self->requests[0], i, 1);
        add_span(self->requests[1], (uint8_t)(6 - i), 1);
    }
    pg_group_init(&self->group, self->requests, self->projects, 2);
    take_keys(&self->group);
    pg_group_list(&self->group);
    struct pg_items *list = &self->group.lists[EVENT_SPAN];
    assert_int_equal(list->count, 10);
    for (size_t i = 0; i < list->count; i++) {
        assert_int_equal(list->items[i].event->span.trace_id[0], i / 2 + 1);
        assert_ptr_equal(list->items[i].request, self->requests[i % 2]);
        assert_int_equal(pg_item_is_first(list, i), i % 2 == 0);
    }
    store_first(list);
    pg_group_settle(&self->group);
    check_counts(self->requests[0], 5, 0, 0);
    check_counts(self->requests[1], 0, 5, 0);
}

static void what_is_left_out_is_counted_as_rejected(void **state)
{
    struct fixture *self = *state;
    static const bool left_out[3] = {false, true, false};
    for (uint8_t i = 1; i <= 3; i++)
        add_span(self->requests[0], i, 1);
    backend_request_refuse(self->requests[0], 1);
    pg_group_init(&self->group, self->requests, self->projects, 1);
    self->group.left_out = left_out;
    take_keys(&self->group);
    pg_group_list(&self->group);
    assert_int_equal(self->group.lists[EVENT_SPAN].count, 2);
    store_first(&self->group.lists[EVENT_SPAN]);
    pg_group_settle(&self->group);
    check_counts(self->requests[0], 2, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_in_order_and_the_first_of_twins_counts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_key_of_another_project_is_no_twin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(events_are_in_the_order_of_their_identities, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_out_is_counted_as_rejected, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
