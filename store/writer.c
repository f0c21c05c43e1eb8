// SPDX-License-Identifier: MIT
/*
 * One queue, a mutex over it, a condition for the threads and a semaphore in each waiting job, so
 * that waking hundreds of callers does not send them all after the mutex.
 *
 * A job belongs to the caller of writer_store, who waits on it, except while it is TAKEN: then a
 * thread is writing it. A caller whose time is up takes a QUEUED job back; a TAKEN one it can only
 * leave behind as ABANDONED, for the thread to free.
 */
#include "store/writer.h"

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/wait.h"

/* Bounds of a group: neither the transaction's time nor its log may grow without end. */
#define GROUP_MAX_REQUESTS 512
#define GROUP_MAX_EVENTS   8192
/* While one thread writes, another begins when so much waits, or for so long: a transaction of many
 * costs the store far less than many of a few. */
#define GROUP_WORTH_EVENTS 1000
#define GROUP_PATIENCE_MS  10

#define ANSWER_LIMIT_MS 5000 /* a store silent for longer is not ready */
#define WATCH_MS        1000 /* between probes of an idle or failing store */
#define SWEEP_MS        10000
#define SWEEP_AGAIN_MS  100 /* when a sweep left rows */
#define SWEEP_ROWS      5000
#define LOOK_MS         500 /* between looks of a thread that is out */
#define LOG_EVERY_MS    10000

enum job_state { JOB_QUEUED, JOB_TAKEN, JOB_ABANDONED, JOB_DONE };

struct job {
    struct backend_request *request;
    enum job_state state;
    enum writer_verdict verdict;
    sem_t ended;
    uint64_t queued_at_ms;
    struct job *prev;
    struct job *next;
};

struct writer_thread {
    writer_t *writer;
    backend_conn_t *conn;
    pthread_t thread;
    bool is_keeper; /* sweeps and probes */
    bool is_writer; /* takes groups; the keeper does, too, where there is only one connection */
    bool is_away;   /* its last write found the store away */
    bool is_out;    /* so it leaves the work to those that write, if there are any */
    uint64_t look_at_ms;
    uint64_t watch_at_ms;
    uint64_t sweep_at_ms;
};

struct writer {
    const struct backend *backend;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_cond_t stopping; /* for a keeper that does not write */
    struct job *head;
    struct job *tail;
    size_t waiting_events; /* of the jobs in the queue */
    unsigned busy;         /* threads that write a group */
    unsigned writers;
    unsigned out; /* of them; while all are, all take work: its senders must hear of it */
    bool is_stopping;
    uint64_t answered_at_ms;
    bool is_failing; /* the last write failed for the store's sake */
    struct log_limit log_limit;
    struct writer_thread *threads;
    size_t thread_count;
};

static void enqueue(writer_t *self, struct job *job)
{
    job->next = NULL;
    job->prev = self->tail;
    if (self->tail)
        self->tail->next = job;
    else
        self->head = job;
    self->tail = job;
    self->waiting_events += job->request->batch.event_count;
}

static void unlink_job(writer_t *self, struct job *job)
{
    if (job->prev)
        job->prev->next = job->next;
    else
        self->head = job->next;
    if (job->next)
        job->next->prev = job->prev;
    else
        self->tail = job->prev;
    self->waiting_events -= job->request->batch.event_count;
}

static void job_free(struct job *job)
{
    backend_request_destroy(&job->request);
    sem_destroy(&job->ended);
    free(job);
}

/* The caller's time is up. True when the job is a thread's now, which then frees it. */
static bool give_up(writer_t *self, struct job *job)
{
    pthread_mutex_lock(&self->lock);
    bool is_left_behind = job->state == JOB_TAKEN;
    if (is_left_behind)
        job->state = JOB_ABANDONED;
    else if (job->state == JOB_QUEUED)
        unlink_job(self, job);
    pthread_mutex_unlock(&self->lock);
    return is_left_behind;
}

/* Wakes a thread that may write; the lock is held. */
static void wake_writer(writer_t *self)
{
    if (self->out > 0)
        pthread_cond_broadcast(&self->filled); /* a single signal may go to one that is out */
    else
        pthread_cond_signal(&self->filled);
}

enum writer_verdict writer_store(writer_t *self, struct backend_request **request_p,
                                 uint64_t deadline_ms)
{
    struct job *job = calloc(1, sizeof *job);
    assert(job);
    job->request = *request_p;
    job->verdict = WRITER_TIMED_OUT;
    job->queued_at_ms = clock_mono_ms();
    *request_p = NULL;
    sem_init(&job->ended, 0, 0);

    pthread_mutex_lock(&self->lock);
    bool was_empty = !self->head;
    enqueue(self, job);
    if (was_empty || self->waiting_events >= GROUP_WORTH_EVENTS)
        wake_writer(self);
    pthread_mutex_unlock(&self->lock);

    if (!wait_for(&job->ended, deadline_ms) && give_up(self, job))
        return WRITER_TIMED_OUT;
    enum writer_verdict verdict = job->verdict;
    *request_p = job->request;
    job->request = NULL;
    job_free(job);
    return verdict;
}

/* Takes the first waiting jobs that fit a group; the lock is held. */
static size_t take_group(writer_t *self, struct job *group[GROUP_MAX_REQUESTS])
{
    size_t count = 0;
    size_t events = 0;
    while (self->head && count < GROUP_MAX_REQUESTS) {
        struct job *job = self->head;
        events += job->request->batch.event_count;
        if (count > 0 && events > GROUP_MAX_EVENTS)
            break;
        unlink_job(self, job);
        job->state = JOB_TAKEN;
        group[count++] = job;
    }
    return count;
}

/* Takes note of how the store behaved; the lock is not held. */
static void note_answer(writer_t *self, bool is_ok, const struct err *err)
{
    uint64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&self->lock);
    bool was_failing = self->is_failing;
    self->is_failing = !is_ok;
    if (is_ok)
        self->answered_at_ms = now_ms;
    bool is_logged = !is_ok && log_allowed(&self->log_limit, LOG_EVERY_MS, now_ms);
    pthread_mutex_unlock(&self->lock);
    if (is_logged)
        log_at(LEVEL_ERROR, "store.failing", NULL, LOG_TEXT("reason", err->text));
    if (is_ok && was_failing)
        log_at(LEVEL_INFO, "store.ok", NULL, LOG_TEXT("backend", self->backend->name));
}

static enum backend_status write_requests(struct writer_thread *thread,
                                          struct backend_request *const *requests, size_t count)
{
    struct err err = {{0}};
    enum backend_status status =
        thread->writer->backend->write(thread->conn, requests, count, &err);
    thread->is_away = status == BACKEND_AWAY;
    if (status == BACKEND_OK || status == BACKEND_AWAY)
        note_answer(thread->writer, status == BACKEND_OK, &err);
    return status;
}

static enum writer_verdict verdict_of(enum backend_status status)
{
    if (status == BACKEND_OK)
        return WRITER_STORED;
    return status == BACKEND_IN_FLIGHT ? WRITER_IN_FLIGHT : WRITER_AWAY;
}

static void end_job(writer_t *self, struct job *job, enum backend_status status)
{
    /* A single request that a backend wants to see run again would come back for ever. */
    assert(status != BACKEND_RERUN);
    pthread_mutex_lock(&self->lock);
    bool is_abandoned = job->state == JOB_ABANDONED;
    job->verdict = verdict_of(status);
    job->state = JOB_DONE;
    /* Inside the lock: a caller whose time is up just now may free the job once it has the lock. */
    if (!is_abandoned)
        sem_post(&job->ended);
    pthread_mutex_unlock(&self->lock);
    if (is_abandoned)
        job_free(job);
}

/* Has the caller gone? Each of a group that is run again one by one may take long, and nobody was
 * told what became of those whose callers did not wait. */
static bool is_abandoned(writer_t *self, const struct job *job)
{
    pthread_mutex_lock(&self->lock);
    bool is_it = job->state == JOB_ABANDONED;
    pthread_mutex_unlock(&self->lock);
    return is_it;
}

static enum backend_status write_alone(struct writer_thread *thread, struct job *job)
{
    if (is_abandoned(thread->writer, job))
        return BACKEND_AWAY;
    return write_requests(thread, &job->request, 1);
}

static void write_group(struct writer_thread *thread, struct job **group, size_t count)
{
    struct backend_request *requests[GROUP_MAX_REQUESTS];
    for (size_t i = 0; i < count; i++)
        requests[i] = group[i]->request;
    enum backend_status status = write_requests(thread, requests, count);
    for (size_t i = 0; i < count; i++) {
        enum backend_status own = status == BACKEND_RERUN ? write_alone(thread, group[i]) : status;
        end_job(thread->writer, group[i], own);
    }
}

static void watch(struct writer_thread *thread, uint64_t now_ms)
{
    writer_t *self = thread->writer;
    pthread_mutex_lock(&self->lock);
    bool is_deep = self->is_failing;
    bool is_due = is_deep || now_ms - self->answered_at_ms >= WATCH_MS;
    pthread_mutex_unlock(&self->lock);
    thread->watch_at_ms = now_ms + WATCH_MS;
    if (!is_due)
        return;
    struct err err = {{0}};
    note_answer(self, self->backend->probe(thread->conn, is_deep, &err) == 0, &err);
}

static void sweep(struct writer_thread *thread, uint64_t now_ms)
{
    struct err err = {{0}};
    int removed = thread->writer->backend->sweep(thread->conn, SWEEP_ROWS, &err);
    if (removed == -1)
        log_at(LEVEL_WARN, "store.sweep_failed", NULL, LOG_TEXT("reason", err.text));
    thread->sweep_at_ms = now_ms + (removed == SWEEP_ROWS ? SWEEP_AGAIN_MS : SWEEP_MS);
}

/* A thread that cannot write, as when the server has no connection to spare, would be free all the
 * time, take most of what comes and fail it. The lock is held. */
static void set_out(struct writer_thread *thread, bool is_out)
{
    writer_t *self = thread->writer;
    if (is_out && !thread->is_out)
        self->out++;
    if (!is_out && thread->is_out)
        self->out--;
    thread->is_out = is_out;
    thread->look_at_ms = clock_mono_ms() + LOOK_MS;
}

/* Can a thread that is out write again? */
static void look(struct writer_thread *thread)
{
    struct err err = {{0}};
    bool is_out = thread->writer->backend->probe(thread->conn, false, &err) == -1;
    pthread_mutex_lock(&thread->writer->lock);
    set_out(thread, is_out);
    pthread_mutex_unlock(&thread->writer->lock);
}

/* What is done between groups. */
static void upkeep(struct writer_thread *thread)
{
    uint64_t now_ms = clock_mono_ms();
    if (thread->is_out && now_ms >= thread->look_at_ms)
        look(thread);
    if (!thread->is_keeper)
        return;
    if (now_ms >= thread->watch_at_ms)
        watch(thread, now_ms);
    if (now_ms >= thread->sweep_at_ms)
        sweep(thread, now_ms);
}

static uint64_t next_upkeep_ms(const struct writer_thread *thread)
{
    uint64_t at_ms = clock_mono_ms() + SWEEP_MS;
    if (thread->is_keeper)
        at_ms = clock_sooner_ms(thread->watch_at_ms, thread->sweep_at_ms);
    return thread->is_out ? clock_sooner_ms(at_ms, thread->look_at_ms) : at_ms;
}

/* Is the work the thread's to do? The lock is held. */
static bool may_write(const struct writer_thread *thread)
{
    const writer_t *self = thread->writer;
    return thread->is_writer &&
           (!thread->is_out || self->out == self->writers || self->is_stopping);
}

/* Should the thread, which is free, write what waits? The lock is held. */
static bool is_time_to_write(const struct writer_thread *thread, uint64_t now_ms)
{
    const writer_t *self = thread->writer;
    return self->head && may_write(thread) &&
           (self->busy == 0 || self->is_stopping || self->waiting_events >= GROUP_WORTH_EVENTS ||
            now_ms >= self->head->queued_at_ms + GROUP_PATIENCE_MS);
}

/* Sleeps until there is something to do; the lock is held. */
static void wait_for_work(struct writer_thread *thread)
{
    writer_t *self = thread->writer;
    uint64_t upkeep_at_ms = next_upkeep_ms(thread);
    pthread_cond_t *cond = thread->is_writer ? &self->filled : &self->stopping;
    for (;;) {
        uint64_t now_ms = clock_mono_ms();
        uint64_t wake_at_ms = upkeep_at_ms;
        if (self->is_stopping || now_ms >= upkeep_at_ms || is_time_to_write(thread, now_ms))
            return;
        if (self->head && may_write(thread))
            wake_at_ms = clock_sooner_ms(wake_at_ms, self->head->queued_at_ms + GROUP_PATIENCE_MS);
        wait_until(cond, &self->lock, wake_at_ms);
    }
}

static void *run(void *arg)
{
    struct writer_thread *thread = arg;
    writer_t *self = thread->writer;
    struct job *group[GROUP_MAX_REQUESTS];
    bool is_over = false;
    log_thread_role("daemon");
    while (!is_over) {
        pthread_mutex_lock(&self->lock);
        wait_for_work(thread);
        size_t count = may_write(thread) ? take_group(self, group) : 0;
        self->busy += count > 0;
        if (self->head && thread->is_writer)
            wake_writer(self); /* there is work for another thread */
        is_over = self->is_stopping && count == 0;
        pthread_mutex_unlock(&self->lock);
        if (count > 0) {
            write_group(thread, group, count);
            pthread_mutex_lock(&self->lock);
            self->busy--;
            set_out(thread, thread->is_away);
            pthread_mutex_unlock(&self->lock);
        }
        if (!is_over)
            upkeep(thread);
    }
    return NULL;
}

/* A store whose connections are only made when they are used may be away. */
static void first_look(struct writer_thread *thread)
{
    struct err err = {{0}};
    note_answer(thread->writer, thread->writer->backend->probe(thread->conn, false, &err) == 0,
                &err);
}

/* is_alone: no other thread will write. */
static int start_thread(writer_t *self, backend_store_t *store, bool is_alone, struct err *err)
{
    struct writer_thread *thread = &self->threads[self->thread_count];
    thread->writer = self;
    thread->is_keeper = self->thread_count == 0;
    thread->is_writer = self->thread_count > 0 || is_alone;
    thread->watch_at_ms = clock_mono_ms();
    thread->sweep_at_ms = thread->watch_at_ms + WATCH_MS;
    thread->conn = self->backend->connect(store, true, err);
    if (!thread->conn)
        return -1;
    if (thread->is_keeper)
        first_look(thread);
    if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
        self->backend->disconnect(&thread->conn);
        return err_set(err, "cannot start a writer thread");
    }
    self->thread_count++;
    return 0;
}

static unsigned writers_of(const struct backend *backend)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (backend->writers > 0)
        return backend->writers;
    return cores < 1 || cores > 4 ? 8 : 2 * (unsigned)cores;
}

writer_t *writer_new(const struct backend *backend, backend_store_t *store, struct err *err)
{
    writer_t *self = calloc(1, sizeof *self);
    assert(self);
    self->backend = backend;
    pthread_mutex_init(&self->lock, NULL);
    wait_init(&self->filled);
    wait_init(&self->stopping);
    self->answered_at_ms = clock_mono_ms();
    /* Where several write at once, one more keeps watch: a large request must not hide that the
     * store answers. */
    unsigned writers = writers_of(backend);
    unsigned threads = writers > 1 ? writers + 1 : 1;
    self->writers = writers;
    self->threads = calloc(threads, sizeof *self->threads);
    assert(self->threads);
    for (unsigned i = 0; i < threads; i++) {
        if (start_thread(self, store, threads == 1, err) == -1) {
            writer_destroy(&self);
            return NULL;
        }
    }
    return self;
}

void writer_destroy(writer_t **self_p)
{
    writer_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    pthread_mutex_lock(&self->lock);
    self->is_stopping = true;
    pthread_cond_broadcast(&self->filled);
    pthread_cond_broadcast(&self->stopping);
    pthread_mutex_unlock(&self->lock);
    for (size_t i = 0; i < self->thread_count; i++) {
        pthread_join(self->threads[i].thread, NULL);
        self->backend->disconnect(&self->threads[i].conn);
    }
    free(self->threads);
    pthread_cond_destroy(&self->filled);
    pthread_cond_destroy(&self->stopping);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

bool writer_is_ready(writer_t *self, uint64_t now_ms)
{
    pthread_mutex_lock(&self->lock);
    bool is_ready = !self->is_failing && now_ms - self->answered_at_ms < ANSWER_LIMIT_MS;
    pthread_mutex_unlock(&self->lock);
    return is_ready;
}

size_t writer_waiting(writer_t *self)
{
    size_t count = 0;
    pthread_mutex_lock(&self->lock);
    for (const struct job *job = self->head; job; job = job->next)
        count++;
    pthread_mutex_unlock(&self->lock);
    return count;
}
