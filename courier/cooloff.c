// SPDX-License-Identifier: MIT
#include "courier/cooloff.h"

#include <assert.h>

#include "courier/backoff.h"

#define FORGIVE_MS           30000 /* CLOSED for so long takes one strike back */
#define TRIAL_GRACE_MS       1000  /* an attempt ends by its own timeout; later it is lost */
#define GOOD_PROBES_TO_RETRY 2

static const struct backoff_range usual_range = {.base_ms = 1000, .cap_ms = 30000};
static const struct backoff_range config_range = {.base_ms = 30000, .cap_ms = 300000};

void cooloff_init(struct cooloff *self, uint64_t now_ms)
{
    *self = (struct cooloff){.state = COOLOFF_CLOSED, .closed_at_ms = now_ms};
}

bool cooloff_wants_trial(const struct cooloff *self, uint64_t now_ms)
{
    return self->state == COOLOFF_COOLING && now_ms >= self->until_ms;
}

void cooloff_trial_begin(struct cooloff *self, uint64_t attempt_ms, uint64_t now_ms)
{
    assert(cooloff_wants_trial(self, now_ms));
    self->state = COOLOFF_HALF_OPEN;
    self->deadline_ms = now_ms + attempt_ms + TRIAL_GRACE_MS;
}

static void extend(struct cooloff *self, uint64_t until_ms)
{
    if (until_ms > self->until_ms)
        self->until_ms = until_ms;
}

static void forgive(struct cooloff *self, uint64_t now_ms)
{
    uint64_t forgiven = (now_ms - self->closed_at_ms) / FORGIVE_MS;
    self->strikes = forgiven < self->strikes ? self->strikes - (unsigned)forgiven : 0;
}

static void begin(struct cooloff *self, uint64_t now_ms)
{
    if (self->state == COOLOFF_CLOSED)
        self->began_at_ms = now_ms;
    self->state = COOLOFF_COOLING;
    self->episode++;
    self->good_probes = 0;
    self->is_firm = false;
}

static void strike(struct cooloff *self, uint64_t now_ms)
{
    if (self->state == COOLOFF_CLOSED)
        forgive(self, now_ms);
    if (self->strikes < COOLOFF_STRIKES_MAX)
        self->strikes++;
}

enum cooloff_change cooloff_failed(struct cooloff *self, const struct cooloff_failure *failure,
                                   uint64_t retry_after_max_s, uint64_t now_ms, double unit)
{
    bool is_news =
        failure->episode == self->episode && (self->state == COOLOFF_CLOSED || failure->is_trial);
    uint64_t named_until_ms = 0;
    if (failure->retry_after_s > 0)
        named_until_ms =
            now_ms + backoff_retry_after_ms(failure->retry_after_s, retry_after_max_s, unit);
    if (!is_news) {
        if (self->state != COOLOFF_COOLING || named_until_ms <= self->until_ms)
            return COOLOFF_UNCHANGED;
        self->until_ms = named_until_ms;
        self->is_firm = true;
        return COOLOFF_EXTENDED;
    }
    strike(self, now_ms);
    begin(self, now_ms);
    self->is_firm = failure->is_config || named_until_ms > 0;
    if (named_until_ms > 0)
        extend(self, named_until_ms);
    else
        extend(self, now_ms + backoff_cool_ms(failure->is_config ? config_range : usual_range,
                                              self->strikes, unit));
    return COOLOFF_COOLED;
}

static bool is_the_trial(const struct cooloff *self, uint32_t episode)
{
    return self->state == COOLOFF_HALF_OPEN && episode == self->episode;
}

enum cooloff_change cooloff_passed(struct cooloff *self, uint32_t episode, bool is_trial,
                                   uint64_t now_ms)
{
    if (!is_trial || !is_the_trial(self, episode))
        return COOLOFF_UNCHANGED;
    self->state = COOLOFF_CLOSED;
    self->closed_at_ms = now_ms;
    return COOLOFF_RECOVERED;
}

void cooloff_trial_void(struct cooloff *self, uint32_t episode, uint64_t now_ms)
{
    if (!is_the_trial(self, episode))
        return;
    self->state = COOLOFF_COOLING;
    self->until_ms = now_ms;
}

enum cooloff_change cooloff_tick(struct cooloff *self, uint64_t now_ms, double unit)
{
    if (self->state != COOLOFF_HALF_OPEN || now_ms < self->deadline_ms)
        return COOLOFF_UNCHANGED;
    begin(self,
          now_ms); /* no strike: nothing was learned; the lost attempt is old news from now on */
    extend(self, now_ms + backoff_cool_ms(usual_range, self->strikes, unit));
    return COOLOFF_COOLED;
}

void cooloff_probed(struct cooloff *self, bool is_good, bool may_end_early, uint64_t now_ms)
{
    self->good_probes = is_good ? self->good_probes + 1 : 0;
    if (self->state != COOLOFF_COOLING || self->is_firm || !may_end_early)
        return;
    if (self->good_probes >= GOOD_PROBES_TO_RETRY && self->until_ms > now_ms)
        self->until_ms = now_ms;
}
