// SPDX-License-Identifier: MIT
#include "store/api.h"

#include <string.h>

#include "common/log.h"
#include "proto/codec.h"
#include "proto/json_out.h"
#include "store/daemon.h"
#include "store/query.h"
#include "store/refusal.h"

#define ANSWER_MAX_BYTES (64 * 1024 * 1024)
#define TRACE_PREFIX     "/v1/traces/"

/* An answer while its rows come in. */
struct answer {
    struct json_out out;
    size_t rows;
    struct trace_row last; /* its texts are gone */
};

static void write_text(struct json_out *out, const char *key, struct slice text)
{
    if (text.len == 0)
        return;
    json_out_str(out, key);
    json_out_text(out, text);
}

static void write_int(struct json_out *out, const char *key, int64_t number)
{
    json_out_str(out, key);
    json_out_int(out, number);
}

static void write_tokens(struct json_out *out, const char *key, int64_t tokens)
{
    if (tokens != BATCH_TOKENS_NONE)
        write_int(out, key, tokens);
}

static void write_id(struct json_out *out, const char *key, const uint8_t *id, size_t len)
{
    char hex[2 * TRACE_ID_LEN];
    codec_hex_encode(id, len, hex);
    json_out_str(out, key);
    json_out_str(out, "\"");
    json_out_raw(out, hex, 2 * len);
    json_out_str(out, "\"");
}

/* The members of a trace, without the closing brace. */
static void write_trace(struct json_out *out, const struct trace_row *row)
{
    write_id(out, "{\"trace_id\":", row->trace_id, sizeof row->trace_id);
    write_text(out, ",\"name\":", slice_of(row->root_name));
    write_text(out, ",\"session\":", slice_of(row->session));
    write_int(out, ",\"start_ns\":", row->start_ns);
    write_int(out, ",\"end_ns\":", row->end_ns);
    write_int(out, ",\"span_count\":", row->spans);
    write_int(out, ",\"errors\":", row->errors);
    write_int(out, ",\"in_tok\":", row->in_tok);
    write_int(out, ",\"out_tok\":", row->out_tok);
    if (row->has_cost)
        write_int(out, ",\"cost_micro\":", row->cost_micro);
    json_out_str(out, row->errors > 0 ? ",\"status\":\"error\"" : ",\"status\":\"ok\"");
    write_int(out, ",\"last_seen\":", row->last_seen_s);
}

/* attrs is an object whose members become members of the span. */
static void write_members(struct json_out *out, struct slice attrs)
{
    if (attrs.len <= strlen("{}"))
        return;
    json_out_str(out, ",");
    json_out_raw(out, attrs.data + 1, attrs.len - 2);
}

static int write_span(void *arg, const struct span *span)
{
    struct answer *answer = arg;
    struct json_out *out = &answer->out;
    json_out_str(out, answer->rows++ ? "," : "");
    write_id(out, "{\"trace_id\":", span->trace_id, sizeof span->trace_id);
    write_id(out, ",\"span_id\":", span->span_id, sizeof span->span_id);
    if (span->has_parent)
        write_id(out, ",\"parent_id\":", span->parent_id, sizeof span->parent_id);
    json_out_str(out, ",\"name\":");
    json_out_text(out, span->name);
    write_text(out, ",\"kind\":", slice_of(span_kind_name(span->kind)));
    write_text(out, ",\"status\":", slice_of(span_status_name(span->status)));
    write_text(out, ",\"error\":", span->error_type);
    write_int(out, ",\"start_ns\":", (int64_t)span->start_ns);
    if (span->end_ns)
        write_int(out, ",\"end_ns\":", (int64_t)span->end_ns);
    write_text(out, ",\"op\":", span->op);
    write_text(out, ",\"provider\":", span->provider);
    write_text(out, ",\"model\":", span->model);
    write_tokens(out, ",\"in_tok\":", span->in_tok);
    write_tokens(out, ",\"out_tok\":", span->out_tok);
    write_tokens(out, ",\"cache_tok\":", span->cache_tok);
    write_tokens(out, ",\"reason_tok\":", span->reason_tok);
    write_text(out, ",\"tool\":", span->tool);
    write_text(out, ",\"agent\":", span->agent);
    write_text(out, ",\"session\":", span->session);
    write_text(out, ",\"user_id\":", span->user_id);
    write_text(out, ",\"mcp_method\":", span->mcp_method);
    write_text(out, ",\"mcp_session\":", span->mcp_session);
    write_text(out, ",\"service\":", span->service);
    write_text(out, ",\"env\":", span->env);
    write_members(out, span->attrs);
    if (span->content.len > 0) {
        json_out_str(out, ",\"content\":");
        json_out_raw(out, span->content.data, span->content.len);
    }
    json_out_str(out, "}");
    return out->is_full ? -1 : 0;
}

static int write_list_row(void *arg, const struct trace_row *row)
{
    struct answer *answer = arg;
    json_out_str(&answer->out, answer->rows++ ? "," : "");
    write_trace(&answer->out, row);
    json_out_str(&answer->out, "}");
    answer->last = *row;
    return answer->out.is_full ? -1 : 0;
}

static int write_trace_head(void *arg, const struct trace_row *row)
{
    struct answer *answer = arg;
    write_trace(&answer->out, row);
    json_out_str(&answer->out, ",\"spans\":[");
    return answer->out.is_full ? -1 : 0;
}

static void answer_init(struct answer *answer)
{
    *answer = (struct answer){0};
    json_out_init(&answer->out, ANSWER_MAX_BYTES, NULL);
}

/* Hands the finished answer to the reply. */
static void answer_send(struct answer *answer, struct http_reply *reply)
{
    buf_fini(&reply->body);
    reply->body = answer->out.buf;
    reply->status = 200;
    reply->content_type = "application/json";
}

static void answer_failed(struct answer *answer, const struct http_request *req,
                          struct http_reply *reply, const struct err *err)
{
    bool is_full = answer->out.is_full;
    json_out_fini(&answer->out);
    if (is_full)
        refuse(req, reply, REFUSAL_ANSWER_TOO_LARGE, "the answer would be too large");
    else
        refuse(req, reply, REFUSAL_READ_FAILED, err->text);
}

static int list_traces(struct daemon *daemon, const struct trace_query *query,
                       struct answer *answer, struct err *err)
{
    backend_conn_t *conn = readers_take(daemon->readers, query->deadline_ms);
    if (!conn)
        return err_set(err, "too many are reading; try again");
    int rc = daemon->backend->list_traces(conn, query, write_list_row, answer, err);
    readers_give_back(daemon->readers, &conn);
    return rc;
}

void api_list_traces(void *arg, struct http_request *req, struct http_reply *reply)
{
    struct parsed_query query;
    struct answer answer;
    struct err err = {{0}};
    if (query_parse(&query, PROJECT_DEFAULT, req->query, &err) == -1) {
        query_fini(&query);
        refuse(req, reply, REFUSAL_BAD_PARAMETER, err.text);
        return;
    }
    query.traces.deadline_ms = req->deadline_ms;
    answer_init(&answer);
    json_out_str(&answer.out, "{\"traces\":[");
    int rc = list_traces(arg, &query.traces, &answer, &err);
    json_out_str(&answer.out, "]");
    /* A full page may be the last one; the next is empty then. */
    if (answer.rows == (size_t)query.traces.limit) {
        char cursor[QUERY_CURSOR_LEN];
        query_cursor(&answer.last, cursor);
        write_text(&answer.out, ",\"next_cursor\":", (struct slice){cursor, sizeof cursor});
    }
    json_out_str(&answer.out, "}");
    if (rc == 0 && !answer.out.is_full)
        answer_send(&answer, reply);
    else
        answer_failed(&answer, req, reply, &err);
    query_fini(&query);
}

static int read_trace(struct daemon *daemon, const struct trace_key *key, struct answer *answer,
                      struct err *err)
{
    backend_conn_t *conn = readers_take(daemon->readers, key->deadline_ms);
    if (!conn)
        return err_set(err, "too many are reading; try again");
    int rc = daemon->backend->read_trace(conn, key, write_trace_head, write_span, answer, err);
    readers_give_back(daemon->readers, &conn);
    return rc;
}

void api_read_trace(void *arg, struct http_request *req, struct http_reply *reply)
{
    struct trace_key key = {.project = PROJECT_DEFAULT, .deadline_ms = req->deadline_ms};
    struct answer answer;
    struct err err = {{0}};
    struct slice id = slice_of(req->path + strlen(TRACE_PREFIX));
    if (codec_hex_decode(id, key.trace_id, sizeof key.trace_id) == -1) {
        refuse(req, reply, REFUSAL_NOT_FOUND, "a trace id is 32 hex digits");
        return;
    }
    answer_init(&answer);
    int rc = read_trace(arg, &key, &answer, &err);
    json_out_str(&answer.out, "]}");
    if (rc == 0 && !answer.out.is_full) {
        answer_send(&answer, reply);
    } else if (rc == 1) {
        json_out_fini(&answer.out);
        refuse(req, reply, REFUSAL_NOT_FOUND, "there is no such trace");
    } else {
        answer_failed(&answer, req, reply, &err);
    }
}
