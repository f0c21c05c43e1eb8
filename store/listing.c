// SPDX-License-Identifier: MIT
#include "store/listing.h"

#include <assert.h>
#include <string.h>

static const struct column trace_columns[] = {
    {"trace_id", COLUMN_ID, NULL},
    {"start_ns", COLUMN_INT, NULL},
    {"end_ns", COLUMN_INT, NULL},
    {"name", COLUMN_TEXT, "root_name"},
    {"session", COLUMN_TEXT, NULL},
    {"span_count", COLUMN_INT, "spans"},
    {"errors", COLUMN_INT, NULL},
    {"in_tok", COLUMN_INT, NULL},
    {"out_tok", COLUMN_INT, NULL},
    {"cost_micro", COLUMN_INT, NULL},
    {"status", COLUMN_TEXT, "CASE WHEN errors > 0 THEN 'error' ELSE 'ok' END"},
    {"last_seen", COLUMN_INT, NULL},
    {0},
};
static const struct filter trace_filters[] = {
    {"session", MATCH_TEXT, NULL},
    {"status", MATCH_HAS_ERRORS, "errors"},
    {"model", MATCH_SPAN_OF_TRACE, NULL},
    {"tool", MATCH_SPAN_OF_TRACE, NULL},
    {"agent", MATCH_SPAN_OF_TRACE, NULL},
    {"min_ms", MATCH_MIN_MS, NULL},
    {0},
};

static const struct column session_columns[] = {
    {"session", COLUMN_TEXT, NULL},      {"start_ns", COLUMN_INT, NULL},
    {"end_ns", COLUMN_INT, NULL},        {"trace_count", COLUMN_INT, "traces"},
    {"span_count", COLUMN_INT, "spans"}, {"errors", COLUMN_INT, NULL},
    {"in_tok", COLUMN_INT, NULL},        {"out_tok", COLUMN_INT, NULL},
    {"cost_micro", COLUMN_INT, NULL},    {0},
};
static const struct filter session_filters[] = {
    {"session", MATCH_TEXT, NULL},
    {"status", MATCH_HAS_ERRORS, "errors"},
    {0},
};

static const struct column log_columns[] = {
    {"seq", COLUMN_INT, NULL},
    {"ts_ns", COLUMN_INT, NULL},
    {"observed_ns", COLUMN_INT, NULL},
    {"severity", COLUMN_INT, NULL},
    {"severity_text", COLUMN_TEXT, NULL},
    {"event_name", COLUMN_TEXT, NULL},
    {"body", COLUMN_TEXT, "CASE WHEN body_is_json = 0 THEN body END"},
    {"body", COLUMN_JSON, "CASE WHEN body_is_json = 1 THEN body END"},
    {"trace_id", COLUMN_ID, NULL},
    {"span_id", COLUMN_ID, NULL},
    {"op", COLUMN_TEXT, NULL},
    {"model", COLUMN_TEXT, NULL},
    {"tool", COLUMN_TEXT, NULL},
    {"agent", COLUMN_TEXT, NULL},
    {"session", COLUMN_TEXT, NULL},
    {"user_id", COLUMN_TEXT, NULL},
    {"service", COLUMN_TEXT, NULL},
    {"env", COLUMN_TEXT, NULL},
    {"attrs", COLUMN_MEMBERS, NULL},
    {"content", COLUMN_JSON, NULL},
    {0},
};
static const struct filter log_filters[] = {
    {"trace_id", MATCH_TRACE_ID, NULL},
    {"session", MATCH_TEXT, NULL},
    {"service", MATCH_TEXT, NULL},
    {"agent", MATCH_TEXT, NULL},
    {"event_name", MATCH_TEXT, NULL},
    {"min_severity", MATCH_AT_LEAST, "severity"},
    {0},
};

static const struct column metric_columns[] = {
    {"seq", COLUMN_INT, NULL},
    {"ts_ns", COLUMN_INT, NULL},
    {"start_ns", COLUMN_INT, NULL},
    {"name", COLUMN_TEXT, NULL},
    {"kind", COLUMN_TEXT, NULL},
    {"unit", COLUMN_TEXT, NULL},
    {"temporality", COLUMN_TEXT, NULL},
    {"is_monotonic", COLUMN_INT, NULL},
    {"value", COLUMN_INT, "value_int"},
    {"value", COLUMN_REAL, "CASE WHEN value_int IS NULL THEN value END"},
    {"count", COLUMN_INT, "point_count"},
    {"op", COLUMN_TEXT, NULL},
    {"provider", COLUMN_TEXT, NULL},
    {"model", COLUMN_TEXT, NULL},
    {"tool", COLUMN_TEXT, NULL},
    {"agent", COLUMN_TEXT, NULL},
    {"service", COLUMN_TEXT, NULL},
    {"env", COLUMN_TEXT, NULL},
    {"data", COLUMN_JSON, NULL},
    {"attrs", COLUMN_MEMBERS, NULL},
    {0},
};
static const struct filter metric_filters[] = {
    {"name", MATCH_TEXT, NULL},
    {"service", MATCH_TEXT, NULL},
    {"model", MATCH_TEXT, NULL},
    {"agent", MATCH_TEXT, NULL},
    {0},
};

static const struct column score_columns[] = {
    {"id", COLUMN_TEXT, NULL},
    {"created_ns", COLUMN_INT, NULL},
    {"name", COLUMN_TEXT, NULL},
    {"data_type", COLUMN_TEXT, "type"},
    {"value", COLUMN_REAL, "num"},
    {"value", COLUMN_TEXT, "CASE WHEN type IN ('label', 'text') THEN txt END"},
    {"label", COLUMN_TEXT, "CASE WHEN type NOT IN ('label', 'text') THEN txt END"},
    {"source", COLUMN_TEXT, NULL},
    {"comment", COLUMN_TEXT, NULL},
    {"scorer", COLUMN_TEXT, NULL},
    {"version", COLUMN_TEXT, NULL},
    {"trace_id", COLUMN_ID, NULL},
    {"span_id", COLUMN_ID, NULL},
    {"session_id", COLUMN_TEXT, "session"},
    {"run_id", COLUMN_TEXT, "run"},
    {"error", COLUMN_TEXT, NULL},
    {0},
};
static const struct filter score_filters[] = {
    {"name", MATCH_TEXT, NULL}, {"trace_id", MATCH_TRACE_ID, NULL}, {"session", MATCH_TEXT, NULL},
    {"run", MATCH_TEXT, NULL},  {"source", MATCH_TEXT, NULL},       {0},
};

static const struct column run_columns[] = {
    {"id", COLUMN_TEXT, NULL},      {"seen_ns", COLUMN_INT, NULL},   {"state", COLUMN_TEXT, NULL},
    {"start_ns", COLUMN_INT, NULL}, {"end_ns", COLUMN_INT, NULL},    {"trace_id", COLUMN_ID, NULL},
    {"agent", COLUMN_TEXT, NULL},   {"session", COLUMN_TEXT, NULL},  {"service", COLUMN_TEXT, NULL},
    {"env", COLUMN_TEXT, NULL},     {"attrs", COLUMN_MEMBERS, NULL}, {0},
};
static const struct filter run_filters[] = {
    {"state", MATCH_TEXT, NULL},
    {"agent", MATCH_TEXT, NULL},
    {"session", MATCH_TEXT, NULL},
    {"trace_id", MATCH_TRACE_ID, NULL},
    {0},
};

static const struct column reject_columns[] = {
    {"seq", COLUMN_INT, "id"},         {"created_ns", COLUMN_INT, NULL},
    {"index", COLUMN_INT, "position"}, {"id", COLUMN_TEXT, "event_id"},
    {"code", COLUMN_TEXT, NULL},       {"message", COLUMN_TEXT, NULL},
    {"event", COLUMN_TEXT, NULL},      {"event_form", COLUMN_TEXT, NULL},
    {"event_bytes", COLUMN_INT, NULL}, {0},
};
static const struct filter reject_filters[] = {{"code", MATCH_TEXT, NULL}, {0}};

static const struct column replica_columns[] = {
    {"id", COLUMN_TEXT, NULL},          {"seen_ns", COLUMN_INT, NULL},
    {"role", COLUMN_TEXT, NULL},        {"fence", COLUMN_INT, NULL},
    {"url", COLUMN_TEXT, NULL},         {"version", COLUMN_TEXT, NULL},
    {"config_hash", COLUMN_TEXT, NULL}, {0},
};
static const struct filter replica_filters[] = {{"role", MATCH_TEXT, NULL}, {0}};

static const struct column span_columns[] = {
    {"span_id", COLUMN_ID, NULL},         {"start_ns", COLUMN_INT, NULL},
    {"end_ns", COLUMN_INT, NULL},         {"trace_id", COLUMN_ID, NULL},
    {"parent_id", COLUMN_ID, NULL},       {"name", COLUMN_TEXT, NULL},
    {"kind", COLUMN_SPAN_KIND, NULL},     {"status", COLUMN_SPAN_STATUS, NULL},
    {"error", COLUMN_TEXT, "error_type"}, {"op", COLUMN_TEXT, NULL},
    {"provider", COLUMN_TEXT, NULL},      {"model", COLUMN_TEXT, NULL},
    {"in_tok", COLUMN_INT, NULL},         {"out_tok", COLUMN_INT, NULL},
    {"cache_tok", COLUMN_INT, NULL},      {"reason_tok", COLUMN_INT, NULL},
    {"cost_micro", COLUMN_INT, NULL},     {"tool", COLUMN_TEXT, NULL},
    {"agent", COLUMN_TEXT, NULL},         {"session", COLUMN_TEXT, NULL},
    {"user_id", COLUMN_TEXT, NULL},       {"mcp_method", COLUMN_TEXT, NULL},
    {"mcp_session", COLUMN_TEXT, NULL},   {"service", COLUMN_TEXT, NULL},
    {"env", COLUMN_TEXT, NULL},           {"attrs", COLUMN_MEMBERS, NULL},
    {"content", COLUMN_JSON, NULL},       {0},
};
static const struct filter no_filters[] = {{0}};

/* Sessions are sums over their traces. */
#define SUM(column) " CAST(sum(" column ") AS bigint) AS " column
#define SESSIONS                                                                            \
    "(SELECT project, session, min(start_ns) AS start_ns, max(end_ns) AS end_ns,"           \
    " count(*) AS traces," SUM("spans") "," SUM("errors") "," SUM("in_tok") "," SUM(        \
        "out_tok") "," SUM("cost_micro") " FROM traces WHERE session IS NOT NULL GROUP BY " \
                                         "project, session)"

static const struct listing listings[] = {
    [LISTING_TRACES] = {"traces", "/v1/traces", "traces", trace_columns, trace_filters, false,
                        false},
    [LISTING_SESSIONS] = {"sessions", "/v1/sessions", SESSIONS, session_columns, session_filters,
                          false, false},
    [LISTING_LOGS] = {"logs", "/v1/logs", "logs", log_columns, log_filters, false, true},
    [LISTING_METRICS] = {"metrics", "/v1/metrics", "metrics", metric_columns, metric_filters, false,
                         true},
    [LISTING_SCORES] = {"scores", "/v1/scores", "scores", score_columns, score_filters, false,
                        false},
    [LISTING_RUNS] = {"runs", "/v1/runs", "runs", run_columns, run_filters, false, false},
    [LISTING_REJECTS] = {"rejects", "/v1/rejects", "rejects", reject_columns, reject_filters, false,
                         false},
    [LISTING_REPLICAS] = {"replicas", "/v1/replicas", "replica_list", replica_columns,
                          replica_filters, true, false},
    [LISTING_SPANS] = {"spans", NULL, "spans", span_columns, no_filters, false, true},
};

const struct listing *listing_row(enum listing_id id)
{
    assert(id < LISTING_COUNT);
    return &listings[id];
}

const struct listing *listing_find(const char *path)
{
    for (size_t i = 0; i < LISTING_COUNT; i++)
        if (listings[i].path && strcmp(listings[i].path, path) == 0)
            return &listings[i];
    return NULL;
}

size_t listing_columns(const struct listing *self)
{
    size_t count = 0;
    while (self->columns[count].name)
        count++;
    return count;
}
