// SPDX-License-Identifier: MIT
#include "proto/submit_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "proto/link.h"

#define MESSAGE_MAX ((int64_t)64 * 1024) /* what a broker sends is small */

struct submit_client {
    char *endpoint;
    char *name;
    struct link link;
    struct frames inbox;
    bool was_open; /* SUBMIT_LOST is due when the link is no longer open */
    uint64_t max_record;
    uint64_t window_bytes;
    uint64_t outstanding_bytes;
};

submit_client_t *submit_client_new(const char *endpoint, const char *name, uint64_t silence_ms,
                                   struct err *err)
{
    submit_client_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    self->endpoint = strdup(endpoint);
    self->name = strdup(name);
    frames_init(&self->inbox, 1);
    struct link_config config = {.endpoint = self->endpoint,
                                 .name = self->name,
                                 .incoming = WIRE_BG,
                                 .max_message_bytes = MESSAGE_MAX,
                                 .silence_ms = silence_ms};
    if (link_open(&self->link, &config, clock_mono_ms(), err) == -1)
        submit_client_destroy(&self);
    return self;
}

void submit_client_destroy(submit_client_t **self_p)
{
    submit_client_t *self = *self_p;
    if (self == NULL)
        return;
    link_close(&self->link);
    frames_fini(&self->inbox);
    free(self->endpoint);
    free(self->name);
    free(self);
    *self_p = NULL;
}

int submit_client_fd(const submit_client_t *self)
{
    return link_fd(&self->link);
}

bool submit_client_may_sleep(const submit_client_t *self)
{
    return self->link.is_drained;
}

bool submit_client_is_alive(const submit_client_t *self, uint64_t now_ms)
{
    return self->link.state == LINK_OPEN &&
           now_ms < self->link.heard_at_ms + self->link.config.silence_ms;
}

uint64_t submit_client_window(const submit_client_t *self)
{
    return self->window_bytes > self->outstanding_bytes
               ? self->window_bytes - self->outstanding_bytes
               : 0;
}

uint64_t submit_client_max_record(const submit_client_t *self)
{
    return self->max_record;
}

int submit_client_begin(submit_client_t *self, uint64_t seq, uint32_t count, uint64_t bytes,
                        uint64_t now_ms)
{
    struct wire_message message = {.type = WIRE_SUBMIT, .SUBMIT = {.seq = seq, .count = count}};
    assert(count >= 1 && count <= WIRE_SUBMIT_COUNT);
    if (link_send(&self->link, &message, true, now_ms) == -1)
        return -1;
    self->outstanding_bytes += bytes;
    return 0;
}

void submit_client_add(submit_client_t *self, struct slice meta, struct slice body,
                       submit_release *release, void *hint, bool is_last)
{
    void *socket = link_socket(&self->link);
    (void)!frames_send_given(socket, meta, release, hint, true);
    (void)!frames_send_given(socket, body, release, hint, !is_last);
}

void submit_client_forget(submit_client_t *self, uint64_t bytes)
{
    self->outstanding_bytes -= bytes < self->outstanding_bytes ? bytes : self->outstanding_bytes;
}

static enum submit_event on_status(const struct wire_STATUS *status, struct submit_news *news)
{
    news->status = (struct submit_status){
        .used_bytes = status->used,
        .max_bytes = status->max,
        .intake = status->intake,
        .upstreams_up = status->upstreams_up,
        .upstreams_total = status->upstreams_total,
        .oldest_s = status->oldest_s,
        .note = status->note,
    };
    return SUBMIT_STATUS;
}

static void on_welcome(submit_client_t *self, const struct wire_WELCOME *welcome)
{
    self->was_open = true;
    self->max_record = welcome->max_record;
    self->window_bytes = welcome->window_bytes;
}

/* True once for each session that ended. */
static bool is_lost(submit_client_t *self)
{
    if (!self->was_open || self->link.state == LINK_OPEN)
        return false;
    self->was_open = false;
    self->outstanding_bytes = 0;
    return true;
}

enum submit_event submit_client_recv(submit_client_t *self, struct submit_news *news,
                                     uint64_t now_ms)
{
    struct wire_message message;
    while (!is_lost(self)) {
        if (link_recv(&self->link, &self->inbox, &message, now_ms) == 0)
            return is_lost(self) ? SUBMIT_LOST : SUBMIT_NOTHING;
        switch (message.type) {
        case WIRE_STORED:
            news->seq = message.STORED.seq;
            news->verdicts = message.STORED.verdicts;
            return SUBMIT_STORED;
        case WIRE_STATUS:
            return on_status(&message.STATUS, news);
        case WIRE_WELCOME:
            on_welcome(self, &message.WELCOME);
            break;
        default:
            break;
        }
    }
    return SUBMIT_LOST;
}

uint64_t submit_client_tick(submit_client_t *self, uint64_t now_ms)
{
    return link_tick(&self->link, 0, now_ms);
}
