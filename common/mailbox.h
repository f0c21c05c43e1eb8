// SPDX-License-Identifier: MIT
/*
 * mailbox: items from any number of threads to one reader that sleeps in a poll. Posting is one
 * atomic exchange and costs a system call only when the reader sleeps. Items are intrusive; who
 * posts one gives it away.
 *
 * The reader's turn: mailbox_take, mailbox_may_sleep, poll on mailbox_fd (if that was true),
 * mailbox_woken.
 */
#ifndef MCPD_MAILBOX_H
#define MCPD_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/err.h"

struct mailbox_item {
    struct mailbox_item *next;
};

struct mailbox {
    _Atomic(struct mailbox_item *) top; /* newest first */
    atomic_bool is_sleeping;
    atomic_bool is_closed;
    int fd;
};

int mailbox_init(struct mailbox *self, struct err *err) MUST_USE;
/* No thread posts any more; items still inside are the caller's to take before. */
void mailbox_fini(struct mailbox *self);

/* Any thread. */
void mailbox_post(struct mailbox *self, struct mailbox_item *item);
/* Any thread: tells the reader to end. Wakes it in any case. */
void mailbox_close(struct mailbox *self);

/* --- the reader --- */

bool mailbox_is_closed(struct mailbox *self) MUST_USE;
/* All items posted so far, oldest first, linked by next; null when there are none. */
struct mailbox_item *mailbox_take(struct mailbox *self) MUST_USE;
/* Has posters wake the reader; without it only mailbox_close does. False when something was posted
 * meanwhile: then do not sleep. */
bool mailbox_may_sleep(struct mailbox *self) MUST_USE;
int mailbox_fd(const struct mailbox *self);
/* After the poll; has_event: fd was readable. */
void mailbox_woken(struct mailbox *self, bool has_event);

#endif
