// SPDX-License-Identifier: MIT
/*
 * The promise, on a store of one process: what the leader writes is written under the fence of the
 * lease as it is now or not at all, and the fence rises with each start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "store/backend_sqlite.h"
#include "tests/unit/sqlite_help.h"

#define HOLDER "00112233445566778899aabbccddeeff"
#define OTHER  "ffeeddccbbaa99887766554433221100"

struct fixture {
    char folder[HELP_FOLDER];
    char path[HELP_PATH];
    backend_store_t *store;
    backend_conn_t *conn;
};

static void open_store(struct fixture *self)
{
    struct err err;
    self->store = backend_sqlite.open(self->path, &err);
    assert_non_null(self->store);
    self->conn = backend_sqlite.connect(self->store, true, &err);
    assert_non_null(self->conn);
}

static void close_store(struct fixture *self)
{
    backend_sqlite.disconnect(&self->conn);
    backend_sqlite.close(&self->store);
}

static int set_up(void **state)
{
    struct fixture *self = calloc(1, sizeof *self);
    place_make(self->folder, self->path);
    open_store(self);
    *state = self;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *self = *state;
    close_store(self);
    place_remove(self->folder, self->path);
    free(self);
    return 0;
}

static struct lease_call call_of(const char *holder, int64_t fence)
{
    return (struct lease_call){
        .holder = holder,
        .fence = fence,
        .ttl_ms = 25000,
        .deadline_ms = clock_mono_ms() + 3000,
    };
}

static int64_t bid(struct fixture *self, const char *holder, int64_t above)
{
    struct err err;
    struct lease_row row;
    struct lease_call call = call_of(holder, above);
    assert_int_equal(backend_sqlite.lease_bid(self->conn, &call, &row, &err), BACKEND_OK);
    assert_in_range(row.left_ms, 20000, 25000);
    return row.fence;
}

static enum backend_status mark(struct fixture *self, const char *holder, int64_t fence,
                                const char *cursor)
{
    struct err err;
    struct lease_claim claim = {.fence = fence, .limit_ms = 1000};
    memcpy(claim.holder, holder, sizeof claim.holder);
    return backend_sqlite.pass_mark(self->conn, &claim, "settle", slice_of(cursor), &err);
}

static void assert_cursor(struct fixture *self, const char *expected)
{
    struct err err;
    struct buf cursor;
    buf_init(&cursor, 1000);
    assert_int_equal(backend_sqlite.pass_cursor(self->conn, "settle", &cursor, &err), 0);
    assert_string_equal(buf_cstr(&cursor), expected);
    buf_fini(&cursor);
}

static void the_fence_rises_with_each_start(void **state)
{
    struct fixture *self = *state;
    assert_int_equal(bid(self, HOLDER, 0), 1);
    close_store(self);
    open_store(self);
    assert_int_equal(bid(self, OTHER, 0), 2);
    assert_int_equal(bid(self, OTHER, 40), 41); /* and goes above what the bidder has seen */
}

static void a_leader_writes_until_another_holds_the_lease(void **state)
{
    struct fixture *self = *state;
    int64_t fence = bid(self, HOLDER, 0);
    assert_cursor(self, "");
    assert_int_equal(mark(self, HOLDER, fence, "one"), BACKEND_OK);
    assert_int_equal(bid(self, OTHER, 0), fence + 1);
    assert_int_equal(mark(self, HOLDER, fence, "two"), BACKEND_FENCED);
    assert_int_equal(mark(self, OTHER, fence, "two"), BACKEND_FENCED);
    assert_cursor(self, "one");
    assert_int_equal(mark(self, OTHER, fence + 1, "three"), BACKEND_OK);
    assert_cursor(self, "three");
}

static void only_the_holder_renews_and_gives_up(void **state)
{
    struct fixture *self = *state;
    struct err err;
    struct lease_row row;
    int64_t fence = bid(self, HOLDER, 0);
    struct lease_call of_other = call_of(OTHER, fence);
    struct lease_call of_past = call_of(HOLDER, fence - 1);
    struct lease_call ours = call_of(HOLDER, fence);
    assert_int_equal(backend_sqlite.lease_renew(self->conn, &of_other, &row, &err), BACKEND_FENCED);
    assert_int_equal(row.fence, fence);
    assert_int_equal(backend_sqlite.lease_renew(self->conn, &of_past, &row, &err), BACKEND_FENCED);
    assert_int_equal(backend_sqlite.lease_give_up(self->conn, &of_other, &err), BACKEND_FENCED);
    assert_int_equal(backend_sqlite.lease_renew(self->conn, &ours, &row, &err), BACKEND_OK);
    assert_int_equal(row.fence, fence);
    assert_int_equal(backend_sqlite.lease_give_up(self->conn, &ours, &err), BACKEND_OK);
    assert_int_equal(mark(self, HOLDER, fence, "late"), BACKEND_FENCED);
    assert_int_equal(backend_sqlite.lease_renew(self->conn, &ours, &row, &err), BACKEND_FENCED);
    assert_int_equal(row.left_ms, 0);
    assert_int_equal(bid(self, OTHER, 0), fence + 1); /* the fence stayed */
}

static void different_settings_of_running_replicas_are_counted(void **state)
{
    struct fixture *self = *state;
    struct err err;
    int configs = 0;
    struct replica one = {.id = "one",
                          .holder = HOLDER,
                          .url = "127.0.0.1:4317",
                          .version = "1",
                          .config_hash = "",
                          .recent_ms = 30000};
    struct replica two = one;
    two.id = "two";
    assert_int_equal(backend_sqlite.replica_seen(self->conn, &one, &configs, &err), 0);
    assert_int_equal(backend_sqlite.replica_seen(self->conn, &two, &configs, &err), 0);
    assert_int_equal(configs, 1);
    two.config_hash = "abc";
    assert_int_equal(backend_sqlite.replica_seen(self->conn, &two, &configs, &err), 0);
    assert_int_equal(configs, 2);
    /* The other has not been seen for longer than two.recent_ms. */
    sqlite3 *db;
    assert_int_equal(sqlite3_open(self->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE replicas SET seen_ns = seen_ns - 60000000000"
                                  " WHERE id = 'one'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(backend_sqlite.replica_seen(self->conn, &two, &configs, &err), 0);
    assert_int_equal(configs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_fence_rises_with_each_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_leader_writes_until_another_holds_the_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_the_holder_renews_and_gives_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(different_settings_of_running_replicas_are_counted, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
