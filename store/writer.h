// SPDX-License-Identifier: MIT
/*
 * writer: the threads that write to the store. Every request that waits when a thread is free goes
 * into its next transaction, so many small requests share one sync of the disk; a second thread
 * writes beside the first when enough waits, or for some milliseconds. When a group fails for a
 * reason that lies in a request, each request of it gets a transaction of its own, so that none
 * harms its neighbours.
 *
 * The threads also sweep and keep watch on whether the store answers.
 */
#ifndef MCPD_STORE_WRITER_H
#define MCPD_STORE_WRITER_H

#include "store/backend.h"

typedef struct writer writer_t;

enum writer_verdict {
    WRITER_STORED,    /* committed; the request's results are set */
    WRITER_IN_FLIGHT, /* not stored; the same is being stored elsewhere right now */
    WRITER_AWAY,      /* not stored; the store does not take writes now */
    WRITER_TIMED_OUT, /* not known to be stored by the deadline */
};

/* Connects and starts the threads. The store must outlive it. Null with the reason. */
writer_t *writer_new(const struct backend *backend, backend_store_t *store,
                     struct err *err) MUST_USE;
/* Writes what waits, then ends the threads. No call of writer_store may be under way. */
void writer_destroy(writer_t **self_p);

/* Stores a request and blocks until its transaction committed or failed, at most until
 * deadline_ms (clock_mono_ms). Any thread. On WRITER_TIMED_OUT the writer may still be at it and
 * then keeps the request: *request_p is null. */
enum writer_verdict writer_store(writer_t *self, struct backend_request **request_p,
                                 uint64_t deadline_ms) MUST_USE;

/* The store answered within the last 5 seconds and its last write did not fail. Any thread, never
 * blocks for long. */
bool writer_is_ready(writer_t *self, uint64_t now_ms);

/* Requests in line that no thread has taken yet. Any thread. */
size_t writer_waiting(writer_t *self);

#endif
