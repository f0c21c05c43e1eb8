// SPDX-License-Identifier: MIT
#include "store/api.h"

#include <string.h>

#include "common/log.h"
#include "proto/codec.h"
#include "proto/json_out.h"
#include "store/daemon.h"
#include "store/query.h"
#include "store/refusal.h"
#include "store/row_json.h"

#define ANSWER_MAX_BYTES (64 * 1024 * 1024)
#define CURSOR_MAX_BYTES 4096
#define TRACE_PREFIX     "/v1/traces/"
#define SESSION_PREFIX   "/v1/sessions/"
#define QUERY_MAX_BYTES  (64 * 1024)

/* An answer while its rows come in. */
struct answer {
    struct json_out out;
    const struct listing *listing; /* of the rows that come now */
    size_t rows;
    size_t limit;
    struct buf cursor; /* of the last row of a full page */
};

static int write_list_row(void *arg, const struct list_value *values)
{
    struct answer *answer = arg;
    json_out_str(&answer->out, answer->rows++ ? "," : "");
    row_json_write(&answer->out, answer->listing, values);
    json_out_str(&answer->out, "}");
    /* A full page may be the last one; the next is empty then. */
    if (answer->rows == answer->limit &&
        query_cursor(values[1].integer, &values[0], &answer->cursor) == -1)
        buf_reset(&answer->cursor);
    return answer->out.is_full ? -1 : 0;
}

/* The trace's own row; the rows after it are its spans. */
static int write_trace_head(void *arg, const struct list_value *values)
{
    struct answer *answer = arg;
    row_json_write(&answer->out, answer->listing, values);
    json_out_str(&answer->out, ",\"spans\":[");
    answer->listing = listing_row(LISTING_SPANS);
    return answer->out.is_full ? -1 : 0;
}

/* The session's own row; the rows after it are its traces. */
static int write_session_head(void *arg, const struct list_value *values)
{
    struct answer *answer = arg;
    row_json_write(&answer->out, answer->listing, values);
    json_out_str(&answer->out, ",\"traces\":[");
    answer->listing = listing_row(LISTING_TRACES);
    return answer->out.is_full ? -1 : 0;
}

static void answer_init(struct answer *answer, const struct listing *listing, size_t limit)
{
    *answer = (struct answer){.listing = listing, .limit = limit};
    json_out_init(&answer->out, ANSWER_MAX_BYTES, NULL);
    buf_init(&answer->cursor, CURSOR_MAX_BYTES);
}

/* Ends the answer: as the reply's body, or with the refusal that its failure calls for. */
static void answer_end(struct answer *answer, int rc, const struct http_request *req,
                       struct http_reply *reply, const struct err *err)
{
    buf_fini(&answer->cursor);
    if (rc == 0 && !answer->out.is_full) {
        buf_fini(&reply->body);
        reply->body = answer->out.buf;
        reply->status = 200;
        reply->content_type = "application/json";
        return;
    }
    if (answer->out.is_full) {
        refuse(req, reply, REFUSAL_ANSWER_TOO_LARGE, "the answer would be too large");
    } else {
        /* The reason names the database; that is for whoever runs it. */
        log_at(LEVEL_WARN, "read.failed", NULL, LOG_TEXT("path", req->path),
               LOG_TEXT("reason", err->text));
        refuse(req, reply, REFUSAL_READ_FAILED, "the store could not be read now; try again");
    }
    json_out_fini(&answer->out);
}

static int list(struct daemon *daemon, const struct list_query *query, row_sink *sink,
                struct answer *answer, struct err *err)
{
    bool is_of_runs =
        query->listing == listing_row(LISTING_RUNS) && daemon->runs_place == RUNS_APART;
    const struct opened_store *source = is_of_runs ? &daemon->runs : &daemon->main;
    backend_conn_t *conn = readers_take(source->readers, query->deadline_ms);
    if (!conn)
        return err_set(err, "too many are reading; try again");
    int rc = source->backend->list(conn, query, sink, answer, err);
    readers_give_back(source->readers, &conn);
    return rc;
}

/* The project of the request's key, which must have the right. -1 after refusing. */
static int find_project(const struct http_request *req, enum key_right right, const char **project,
                        struct http_reply *reply)
{
    if (!keys_allow(req->holder.scope, right)) {
        refuse(req, reply, REFUSAL_WRONG_SCOPE,
               right == RIGHT_READ ? "this key does not read" : "this takes a key with scope ad");
        return -1;
    }
    *project = req->holder.project;
    return 0;
}

/* Behind the last row. */
static void close_list(struct answer *answer)
{
    json_out_str(&answer->out, "]");
    if (answer->cursor.len > 0) {
        json_out_key(&answer->out, "next_cursor");
        json_out_text(&answer->out, (struct slice){answer->cursor.data, answer->cursor.len});
    }
    json_out_str(&answer->out, "}");
}

void api_list(void *arg, struct http_request *req, struct http_reply *reply)
{
    const struct listing *listing = listing_find(req->path);
    struct parsed_query query;
    struct answer answer;
    struct err err = {{0}};
    const char *project;
    enum key_right right = listing->is_global ? RIGHT_ADMIN : RIGHT_READ;
    if (find_project(req, right, &project, reply) == -1)
        return;
    if (query_parse(&query, listing, project, req->query, &err) == -1) {
        query_fini(&query);
        refuse(req, reply, REFUSAL_BAD_PARAMETER, err.text);
        return;
    }
    query.list.deadline_ms = req->deadline_ms;
    answer_init(&answer, listing, (size_t)query.list.limit);
    json_out_str(&answer.out, "{");
    json_out_key(&answer.out, listing->name);
    json_out_str(&answer.out, "[");
    int rc = list(arg, &query.list, write_list_row, &answer, &err);
    close_list(&answer);
    answer_end(&answer, rc, req, reply, &err);
    query_fini(&query);
}

static int read_trace(struct daemon *daemon, const struct trace_key *key, struct answer *answer,
                      struct err *err)
{
    backend_conn_t *conn = readers_take(daemon->main.readers, key->deadline_ms);
    if (!conn)
        return err_set(err, "too many are reading; try again");
    int rc =
        daemon->main.backend->read_trace(conn, key, write_trace_head, write_list_row, answer, err);
    readers_give_back(daemon->main.readers, &conn);
    return rc;
}

void api_read_trace(void *arg, struct http_request *req, struct http_reply *reply)
{
    struct trace_key key = {.deadline_ms = req->deadline_ms};
    struct answer answer;
    struct err err = {{0}};
    if (find_project(req, RIGHT_READ, &key.project, reply) == -1)
        return;
    struct slice id = slice_of(req->path + strlen(TRACE_PREFIX));
    if (codec_hex_decode(id, key.trace_id, sizeof key.trace_id) == -1) {
        refuse(req, reply, REFUSAL_NOT_FOUND, "a trace id is 32 hex digits");
        return;
    }
    if (*req->query) {
        refuse(req, reply, REFUSAL_BAD_PARAMETER, "one trace takes no parameters");
        return;
    }
    answer_init(&answer, listing_row(LISTING_TRACES), 0);
    int rc = read_trace(arg, &key, &answer, &err);
    json_out_str(&answer.out, "]}");
    if (rc == 1) {
        buf_fini(&answer.cursor);
        json_out_fini(&answer.out);
        refuse(req, reply, REFUSAL_NOT_FOUND, "there is no such trace");
        return;
    }
    answer_end(&answer, rc, req, reply, &err);
}

/* "session=ID" and more; the id as it stands in a path (never encoded there), where '+' and '&'
 * mean themselves. */
static int write_session_query(struct buf *out, const char *id, const char *more)
{
    int failed = buf_add_str(out, "session=");
    for (; *id; id++) {
        bool is_special = *id == '+' || *id == '&';
        failed |= is_special ? buf_printf(out, "%%%02X", (unsigned char)*id) : buf_add(out, id, 1);
    }
    if (*more)
        failed |= buf_printf(out, "&%s", more);
    return failed ? -1 : 0;
}

static int parse_session_query(struct parsed_query *query, enum listing_id id, const char *project,
                               const struct http_request *req, const char *more, struct err *err)
{
    struct buf text;
    buf_init(&text, QUERY_MAX_BYTES);
    *query = (struct parsed_query){0};
    int rc = -1;
    if (write_session_query(&text, req->path + strlen(SESSION_PREFIX), more) == -1)
        err_set(err, "the query is too long");
    else
        rc = query_parse(query, listing_row(id), project, buf_cstr(&text), err);
    query->list.deadline_ms = req->deadline_ms;
    buf_fini(&text);
    return rc;
}

/* 0; 1 where there is no such session; -1. */
static int read_session(struct daemon *daemon, const struct parsed_query *session,
                        const struct parsed_query *traces, struct answer *answer, struct err *err)
{
    if (list(daemon, &session->list, write_session_head, answer, err) == -1)
        return -1;
    if (answer->listing == listing_row(LISTING_SESSIONS))
        return 1;
    return list(daemon, &traces->list, write_list_row, answer, err);
}

void api_read_session(void *arg, struct http_request *req, struct http_reply *reply)
{
    struct parsed_query session = {0};
    struct parsed_query traces = {0};
    struct answer answer;
    struct err err = {{0}};
    const char *project;
    if (find_project(req, RIGHT_READ, &project, reply) == -1)
        return;
    if (parse_session_query(&session, LISTING_SESSIONS, project, req, "", &err) == -1 ||
        parse_session_query(&traces, LISTING_TRACES, project, req, req->query, &err) == -1) {
        refuse(req, reply, REFUSAL_BAD_PARAMETER, err.text);
    } else {
        answer_init(&answer, listing_row(LISTING_SESSIONS), (size_t)traces.list.limit);
        int rc = read_session(arg, &session, &traces, &answer, &err);
        close_list(&answer);
        if (rc == 1) {
            buf_fini(&answer.cursor);
            json_out_fini(&answer.out);
            refuse(req, reply, REFUSAL_NOT_FOUND, "there is no such session");
        } else {
            answer_end(&answer, rc, req, reply, &err);
        }
    }
    query_fini(&traces);
    query_fini(&session);
}
