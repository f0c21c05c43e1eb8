// SPDX-License-Identifier: MIT
/*
 * Many rows go into one statement as one JSON text, so that a fenced transaction is a few short
 * round trips whatever it writes.
 *
 * Settling skips rows that an ingest transaction has locked: it waits for none, and so cannot
 * deadlock with those, which lock rows in another order.
 */
#include "store/pg_score.h"

#include <string.h>

#include "common/clock.h"
#include "proto/codec.h"
#include "proto/json_out.h"
#include "store/pg_lease.h"

#define READ_LIMIT_MS 5000
#define JSON_MAX      ((size_t)16 * 1024 * 1024)
#define NOW_S         "extract(epoch FROM now())::bigint"

/* $1 age, $2 limit. */
#define SETTLE(condition)                                                              \
    "UPDATE traces t SET state = 'settled' FROM (SELECT project, trace_id FROM traces" \
    " WHERE state = 'open' AND " condition " ORDER BY first_seen LIMIT $2"             \
    " FOR UPDATE SKIP LOCKED) f JOIN projects p ON p.id = f.project"                   \
    " WHERE t.project = f.project AND t.trace_id = f.trace_id RETURNING p.name, t.trace_id"

static const char settle_ended[] =
    SETTLE("root_ended = 1 AND first_seen <= " NOW_S " - $1 AND last_seen <= " NOW_S " - $1");
static const char settle_old[] = SETTLE("first_seen <= " NOW_S " - $1");

static const char add_jobs[] =
    "INSERT INTO score_jobs (project, trace_id, scorer)"
    " SELECT p.id, decode(j.trace_id, 'hex'), j.scorer"
    " FROM json_to_recordset($1::json) AS j (project text, trace_id text, scorer text)"
    " JOIN projects p ON p.name = j.project ON CONFLICT DO NOTHING";
static const char add_scores[] =
    "INSERT INTO scores (project, id, name, type, num, txt, source, comment, scorer, version,"
    " trace_id, error, created_ns)"
    " SELECT p.id, j.id, j.name, j.type, j.num, j.txt, j.source, j.comment, j.scorer, j.version,"
    " decode(j.trace_id, 'hex'), j.error, (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    " * 1000000 FROM json_to_recordset($1::json) AS j (project text, trace_id text, scorer text,"
    " retry bigint, id text, name text, type text, num double precision, txt text, source text,"
    " comment text, version text, error text) JOIN projects p ON p.name = j.project"
    " WHERE j.id IS NOT NULL ON CONFLICT DO NOTHING";
static const char delay_jobs[] =
    "UPDATE score_jobs s SET tries = j.tries, due_at = " NOW_S " + j.retry"
    " FROM json_to_recordset($1::json) AS j (project text, trace_id text, scorer text,"
    " retry bigint, tries bigint) JOIN projects p ON p.name = j.project WHERE j.retry IS NOT NULL"
    " AND s.project = p.id AND s.trace_id = decode(j.trace_id, 'hex') AND s.scorer = j.scorer";
static const char end_jobs[] =
    "DELETE FROM score_jobs s USING json_to_recordset($1::json) AS j (project text, trace_id text,"
    " scorer text, retry bigint) JOIN projects p ON p.name = j.project WHERE j.retry IS NULL"
    " AND s.project = p.id AND s.trace_id = decode(j.trace_id, 'hex') AND s.scorer = j.scorer";

/* Opens the object of one job. */
static void write_key(struct json_out *out, const char *project, const uint8_t trace_id[16],
                      const char *scorer)
{
    char hex[2 * TRACE_ID_LEN];
    codec_hex_encode(trace_id, TRACE_ID_LEN, hex);
    json_out_str(out, out->buf.len > 1 ? ",{" : "{");
    json_out_text_member(out, "project", slice_of(project));
    json_out_text_member(out, "trace_id", (struct slice){hex, sizeof hex});
    json_out_text_member(out, "scorer", slice_of(scorer));
}

/* Queues a statement whose only value is the array. -1 where that has become too large. */
static int queue_json(backend_conn_t *conn, const char *sql, const struct json_out *json,
                      struct err *err)
{
    struct pg_params params = {0};
    struct list_value text = {.type = LIST_TEXT, .bytes = {json->buf.data, json->buf.len}};
    if (json->is_full)
        return err_set(err, "there is too much to write at once");
    pg_bind_value(&params, &text);
    pg_queue(conn, sql, &params);
    return 0;
}

/* Adds the jobs of a trace that was settled; the row is its project and id. */
static void write_jobs(struct json_out *out, const struct settle_call *settle,
                       const PGresult *result, int row)
{
    const char *scorers[SCORE_SCORERS_MAX];
    char project[SCORE_PROJECT_SIZE];
    uint8_t trace_id[TRACE_ID_LEN] = {0};
    struct slice name = pg_value(result, row, 0).bytes;
    struct slice id = pg_value(result, row, 1).bytes;
    snprintf(project, sizeof project, SLICE_FORMAT, SLICE_ARGS(name));
    if (id.len == sizeof trace_id)
        memcpy(trace_id, id.data, sizeof trace_id);
    size_t count = settle->choose(settle->arg, project, trace_id, scorers);
    for (size_t i = 0; i < count; i++) {
        write_key(out, project, trace_id, scorers[i]);
        json_out_str(out, "}");
    }
}

/* Settles what the statement finds and adds the jobs to the array. -1 with the reason. */
static int settle_found(backend_conn_t *conn, const struct settle_call *settle, const char *sql,
                        uint64_t age_s, size_t *settled, struct json_out *jobs, struct err *err)
{
    struct pg_params params = {0};
    PGresult *result;
    pg_bind_int(&params, (int64_t)age_s);
    pg_bind_int(&params, (int64_t)(settle->max_rows - *settled));
    if (pg_run(conn, sql, &params, &result, err) == -1)
        return -1;
    for (int row = 0; row < PQntuples(result); row++)
        write_jobs(jobs, settle, result, row);
    *settled += (size_t)PQntuples(result);
    PQclear(result);
    return 0;
}

enum backend_status pg_settle(backend_conn_t *conn, const struct lease_claim *claim,
                              const struct settle_call *call, size_t *settled, struct err *err)
{
    struct json_out jobs;
    size_t found = 0;
    *settled = 0;
    enum backend_status status = pg_fenced_begin(conn, claim, err);
    if (status != BACKEND_OK)
        return status;
    json_out_init(&jobs, JSON_MAX, NULL);
    json_out_str(&jobs, "[");
    if (settle_found(conn, call, settle_ended, call->quiet_s, &found, &jobs, err) == -1 ||
        settle_found(conn, call, settle_old, call->max_age_s, &found, &jobs, err) == -1) {
        status = BACKEND_AWAY;
    } else if (jobs.buf.len > 1) {
        json_out_str(&jobs, "]");
        status = queue_json(conn, add_jobs, &jobs, err) == 0 ? BACKEND_OK : BACKEND_AWAY;
    }
    json_out_fini(&jobs);
    if (status == BACKEND_OK)
        status = pg_fenced_commit(conn, err);
    else
        pg_rollback(conn);
    if (status == BACKEND_OK)
        *settled = found;
    return status;
}

int pg_score_due(backend_conn_t *conn, const char *scorer, size_t limit, struct score_job *jobs,
                 size_t *count, struct err *err)
{
    struct pg_params params = {0};
    PGresult *result;
    *count = 0;
    pg_bind_text(&params, scorer);
    pg_bind_int(&params, (int64_t)limit);
    if (pg_conn_open(conn, clock_mono_ms() + READ_LIMIT_MS, err) == -1 ||
        pg_run(conn,
               "SELECT p.name, j.trace_id, j.tries FROM score_jobs j JOIN projects p"
               " ON p.id = j.project WHERE j.scorer = $1 AND j.due_at <= " NOW_S
               " ORDER BY j.due_at LIMIT $2",
               &params, &result, err) == -1)
        return -1;
    for (int row = 0; row < PQntuples(result) && *count < limit; row++) {
        struct score_job *job = &jobs[(*count)++];
        struct slice name = pg_value(result, row, 0).bytes;
        struct slice id = pg_value(result, row, 1).bytes;
        *job = (struct score_job){.tries = (uint64_t)pg_int(result, row, 2)};
        snprintf(job->project, sizeof job->project, SLICE_FORMAT, SLICE_ARGS(name));
        if (id.len == sizeof job->trace_id)
            memcpy(job->trace_id, id.data, sizeof job->trace_id);
    }
    PQclear(result);
    return 0;
}

int pg_score_waiting(backend_conn_t *conn, const char *scorer, int64_t *count, struct err *err)
{
    struct pg_params params = {0};
    PGresult *result;
    pg_bind_text(&params, scorer);
    pg_bind_int(&params, SCORE_COUNT_MAX);
    if (pg_conn_open(conn, clock_mono_ms() + READ_LIMIT_MS, err) == -1 ||
        pg_run(conn,
               "SELECT count(*) FROM (SELECT FROM score_jobs WHERE scorer = $1 LIMIT $2) waiting",
               &params, &result, err) == -1)
        return -1;
    *count = pg_int(result, 0, 0);
    PQclear(result);
    return 0;
}

static void write_row(struct json_out *out, const struct score_row *row)
{
    const struct {
        const char *name, *text;
    } texts[] = {
        {"id", row->id},           {"name", row->name},     {"type", score_type_name(row->type)},
        {"txt", row->text},        {"source", row->source}, {"comment", row->comment},
        {"version", row->version}, {"error", row->error},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_out_text_member(out, texts[i].name, slice_of(texts[i].text));
    if (!row->has_number)
        return;
    json_out_key(out, "num");
    json_out_value(out, &(struct value){.type = VALUE_DOUBLE, .number = row->number});
}

static void write_outcome(struct json_out *out, const struct score_outcome *outcome)
{
    write_key(out, outcome->job->project, outcome->job->trace_id, outcome->scorer);
    json_out_number_member(out, "tries", outcome->job->tries + 1);
    if (outcome->retry_s > 0)
        json_out_number_member(out, "retry", outcome->retry_s);
    else if (outcome->row)
        write_row(out, outcome->row);
    json_out_str(out, "}");
}

enum backend_status pg_score_write(backend_conn_t *conn, const struct lease_claim *claim,
                                   const struct score_outcome *outcomes, size_t count,
                                   struct err *err)
{
    struct json_out json;
    enum backend_status status = pg_fenced_begin(conn, claim, err);
    if (status != BACKEND_OK)
        return status;
    json_out_init(&json, JSON_MAX, NULL);
    json_out_str(&json, "[");
    for (size_t i = 0; i < count; i++)
        write_outcome(&json, &outcomes[i]);
    json_out_str(&json, "]");
    bool is_queued = queue_json(conn, add_scores, &json, err) == 0 &&
                     queue_json(conn, delay_jobs, &json, err) == 0 &&
                     queue_json(conn, end_jobs, &json, err) == 0;
    json_out_fini(&json);
    if (is_queued)
        return pg_fenced_commit(conn, err);
    pg_rollback(conn);
    return BACKEND_AWAY;
}
