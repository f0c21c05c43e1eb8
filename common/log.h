// SPDX-License-Identifier: MIT
/*
 * log: one line an event on standard error: `ts level role event rid key=value ...`, or the same
 * fields as one JSON object. Any thread; one write per line.
 *
 * Info is for changes of state, never per request. Secrets never go in; values are escaped, so
 * untrusted text may.
 */
#ifndef MCPD_LOG_H
#define MCPD_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };

struct log_field {
    const char *key;  /* null ends the list */
    const char *text; /* null: the number is meant */
    int64_t number;
};

#define LOG_TEXT(k, v) ((struct log_field){.key = (k), .text = (v)})
#define LOG_NUM(k, v)  ((struct log_field){.key = (k), .number = (int64_t)(v)})

/* Once, before threads start. */
void log_open(enum log_level level, bool as_json);
/* Names the role of the calling thread (static text), for the third column and for tools that show
 * threads. Threads that never call
 * it show the role that log_process_role gave. */
void log_thread_role(const char *role);
void log_process_role(const char *role);

/* rid: the request the line is about (its Idempotency-Key), or null. fields end with a null key. */
void log_write(enum log_level level, const char *event, const char *rid,
               const struct log_field *fields);

#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__, {0}})
/* log_at(LEVEL_WARN, "spool.full", NULL, LOG_NUM("used", n), LOG_TEXT("path", p)); at least one
 * field
 */
#define log_at(level, event, rid, ...) log_write(level, event, rid, LOG_FIELDS(__VA_ARGS__))

/* A limiter for repeats: true at most once per interval; counts what it swallowed. Zero-initialise;
 * one thread. */
struct log_limit {
    uint64_t next_at_ms;
    uint64_t swallowed;
};
bool log_allowed(struct log_limit *limit, uint64_t interval_ms, uint64_t now_ms);

#endif
