// SPDX-License-Identifier: MIT
/*
 * batch: what a request body says, once it is decoded: the same for OTLP (protobuf and JSON) and
 * for native batches. A batch knows nothing of projects, keys or the store. It is filled by one
 * decoder call on one thread and read-only afterwards; any one thread may own it.
 *
 *     struct batch batch;
 *     batch_init(&batch);
 *     enum batch_result result = otlp_pb_traces(&batch, body, &policy, &err);
 *     ...
 *     batch_fini(&batch);
 *
 * Events stand in the order in which the body has them. Each carries its index in the body, counted
 * from 0 over all events sent, so that a gap in the indices is a rejected event. Two events of one
 * body may have the same identity: which one counts is the store's decision.
 *
 * Every text is valid UTF-8 without U+0000 (cleaned while decoding), every JSON text is valid and
 * needs no further cleaning. Slices point into the batch's own memory, never into the body, and are
 * not NUL-terminated. An empty slice means "not given" unless said otherwise.
 */
#ifndef MCPD_BATCH_H
#define MCPD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/err.h"

/* What a decoder says of the body as a whole; one row of batch.def each. Anything but OK leaves a
 * batch that holds nothing of use. */
enum batch_result {
#define BATCH_RESULT(id, status, code, meaning) BATCH_##id,
#include "proto/batch.def"
#undef BATCH_RESULT
    BATCH_RESULT_COUNT
};

struct batch_result_row {
    int http_status;
    const char *code; /* for the error body, as "too_many_events" */
    const char *meaning;
};
const struct batch_result_row *batch_result_row(enum batch_result result);
/* The rows of docs/statuses.md: refused bodies, rejected events. */
void batch_markdown(FILE *out);
void reject_markdown(FILE *out);

/* Why one event was rejected; the words of the answer. */
enum reject_code {
#define REJECT_CODE(id, name, meaning) REJECT_##id,
#include "proto/reject.def"
#undef REJECT_CODE
    REJECT_CODE_COUNT
};
const char *reject_code_name(enum reject_code code);

/* What the decoder checks times against. */
struct batch_policy {
    uint64_t now_ns;    /* wall clock; events more than 24 h ahead of it are out of range */
    uint64_t oldest_ns; /* events that start before it are out of range; 0: no such limit */
    unsigned types;     /* of native events: the EVENT_BITs that are taken, others are rejected as
                           bad_type; 0: spans only */
};

#define BATCH_NATIVE_EVENTS_MAX 10000
/* Of one OTLP body, which is taken in slices by the store. */
#define BATCH_OTLP_EVENTS_MAX 200000
/* Rejects that are kept with their reasons; further ones are only counted. */
#define BATCH_REJECTS_KEPT 1000
/* Of a rejected event itself so much is kept; and of all those of a batch together, further ones
 * are kept without. */
#define BATCH_REJECT_SOURCE_MAX  ((size_t)64 * 1024)
#define BATCH_REJECT_SOURCES_MAX ((size_t)4 * 1024 * 1024)
#define BATCH_TOKENS_NONE        ((int64_t)-1)

enum event_type { EVENT_SPAN, EVENT_LOG, EVENT_METRIC, EVENT_SCORE, EVENT_RUN, EVENT_TYPE_COUNT };
#define EVENT_BIT(type) (1u << (type))
#define EVENT_BITS_ALL  (EVENT_BIT(EVENT_TYPE_COUNT) - 1)

/* The numbers are OTLP's. */
enum span_kind {
    SPAN_KIND_UNSPECIFIED,
    SPAN_KIND_INTERNAL,
    SPAN_KIND_SERVER,
    SPAN_KIND_CLIENT,
    SPAN_KIND_PRODUCER,
    SPAN_KIND_CONSUMER,
    SPAN_KIND_COUNT
};
/* "internal"; "unspecified" for 0. */
const char *span_kind_name(enum span_kind kind);

enum span_status { SPAN_STATUS_UNSET, SPAN_STATUS_OK, SPAN_STATUS_ERROR, SPAN_STATUS_COUNT };
/* "unset", "ok", "error" */
const char *span_status_name(enum span_status status);

/*
 * attrs is one JSON object; keys without content are left out:
 *   {"attributes":{...},"resource":{...},
 *    "scope":{"name":"","version":"","attributes":{...}},
 *    "status_message":"","trace_state":"","flags":1,
 *    "events":[{"ts_ns":1,"name":"","attributes":{...}}],
 *    "links":[{"trace_id":"<hex>","span_id":"<hex>","trace_state":"","flags":1,"attributes":{...}}],
 *    "dropped":{"attributes":1,"events":1,"links":1}}
 * Values keep their type: text, int64 exactly, double (always with '.' or 'e'; NaN and infinities
 * as the texts "NaN", "Infinity", "-Infinity"), bool, array, object; bytes as {"bytes":"<base64>"};
 * a value without content as null. Of equal keys the last one stands.
 *
 * content is null-like (empty) or one JSON object with the attributes that hold what people and
 * models said (genai.def: CONTENT). They are taken out of attrs, so that dropping this one column
 * drops them all: {"gen_ai.input.messages":...,"events":[{"index":0,"gen_ai.input.messages":...}]}
 * where index is the position in attrs' events.
 */
struct span {
    uint8_t trace_id[16]; /* never all zero */
    uint8_t span_id[8];   /* never all zero */
    uint8_t parent_id[8];
    bool has_parent;
    enum span_kind kind;
    enum span_status status;
    uint64_t start_ns; /* since 1970; never 0, fits int64 */
    uint64_t end_ns;   /* 0: still open; else not before start_ns, fits int64 */
    struct slice name;
    struct slice error_type; /* "_OTHER" where the status is an error and nothing says which */

    /* Columns that genai.def maps attributes to. */
    struct slice op;
    struct slice provider;
    struct slice model;
    struct slice tool;
    struct slice agent;
    struct slice session;
    struct slice user_id;
    struct slice mcp_method;
    struct slice mcp_session;
    struct slice service;
    struct slice env;
    int64_t in_tok; /* tokens: BATCH_TOKENS_NONE where not given, else 0 or more */
    int64_t out_tok;
    int64_t cache_tok;  /* part of in_tok */
    int64_t reason_tok; /* part of out_tok */

    struct slice attrs;   /* JSON object, never empty: "{}" at least */
    struct slice content; /* JSON object or empty */
};

/* attrs as a span's, with "trace_flags" instead of "flags", without status, events and links. */
struct log_record {
    uint64_t ts_ns;       /* never 0: where the sender gave none, when it was observed */
    uint64_t observed_ns; /* 0: not given */
    int severity;         /* 1 to 24 as OTLP counts (9 info, 13 warn, 17 error); 0: not given */
    bool has_trace;
    bool has_span;
    bool body_is_json; /* body is JSON (an object, an array, a number), not a text as it stands */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    struct slice severity_text;
    struct slice event_name;
    struct slice body;
    struct slice op;
    struct slice model;
    struct slice tool;
    struct slice agent;
    struct slice session;
    struct slice user_id;
    struct slice service;
    struct slice env;
    struct slice attrs;   /* JSON object, never empty */
    struct slice content; /* as a span's */
};

enum point_kind {
    POINT_GAUGE,
    POINT_SUM,
    POINT_HISTOGRAM,
    POINT_EXPONENTIAL, /* histogram */
    POINT_SUMMARY,
    POINT_KIND_COUNT
};
/* "gauge", "sum", "histogram", "exponential_histogram", "summary" */
const char *point_kind_name(enum point_kind kind);

enum temporality { TEMPORALITY_UNSPECIFIED, TEMPORALITY_DELTA, TEMPORALITY_CUMULATIVE };

/*
 * One data point of a metric; an OTLP metric with n points is n events. data is one JSON object
 * with whatever the columns do not hold (members without content are left out):
 *   {"description":"","flags":1,"count":3,"sum":1.5,"min":0.0,"max":1.0,
 *    "bounds":[0.0,1.0],"counts":[1,2,0],
 *    "scale":2,"zero_count":0,"zero_threshold":0.0,
 *    "positive":{"offset":0,"counts":[1]},"negative":{...},
 *    "quantiles":[[0.5,1.0]],
 *    "exemplars":[{"ts_ns":1,"value":1.0,"trace_id":"","span_id":"","attributes":{...}}]}
 * attrs as a log record's.
 */
struct metric_point {
    uint64_t ts_ns;    /* never 0 */
    uint64_t start_ns; /* of what was counted; 0: not given */
    enum point_kind kind;
    enum temporality temporality;
    bool is_monotonic;
    bool has_value; /* false where the sender recorded none, and for a histogram without a sum */
    bool is_int;    /* integer holds the value exactly */
    double value;   /* finite; of a histogram or summary the sum */
    int64_t integer;
    uint64_t count; /* of a histogram or summary, else 0; fits int64 */
    struct slice name;
    struct slice unit;
    struct slice op;
    struct slice provider;
    struct slice model;
    struct slice tool;
    struct slice agent;
    struct slice service;
    struct slice env;
    struct slice data;  /* JSON object, never empty */
    struct slice attrs; /* JSON object, never empty */
};

enum score_type { SCORE_NUMBER, SCORE_BOOLEAN, SCORE_LABEL, SCORE_TEXT, SCORE_TYPE_COUNT };
const char *score_type_name(enum score_type type);
enum score_target { SCORE_OF_SPAN, SCORE_OF_TRACE, SCORE_OF_SESSION, SCORE_OF_RUN };

/* Exactly the ids of its target are set: trace and span for a span. */
struct score {
    struct slice id; /* empty: the sender gave none */
    struct slice name;
    enum score_type type;
    enum score_target target;
    double number;     /* finite; of a boolean 0 or 1; 0 for label and text */
    struct slice text; /* of a label (1 to 200 characters) or text (up to 500); of a number the
                          label that it came with, if any */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    struct slice session;
    struct slice run;
    struct slice source; /* "human", ...; empty: not given */
    struct slice comment;
    struct slice scorer;
    struct slice version;
    uint64_t ts_ns; /* never 0: where the sender gave none, now */
};

struct run {
    struct slice id;    /* never empty */
    struct slice state; /* never empty */
    bool has_trace;
    uint8_t trace_id[16];
    uint64_t start_ns; /* 0: not given */
    uint64_t end_ns;   /* 0: not given or not ended */
    struct slice agent;
    struct slice session;
    struct slice service;
    struct slice env;
    struct slice attrs; /* {"attributes":...,"resource":...}, never empty */
};

struct event {
    enum event_type type;
    uint32_t index; /* among the events sent */
    union {
        struct span span;
        struct log_record log;
        struct metric_point metric;
        struct score score;
        struct run run;
    };
};

/* How a rejected event is kept: as JSON, or as the base64 of its protobuf message. */
enum source_form { SOURCE_NONE, SOURCE_JSON, SOURCE_PROTOBUF, SOURCE_FORM_COUNT };
/* "json", "protobuf"; null for none. */
const char *source_form_name(enum source_form form);

/* An event as it came. */
struct source {
    enum source_form form;
    struct slice bytes;
};

struct reject {
    uint32_t index;
    enum reject_code code;
    enum source_form form;
    size_t source_bytes;  /* how long the event was, of which source may hold the start only */
    struct slice source;  /* as form says; empty with SOURCE_NONE */
    struct slice id;      /* as sent, cut to 64 bytes; empty where it had none */
    struct slice message; /* for the sender's developer */
};

struct batch {
    struct arena arena; /* owns everything the slices point to */
    struct event *events;
    size_t event_count;
    /* What follows from the events without having been sent as such: a score (source "otel") for
     * each evaluation that a span or log record tells of. To be stored with them, and counted
     * nowhere; their index is that of the event they come from. */
    struct event *derived;
    size_t derived_count;
    struct reject *rejects;       /* the first BATCH_REJECTS_KEPT */
    size_t reject_count;          /* kept ones */
    size_t source_bytes;          /* kept of the rejected events themselves */
    size_t rejected;              /* all of them */
    size_t sent;                  /* event_count + rejected, always */
    struct slice idempotency_key; /* a native body's own, checked; else empty */

    size_t event_capacity; /* batch.c's own */
    size_t derived_capacity;
};

void batch_init(struct batch *self);
void batch_fini(struct batch *self); /* safe on a zeroed struct and twice */

/* For decoders. Limits the batch's memory to a multiple of the body that is to be decoded. A
 * resource is repeated in each of its spans: without it a small body could fill the machine. */
void batch_limit(struct batch *self, size_t body_len);
/* For decoders. The next event, zeroed (tokens set to none) and counted as sent; it becomes part of
 * the batch at once. Null when BATCH_OTLP_EVENTS_MAX were sent already. */
struct event *batch_add(struct batch *self, enum event_type type) MUST_USE;
/* For decoders. A zeroed event that follows from the one added last; null over the same maximum. */
struct event *batch_derive(struct batch *self, enum event_type type) MUST_USE;
/* For decoders. Counts the next event as rejected; keeps the reason, and the event as it came,
 * while there is room. */
void batch_reject(struct batch *self, enum reject_code code, struct slice id, const char *message,
                  const struct source *source);

#endif
