// SPDX-License-Identifier: MIT
/*
 * A stack that is taken whole and turned around. No wake-up can be lost: the reader first says that
 * it is going to sleep and then looks once more; the poster first posts and then looks whether the
 * reader sleeps. Both orders are sequentially consistent.
 */
#include "common/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *self, struct err *err)
{
    atomic_init(&self->top, NULL);
    atomic_init(&self->is_sleeping, false);
    atomic_init(&self->is_closed, false);
    self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return self->fd == -1 ? err_set(err, "eventfd: %s", strerror(errno)) : 0;
}

void mailbox_fini(struct mailbox *self)
{
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}

void mailbox_post(struct mailbox *self, struct mailbox_item *item)
{
    item->next = atomic_load_explicit(&self->top, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&self->top, &item->next, item))
        ;
    if (atomic_load(&self->is_sleeping) && atomic_exchange(&self->is_sleeping, false))
        (void)eventfd_write(self->fd, 1); /* fails only when it is readable anyway */
}

void mailbox_close(struct mailbox *self)
{
    atomic_store(&self->is_closed, true);
    (void)eventfd_write(self->fd, 1);
}

bool mailbox_is_closed(struct mailbox *self)
{
    return atomic_load_explicit(&self->is_closed, memory_order_relaxed);
}

struct mailbox_item *mailbox_take(struct mailbox *self)
{
    if (atomic_load_explicit(&self->top, memory_order_relaxed) == NULL)
        return NULL;
    struct mailbox_item *newest = atomic_exchange(&self->top, NULL);
    struct mailbox_item *oldest = NULL;
    while (newest != NULL) {
        struct mailbox_item *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool mailbox_may_sleep(struct mailbox *self)
{
    atomic_store(&self->is_sleeping, true);
    if (atomic_load(&self->top) == NULL)
        return true;
    atomic_store(&self->is_sleeping, false);
    return false;
}

int mailbox_fd(const struct mailbox *self)
{
    return self->fd;
}

void mailbox_woken(struct mailbox *self, bool has_event)
{
    eventfd_t count;
    atomic_store(&self->is_sleeping, false);
    if (has_event)
        (void)eventfd_read(self->fd, &count);
}
