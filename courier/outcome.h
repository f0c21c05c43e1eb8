// SPDX-License-Identifier: MIT
/*
 * outcome: what one attempt means for the request and for the upstream, from one table,
 * outcome.def. Pure. Any thread.
 */
#ifndef MCPD_COURIER_OUTCOME_H
#define MCPD_COURIER_OUTCOME_H

#include <stdbool.h>

enum outcome_class {
    OUTCOME_DELIVERED, /* stored: the request may be forgotten */
    OUTCOME_HARD,      /* about the upstream: it cools, the next one is asked */
    OUTCOME_SOFT,      /* may be the request's fault; treated as HARD */
    OUTCOME_CONFIG,    /* somebody's set-up: it cools for long, the next one is asked */
    OUTCOME_WAIT,      /* the upstream is well and wants the request later */
    OUTCOME_FINAL,     /* refused for good: no other upstream is asked */
    OUTCOME_LOCAL,     /* our own trouble: nobody is blamed */
    OUTCOME_AGAIN,     /* it does not know our Expect: the same upstream again, without */
    OUTCOME_CLASS_COUNT
};

/* What is known of an attempt that ended. */
struct attempt_facts {
    int curl_code;       /* a CURLcode */
    int status;          /* of the answer, 0 = none came */
    bool is_sent;        /* at least the head of the request left us */
    bool is_cut;         /* we stopped reading a long answer: curl_code means nothing */
    bool has_our_key;    /* the upstream was shown a key of ours */
    bool has_asked;      /* the request carried Expect: 100-continue */
    bool says_in_flight; /* the answer said that another copy is being stored */
    bool says_quota;     /* ... that the sender's project has used up its quota */
};

struct outcome {
    enum outcome_class class;
    bool is_braked;    /* a refusal that the brake of upstreams.h counts */
    bool is_ambiguous; /* it may have been stored although no answer says so */
};

struct outcome outcome_of(const struct attempt_facts *facts);

/* The class as a word, for logs. */
const char *outcome_class_name(enum outcome_class class);

#endif
