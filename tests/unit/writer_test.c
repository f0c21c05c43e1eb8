// SPDX-License-Identifier: MIT
/*
 * The promise: requests that wait go into the store together; one that fails, is late or comes
 * twice harms none beside it; and nobody is told "stored" who is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/wait.h"
#include "store/writer.h"

#define THREADS  32
#define FAR_MS   20000
#define BAD_KEY  0xbb /* a request that the script finds fault with */
#define AWAY_KEY 0xaa /* a store that is away for it */

#define CONNS_MAX 4
struct backend_conn {
    backend_store_t *store;
    _Atomic bool is_away; /* this one alone */
};

/* A backend that remembers what it was asked for and can be held in the middle of a write. */
struct backend_store {
    sem_t entered; /* posted when a write begins */
    sem_t go;      /* a write waits for it */
    _Atomic bool is_held;
    _Atomic int writes;
    _Atomic int largest;
    _Atomic int stored;
    _Atomic int sweeps;
    _Atomic int deep_probes;
    _Atomic bool is_away;
    struct backend_conn conns[CONNS_MAX]; /* the keeper's first */
    size_t conn_count;
};

static backend_conn_t *fake_connect(backend_store_t *store, bool is_writer, struct err *err)
{
    (void)is_writer;
    (void)err;
    assert_true(store->conn_count < CONNS_MAX);
    store->conns[store->conn_count].store = store;
    return &store->conns[store->conn_count++];
}

static void fake_disconnect(backend_conn_t **conn_p)
{
    *conn_p = NULL;
}

static enum backend_status fake_write(backend_conn_t *conn, struct backend_request *const *requests,
                                      size_t count, struct err *err)
{
    backend_store_t *store = conn->store;
    store->writes++;
    if ((int)count > store->largest)
        store->largest = (int)count;
    if (store->is_held) {
        sem_post(&store->entered);
        sem_wait(&store->go);
    }
    for (size_t i = 0; i < count; i++) {
        if (store->is_away || conn->is_away || (count == 1 && requests[i]->key[0] == AWAY_KEY)) {
            err_set(err, "away");
            return BACKEND_AWAY;
        }
        if (count > 1 && (requests[i]->key[0] == BAD_KEY || requests[i]->key[0] == AWAY_KEY))
            return BACKEND_RERUN;
    }
    for (size_t i = 0; i < count; i++)
        requests[i]->counts.accepted = 1;
    store->stored += (int)count;
    return BACKEND_OK;
}

static int fake_probe(backend_conn_t *conn, bool is_deep, struct err *err)
{
    backend_store_t *store = conn->store;
    store->deep_probes += is_deep;
    return store->is_away || conn->is_away ? err_set(err, "away") : 0;
}

static int fake_sweep(backend_conn_t *conn, int max_rows, struct err *err)
{
    backend_store_t *store = conn->store;
    (void)err;
    store->sweeps++;
    return store->sweeps < 3 ? max_rows : 0;
}

static const struct backend fake = {
    .name = "fake",
    .writers = 1,
    .connect = fake_connect,
    .disconnect = fake_disconnect,
    .write = fake_write,
    .probe = fake_probe,
    .sweep = fake_sweep,
};

struct fixture {
    struct backend backend;
    struct backend_store store;
    writer_t *writer;
};

static int set_up_with(void **state, unsigned writers)
{
    struct fixture *self = calloc(1, sizeof *self);
    struct err err;
    sem_init(&self->store.entered, 0, 0);
    sem_init(&self->store.go, 0, 0);
    self->backend = fake;
    self->backend.writers = writers;
    self->writer = writer_new(&self->backend, &self->store, &err);
    assert_non_null(self->writer);
    *state = self;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 1);
}

static int set_up_two(void **state)
{
    return set_up_with(state, 2);
}

static int tear_down(void **state)
{
    struct fixture *self = *state;
    writer_destroy(&self->writer);
    sem_destroy(&self->store.entered);
    sem_destroy(&self->store.go);
    free(self);
    return 0;
}

/* One caller of writer_store on a thread of its own. */
struct caller {
    struct fixture *fixture;
    pthread_t thread;
    uint8_t key;
    uint64_t deadline_ms;
    enum writer_verdict verdict;
    bool has_request; /* it was given back */
};

static void *call(void *arg)
{
    struct caller *self = arg;
    struct backend_request *request = backend_request_new();
    memset(request->key, self->key, sizeof request->key);
    self->verdict = writer_store(self->fixture->writer, &request, self->deadline_ms);
    self->has_request = request;
    backend_request_destroy(&request);
    return NULL;
}

static void start(struct fixture *fixture, struct caller *caller, uint8_t key, uint64_t wait_ms)
{
    *caller =
        (struct caller){.fixture = fixture, .key = key, .deadline_ms = clock_mono_ms() + wait_ms};
    assert_int_equal(pthread_create(&caller->thread, NULL, call, caller), 0);
}

static void hold(struct fixture *self)
{
    self->store.is_held = true;
}

static void release(struct fixture *self)
{
    self->store.is_held = false;
    sem_post(&self->store.go);
}

/* Holds the store with a first request and lines up the others behind it. */
static void line_up(struct fixture *self, struct caller *callers, int count, const uint8_t *keys)
{
    hold(self);
    start(self, &callers[0], keys ? keys[0] : 0, FAR_MS);
    assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    for (int i = 1; i < count; i++)
        start(self, &callers[i], keys ? keys[i] : 0, FAR_MS);
    while (writer_waiting(self->writer) < (size_t)(count - 1))
        sched_yield();
    release(self);
    for (int i = 0; i < count; i++)
        pthread_join(callers[i].thread, NULL);
}

static void waiting_requests_share_a_transaction(void **state)
{
    struct fixture *self = *state;
    struct caller callers[THREADS];
    line_up(self, callers, THREADS, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(callers[i].verdict, WRITER_STORED);
    assert_int_equal(self->store.writes, 2);
    assert_int_equal(self->store.largest, THREADS - 1);
}

/* The second thread waits for a group that is worth it, but not for ever. */
static void held_write_does_not_hold_what_comes_after(void **state)
{
    struct fixture *self = *state;
    struct caller callers[2];
    hold(self);
    for (int i = 0; i < 2; i++) {
        start(self, &callers[i], (uint8_t)i, FAR_MS);
        assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    }
    release(self);
    release(self);
    for (int i = 0; i < 2; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].verdict, WRITER_STORED);
    }
    assert_int_equal(self->store.writes, 2);
}

/* A thread that finds the store away leaves the work to the other, until it finds it there. */
static void thread_without_a_connection_takes_no_work(void **state)
{
    struct fixture *self = *state;
    int stored = 0;
    self->store.conns[1].is_away = true;
    for (int i = 0; i < 200; i++) {
        struct caller caller;
        start(self, &caller, 1, FAR_MS);
        pthread_join(caller.thread, NULL);
        stored += caller.verdict == WRITER_STORED;
    }
    assert_true(stored >= 190);
    self->store.conns[1].is_away = false;
    self->store.conns[2].is_away = true;
    struct caller caller = {.verdict = WRITER_AWAY};
    for (uint64_t end_ms = clock_mono_ms() + FAR_MS;
         caller.verdict != WRITER_STORED && clock_mono_ms() < end_ms;) {
        start(self, &caller, 1, FAR_MS);
        pthread_join(caller.thread, NULL);
    }
    assert_int_equal(caller.verdict, WRITER_STORED);
}

static void bad_request_harms_no_neighbour(void **state)
{
    struct fixture *self = *state;
    struct caller callers[6];
    static const uint8_t keys[] = {1, 2, BAD_KEY, 3, AWAY_KEY, 4};
    line_up(self, callers, 6, keys);
    for (int i = 0; i < 6; i++)
        assert_int_equal(callers[i].verdict, keys[i] == AWAY_KEY ? WRITER_AWAY : WRITER_STORED);
    assert_int_equal(self->store.stored, 5);
}

static void late_request_in_the_queue_is_taken_back(void **state)
{
    struct fixture *self = *state;
    struct caller held;
    struct caller late;
    hold(self);
    start(self, &held, 1, FAR_MS);
    assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    start(self, &late, 2, 20);
    pthread_join(late.thread, NULL);
    assert_int_equal(late.verdict, WRITER_TIMED_OUT);
    assert_true(late.has_request);
    release(self);
    pthread_join(held.thread, NULL);
    assert_int_equal(held.verdict, WRITER_STORED);
    assert_int_equal(self->store.stored, 1);
}

static void late_request_under_way_is_left_behind(void **state)
{
    struct fixture *self = *state;
    struct caller late;
    hold(self);
    start(self, &late, 1, 200);
    assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    pthread_join(late.thread, NULL);
    assert_int_equal(late.verdict, WRITER_TIMED_OUT);
    assert_false(late.has_request);
    release(self); /* the leak check of the sanitizer sees whether the thread freed it */
}

static void late_request_is_not_run_again(void **state)
{
    struct fixture *self = *state;
    struct caller first;
    struct caller bad;
    struct caller late;
    struct caller next;
    hold(self);
    start(self, &first, 1, FAR_MS);
    assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    start(self, &bad, BAD_KEY, FAR_MS);
    start(self, &late, 2, 1000);
    while (writer_waiting(self->writer) < 2 && clock_mono_ms() < late.deadline_ms)
        sched_yield();
    sem_post(&self->store.go); /* the first one; the other two are a group, which fails */
    assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    pthread_join(late.thread, NULL);
    assert_int_equal(late.verdict, WRITER_TIMED_OUT);
    release(self);
    pthread_join(bad.thread, NULL);
    assert_int_equal(bad.verdict, WRITER_STORED);
    start(self, &next, 3, FAR_MS);
    pthread_join(next.thread, NULL);
    pthread_join(first.thread, NULL);
    assert_int_equal(self->store.stored, 3);
}

static bool becomes_ready(struct fixture *self, bool is_ready)
{
    uint64_t end_ms = clock_mono_ms() + FAR_MS;
    while (writer_is_ready(self->writer, clock_mono_ms()) != is_ready)
        if (clock_mono_ms() >= end_ms)
            return false;
    return true;
}

static void away_store_is_not_ready_until_it_can_commit(void **state)
{
    struct fixture *self = *state;
    struct caller caller;
    assert_true(writer_is_ready(self->writer, clock_mono_ms()));
    self->store.is_away = true;
    start(self, &caller, 1, FAR_MS);
    pthread_join(caller.thread, NULL);
    assert_int_equal(caller.verdict, WRITER_AWAY);
    assert_false(writer_is_ready(self->writer, clock_mono_ms()));
    self->store.is_away = false;
    assert_true(becomes_ready(self, true));
    assert_true(self->store.deep_probes > 0);
}

/* A store that says nothing at all, as a disk that hangs. */
static void silent_store_is_not_ready(void **state)
{
    struct fixture *self = *state;
    struct caller caller;
    hold(self);
    start(self, &caller, 1, FAR_MS);
    assert_true(wait_for(&self->store.entered, clock_mono_ms() + FAR_MS));
    assert_false(writer_is_ready(self->writer, clock_mono_ms() + 5001));
    release(self);
    pthread_join(caller.thread, NULL);
}

static void full_sweep_is_followed_by_another(void **state)
{
    struct fixture *self = *state;
    uint64_t end_ms = clock_mono_ms() + FAR_MS;
    while (self->store.sweeps < 3)
        assert_true(clock_mono_ms() < end_ms);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(waiting_requests_share_a_transaction),
        cmocka_unit_test_setup_teardown(held_write_does_not_hold_what_comes_after, set_up_two,
                                        tear_down),
        cmocka_unit_test_setup_teardown(thread_without_a_connection_takes_no_work, set_up_two,
                                        tear_down),
        CASE(bad_request_harms_no_neighbour),
        CASE(late_request_in_the_queue_is_taken_back),
        CASE(late_request_under_way_is_left_behind),
        CASE(late_request_is_not_run_again),
        CASE(away_store_is_not_ready_until_it_can_commit),
        CASE(silent_store_is_not_ready),
        CASE(full_sweep_is_followed_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
