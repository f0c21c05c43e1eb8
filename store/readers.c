// SPDX-License-Identifier: MIT
#include "store/readers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/wait.h"

#define CONNECTIONS 4

struct readers {
    const struct backend *backend;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    backend_conn_t *idle[CONNECTIONS];
    size_t idle_count;
};

readers_t *readers_new(const struct backend *backend, backend_store_t *store, struct err *err)
{
    readers_t *self = calloc(1, sizeof *self);
    assert(self);
    self->backend = backend;
    pthread_mutex_init(&self->lock, NULL);
    wait_init(&self->freed);
    while (self->idle_count < CONNECTIONS) {
        backend_conn_t *conn = backend->connect(store, false, err);
        if (!conn) {
            readers_destroy(&self);
            break;
        }
        self->idle[self->idle_count++] = conn;
    }
    return self;
}

void readers_destroy(readers_t **self_p)
{
    readers_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (size_t i = 0; i < self->idle_count; i++)
        self->backend->disconnect(&self->idle[i]);
    pthread_cond_destroy(&self->freed);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

backend_conn_t *readers_take(readers_t *self, uint64_t deadline_ms)
{
    backend_conn_t *conn = NULL;
    pthread_mutex_lock(&self->lock);
    int rc = 0;
    while (self->idle_count == 0 && rc != ETIMEDOUT)
        rc = wait_until(&self->freed, &self->lock, deadline_ms);
    if (self->idle_count > 0)
        conn = self->idle[--self->idle_count];
    pthread_mutex_unlock(&self->lock);
    return conn;
}

void readers_give_back(readers_t *self, backend_conn_t **conn_p)
{
    pthread_mutex_lock(&self->lock);
    self->idle[self->idle_count++] = *conn_p;
    *conn_p = NULL;
    pthread_cond_signal(&self->freed);
    pthread_mutex_unlock(&self->lock);
}
