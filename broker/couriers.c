// SPDX-License-Identifier: MIT
#include "broker/couriers.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void couriers_fini(struct couriers *self)
{
    while (self->first != NULL) {
        struct courier *next = self->first->next;
        free(self->first);
        self->first = next;
    }
    self->count = 0;
}

struct slice courier_routing_id(const struct courier *self)
{
    return (struct slice){self->routing_id, self->routing_id_len};
}

struct courier *couriers_find(const struct couriers *self, struct slice routing_id)
{
    struct courier *courier = self->first;
    while (courier != NULL && (courier->is_gone || courier->routing_id_len != routing_id.len ||
                               memcmp(courier->routing_id, routing_id.data, routing_id.len) != 0))
        courier = courier->next;
    return courier;
}

struct courier *couriers_find_session(const struct couriers *self, uint64_t session)
{
    struct courier *courier = self->first;
    while (courier != NULL && (courier->is_gone || courier->session != session))
        courier = courier->next;
    return courier;
}

struct courier *couriers_find_name(const struct couriers *self, struct slice name)
{
    struct courier *courier = self->first;
    while (courier != NULL && (courier->is_gone || !slice_equals(name, courier->name)))
        courier = courier->next;
    return courier;
}

struct courier *couriers_add(struct couriers *self, uint64_t session, struct slice name)
{
    struct courier *courier = calloc(1, sizeof *courier);
    if (courier == NULL)
        abort();
    courier->session = session;
    snprintf(courier->name, sizeof courier->name, SLICE_FORMAT, SLICE_ARGS(name));
    courier->next = self->first;
    self->first = courier;
    self->count++;
    return courier;
}

void courier_reached_by(struct courier *self, struct slice routing_id)
{
    self->routing_id_len = routing_id.len;
    memcpy(self->routing_id, routing_id.data, routing_id.len);
}

bool courier_set_note(struct courier *self, struct slice note)
{
    char clean[COURIER_NOTE_MAX];
    size_t len = note.len < sizeof clean ? note.len : sizeof clean - 1;
    for (size_t i = 0; i < len; i++)
        clean[i] = note.data[i] >= ' ' && note.data[i] <= '~' ? note.data[i] : '?';
    clean[len] = '\0';
    bool is_changed = strcmp(clean, self->note) != 0;
    memcpy(self->note, clean, len + 1);
    return is_changed;
}

void courier_add_credit(struct courier *self, uint32_t more)
{
    uint32_t room = COURIER_CREDIT_MAX - self->credit;
    self->credit += more < room ? more : room;
}

void couriers_sweep(struct couriers *self)
{
    struct courier **at = &self->first;
    while (*at != NULL) {
        struct courier *courier = *at;
        if (!courier->is_gone) {
            at = &courier->next;
            continue;
        }
        *at = courier->next;
        self->count--;
        free(courier);
    }
}

/* Puts it behind all others, so that the next choice begins with somebody else. */
static void move_to_end(struct couriers *self, struct courier *chosen)
{
    if (chosen->next == NULL)
        return;
    struct courier **at = &self->first;
    while (*at != chosen)
        at = &(*at)->next;
    *at = chosen->next;
    while (*at != NULL)
        at = &(*at)->next;
    *at = chosen;
    chosen->next = NULL;
}

struct courier *couriers_choose(struct couriers *self, bool has_alone)
{
    struct courier *courier = self->first;
    while (courier != NULL && (courier->is_gone || courier->credit == 0 || courier->has_alone ||
                               (has_alone && courier->wants_alone)))
        courier = courier->next;
    if (courier != NULL)
        move_to_end(self, courier);
    return courier;
}

struct courier *couriers_choose_alone(struct couriers *self)
{
    struct courier *able = NULL, *waiting = NULL;
    for (struct courier *courier = self->first; courier; courier = courier->next) {
        if (courier->is_gone || courier->credit == 0)
            continue;
        if (courier->held.count == 0)
            return courier;
        able = courier;
        if (courier->wants_alone)
            waiting = courier;
    }
    if (waiting == NULL && able != NULL && !able->has_alone)
        able->wants_alone = true;
    return NULL;
}

void token_encode(const struct token *self, char out[TOKEN_SIZE])
{
    const uint64_t words[4] = {
        htole64(self->boot_id),
        htole64(self->id.segno),
        htole64((uint64_t)self->id.ordinal << 32 | self->id.nonce32),
        htole64(self->lease_no),
    };
    memcpy(out, words, TOKEN_SIZE);
}

int token_decode(struct token *self, struct slice bytes)
{
    uint64_t words[4];
    if (bytes.len != TOKEN_SIZE)
        return -1;
    memcpy(words, bytes.data, TOKEN_SIZE);
    self->boot_id = le64toh(words[0]);
    self->id.segno = le64toh(words[1]);
    self->id.ordinal = (uint32_t)(le64toh(words[2]) >> 32);
    self->id.nonce32 = (uint32_t)le64toh(words[2]);
    self->lease_no = le64toh(words[3]);
    return 0;
}
