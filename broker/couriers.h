// SPDX-License-Identifier: MIT
/*
 * couriers: delivery's sessions of couriers, and the tokens of their leases. Delivery's thread.
 */
#ifndef MCPD_BROKER_COURIERS_H
#define MCPD_BROKER_COURIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/ledger.h"
#include "common/buf.h"

#define COURIER_ROUTING_ID_MAX 255
#define COURIER_NAME_MAX       256
#define COURIER_NOTE_MAX       128
#define COURIER_CREDIT_MAX     65536u

struct courier {
    struct courier *next;
    uint64_t session;
    uint64_t heard_at_ms;
    uint64_t sent_at_ms;
    uint32_t credit;
    struct entry_list held;
    bool has_alone;   /* holds a lease that must be its only one */
    bool wants_alone; /* gets nothing more until it holds nothing, to take such a lease then */
    bool is_gone;     /* its leases are back; freed by couriers_sweep */
    bool has_upstreams;
    uint32_t upstreams_up;
    uint32_t upstreams_total;
    char note[COURIER_NOTE_MAX];
    size_t routing_id_len;
    char routing_id[COURIER_ROUTING_ID_MAX];
    char name[COURIER_NAME_MAX];
};

struct couriers {
    struct courier *first;
    uint32_t count;
};

void couriers_fini(struct couriers *self);
struct courier *couriers_find(const struct couriers *self, struct slice routing_id);
struct courier *couriers_find_session(const struct couriers *self, uint64_t session);
struct courier *couriers_find_name(const struct couriers *self, struct slice name);
struct courier *couriers_add(struct couriers *self, uint64_t session, struct slice name) MUST_USE;
void courier_reached_by(struct courier *self, struct slice routing_id);
struct slice courier_routing_id(const struct courier *self);
/* Keeps what stands in the note for /readyz and for gateways: at most COURIER_NOTE_MAX - 1 bytes,
 * with '?' for all but visible ASCII and spaces. True when that changed it. */
bool courier_set_note(struct courier *self, struct slice note);
void courier_add_credit(struct courier *self, uint32_t more);
/* Frees those that are gone. */
void couriers_sweep(struct couriers *self);

/* Whom to give the next lease: the one after the last, with credit and nothing against it.
 * has_alone: some lease waits for a courier that has nothing else, so who is set apart for that
 * stays so. Null: nobody. */
struct courier *couriers_choose(struct couriers *self, bool has_alone);
/* Whom to give a lease that must be its only one: somebody idle; otherwise one is set apart until
 * it is, and null is returned. */
struct courier *couriers_choose_alone(struct couriers *self);

/* A lease's name: boot id, message id, number of the lease within the boot. */
#define TOKEN_SIZE 32
struct token {
    uint64_t boot_id;
    struct record_id id;
    uint64_t lease_no;
};
void token_encode(const struct token *self, char out[TOKEN_SIZE]);
/* -1: not of a token's form. */
int token_decode(struct token *self, struct slice bytes) MUST_USE;

#endif
