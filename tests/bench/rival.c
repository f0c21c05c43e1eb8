// SPDX-License-Identifier: MIT
/*
 * rival: the best a durable queue behind civetweb can hope for. Handlers hand their body to one
 * writer thread and sleep; the writer takes whatever has gathered, writes it with one pwritev,
 * makes it durable with one fdatasync and wakes the whole batch. No ZeroMQ, no digest, no metadata,
 * no checksum, no way to read it back. rival PORT FILE
 *
 * Why nothing faster is known:
 * - No byte is copied between civetweb's read and the file: the iovecs point into the workers'
 *   buffers.
 * - One sync serves everybody who came while the one before ran; no timer delays the first of a
 *   batch. A second writer would only split the batches.
 * - Hand-over is one compare-and-swap, and the writer is woken only when it sleeps.
 * - All of a batch sleep on one futex, so waking them is one system call. A futex each was slower
 *   with 64 connections, and letting the woken wake each other slower still.
 * - Space is reserved far ahead, so that a sync need not write the file's size. pwritev2 with
 *   RWF_DSYNC made no difference. Overwriting blocks that were written before would save a tenth,
 *   but the upstream is away and everything is kept: a queue has no such blocks then.
 */
#include "server.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define RESERVE_BYTES ((off_t)64 * 1024 * 1024)
#define BATCH_MAX     512 /* as many as there are workers */

/* A worker's request, on its stack until the batch is durable. */
struct waiter {
    struct waiter *next;
    struct iovec bytes;
    _Atomic bool is_done;
};

/* The list's head is the address of the newest waiter with the parity of the batch it belongs to in
 * bit 0: batches alternate, so a waiter sleeps on the futex of its own batch. */
struct queue {
    _Atomic uintptr_t head;
    _Atomic uint32_t writer_sleeps;
    _Atomic uint32_t done[2]; /* batches done, by parity */
    int fd;
    off_t end;
    off_t reserved;
};

static struct waiter *waiter_of(uintptr_t head)
{
    return (struct waiter *)(head & ~(uintptr_t)1);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t while_value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static int store(void *arg, char *body, size_t len)
{
    struct queue *self = arg;
    uint64_t length = len;
    memcpy(body - sizeof length, &length, sizeof length);
    struct waiter waiter = {.bytes = {body - sizeof length, len + sizeof length}};

    uintptr_t head = atomic_load(&self->head);
    uintptr_t parity;
    do {
        parity = head & 1;
        waiter.next = waiter_of(head);
    } while (!atomic_compare_exchange_weak(&self->head, &head, (uintptr_t)&waiter | parity));
    if (waiter.next == NULL && atomic_exchange(&self->writer_sleeps, 0) == 1)
        futex_wake(&self->writer_sleeps, 1);

    for (;;) {
        uint32_t seen = atomic_load(&self->done[parity]);
        if (atomic_load(&waiter.is_done))
            return 0;
        futex_wait(&self->done[parity], seen);
    }
}

/* Sleeps until somebody waits; takes all who do and opens the next batch. */
static struct waiter *take_batch(struct queue *self, uintptr_t next_parity)
{
    while (waiter_of(atomic_load(&self->head)) == NULL) {
        atomic_store(&self->writer_sleeps, 1);
        if (waiter_of(atomic_load(&self->head)) != NULL) {
            atomic_store(&self->writer_sleeps, 0);
            break;
        }
        futex_wait(&self->writer_sleeps, 1);
    }
    return waiter_of(atomic_exchange(&self->head, next_parity));
}

static void make_durable(struct queue *self, const struct iovec *bytes, int count, size_t total)
{
    if (self->end + (off_t)total > self->reserved) {
        if (posix_fallocate(self->fd, self->reserved, RESERVE_BYTES) != 0)
            abort();
        self->reserved += RESERVE_BYTES;
    }
    if (pwritev(self->fd, bytes, count, self->end) != (ssize_t)total || fdatasync(self->fd) != 0)
        abort();
    self->end += (off_t)total;
}

static void *write_batches(void *arg)
{
    struct queue *self = arg;
    struct waiter *waiters[BATCH_MAX];
    struct iovec bytes[BATCH_MAX];
    for (uintptr_t parity = 0;; parity ^= 1) {
        int count = 0;
        size_t total = 0;
        for (struct waiter *w = take_batch(self, parity ^ 1); w != NULL; w = w->next) {
            waiters[count] = w;
            bytes[count++] = w->bytes;
            total += w->bytes.iov_len;
        }
        make_durable(self, bytes, count, total);
        for (int i = 0; i < count; i++)
            atomic_store(&waiters[i]->is_done, true);
        atomic_fetch_add(&self->done[parity], 1);
        futex_wake(&self->done[parity], INT_MAX);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: rival PORT FILE\n");
        return 2;
    }
    struct queue queue = {.fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600)};
    pthread_t writer;
    if (queue.fd == -1 || pthread_create(&writer, NULL, write_batches, &queue) != 0) {
        perror("rival");
        return 1;
    }
    return bench_serve(argv[1], store, &queue) == 0 ? 0 : 1;
}
