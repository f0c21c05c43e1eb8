// SPDX-License-Identifier: MIT
/*
 * pg_group: the requests that are written in one transaction, and their events by type, in the
 * order of their identities, so that transactions that have the same rows take them in the same
 * order. One thread.
 */
#ifndef MCPD_STORE_PG_GROUP_H
#define MCPD_STORE_PG_GROUP_H

#include "store/pg_conn.h"
#include "store/rows.h"

#define PG_IDENTITY_LEN     40
#define PG_IDENTITY_DAY_LEN 16 /* of a span: its project and day come first */

/* An event on its way into its table. */
struct pg_item {
    uint8_t identity[PG_IDENTITY_LEN];
    struct backend_request *request;
    const struct event *event;
    int64_t project;
    uint32_t position; /* in the request's events, derived ones behind the others */
    uint32_t order;    /* of arrival in the group */
    bool is_new;       /* it changed something */
};

struct pg_items {
    struct pg_item *items;
    size_t count;
    size_t capacity;
};

enum pg_key_state {
    PG_KEY_UNKNOWN, /* not taken yet */
    PG_KEY_NEW,     /* taken: its request's events are to be written */
    PG_KEY_KNOWN,   /* a resend, whose counts are set */
    PG_KEY_TWIN,    /* the same as one earlier in the group */
};

struct pg_key {
    int64_t project;
    struct backend_request *request;
    uint32_t order;
    enum pg_key_state state;
};

struct pg_group {
    struct pg_key *keys; /* one a request, in the order of project and key, then of arrival */
    size_t count;
    struct pg_items lists[EVENT_TYPE_COUNT];
    /* Of the only request: which events are left out, by position; null: none. */
    const bool *left_out;
};

/* projects: the number of each request's. */
void pg_group_init(struct pg_group *self, struct backend_request *const *requests,
                   const int64_t *projects, size_t count);
void pg_group_fini(struct pg_group *self);

/* Lists the events of the requests whose keys are new. */
void pg_group_list(struct pg_group *self);
/* Counts what became of them; twins and resends are answered from the first. */
void pg_group_settle(struct pg_group *self);

/* Is it the first of its identity? */
bool pg_item_is_first(const struct pg_items *list, size_t at);
/* The key with this project and digest, the first of its twins; or null. */
struct pg_key *pg_group_find_key(const struct pg_group *self, int64_t project, struct slice digest);

#endif
