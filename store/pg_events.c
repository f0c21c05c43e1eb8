// SPDX-License-Identifier: MIT
/*
 * Many rows are copied, in the hope that all are new: a resend is mostly known by its key, long
 * before its events are looked at. Where one is there already the transaction is run again without
 * COPY, and for some time all of this connection's are.
 *
 * Else rows are added in slices, several in a round. Of one identity only the first goes in;
 * RETURNING gives the identities that were new, in the order of the slice.
 *
 * What came second may complete a span that is stored open: those are looked for, and locked, in
 * one statement a slice, and completed one by one, as they are few.
 */
#include "store/pg_events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "store/pg_copy.h"

#define SLICE_MAX_BYTES ((size_t)4 * 1024 * 1024)
#define SQL_MAX_BYTES   8192
/* COPY takes some trips more, and of rows that are there already it takes none. */
#define COPY_MIN_ROWS     64
#define COPY_PAUSE_GROUPS 50
#define SINGLES_IN_ROUND  64 /* statements of one row */

/* Of spans of one project and day, which are constants to the planner: it then looks at that one
 * partition, not at all of them for every row. */
static const char span_open[] =
    "SELECT v.at, s.status, s.op, s.in_tok, s.out_tok"
    " FROM unnest($3::bytea[], $4::bytea[]) WITH ORDINALITY AS v (trace_id, span_id, at)"
    " JOIN spans s ON s.project = ($1::bigint[])[1] AND s.day = ($2::bigint[])[1]"
    " AND s.trace_id = v.trace_id AND s.span_id = v.span_id"
    " WHERE s.end_ns IS NULL ORDER BY v.at FOR UPDATE OF s";

/* What the end leaves out stays as the start gave it. */
static const char span_complete[] =
    "UPDATE spans SET parent_id = coalesce($5, parent_id), name = $6, kind = $7, status = $8,"
    " error_type = coalesce($9, error_type), start_ns = least(start_ns, $10), end_ns = $11,"
    " op = coalesce($12, op), provider = coalesce($13, provider), model = coalesce($14, model),"
    " in_tok = coalesce($15, in_tok), out_tok = coalesce($16, out_tok),"
    " cache_tok = coalesce($17, cache_tok), reason_tok = coalesce($18, reason_tok),"
    " tool = coalesce($19, tool), agent = coalesce($20, agent),"
    " session = coalesce($21, session), user_id = coalesce($22, user_id),"
    " mcp_method = coalesce($23, mcp_method), mcp_session = coalesce($24, mcp_session),"
    " service = coalesce($25, service), env = coalesce($26, env),"
    " attrs = coalesce(nullif($27, '{}'), attrs), content = coalesce($28, content)"
    " WHERE project = $1 AND day = $2 AND trace_id = $3 AND span_id = $4";

/* A run is one row that changes until it has ended; what says nothing new is a duplicate. */
static const char run_add[] =
    "INSERT INTO runs AS r (project, id, state, trace_id, start_ns, end_ns, agent, session, "
    "service,"
    " env, attrs, seen_ns) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
    " ON CONFLICT (project, id) DO UPDATE SET state = excluded.state,"
    "  trace_id = coalesce(excluded.trace_id, r.trace_id),"
    "  start_ns = coalesce(excluded.start_ns, r.start_ns), end_ns = excluded.end_ns,"
    "  agent = coalesce(excluded.agent, r.agent), session = coalesce(excluded.session, r.session),"
    "  service = coalesce(excluded.service, r.service), env = coalesce(excluded.env, r.env),"
    "  attrs = excluded.attrs, seen_ns = excluded.seen_ns"
    " WHERE r.end_ns IS NULL AND (r.state <> excluded.state"
    "  OR excluded.end_ns IS NOT NULL OR r.attrs <> excluded.attrs)";

void pg_round_begin(backend_conn_t *conn)
{
    conn->deadline_ms = clock_mono_ms() + PG_ROUND_LIMIT_MS;
}

struct pg_slice *pg_slices(backend_conn_t *conn)
{
    if (!conn->slices) {
        conn->slices = calloc(PG_SLICES, sizeof *conn->slices);
        assert(conn->slices);
    }
    return conn->slices;
}

/* Adds the item's row to the slice; its size. */
static size_t add_row(struct pg_slice *slice, struct pg_item *item)
{
    struct row *row = &slice->rows[slice->count];
    size_t bytes = 0;
    row_of_event(item->request, item->project, item->event, row);
    slice->items[slice->count++] = item;
    for (size_t i = 0; i < row->count; i++)
        bytes += row->values[i].bytes.len;
    return bytes;
}

/* Takes the next items that are wanted into the slice; *at is where to go on. */
typedef bool wanted_fn(const struct pg_items *list, size_t at);
static void fill_slice(struct pg_slice *slice, const struct pg_items *list, size_t *at,
                       wanted_fn *is_wanted)
{
    size_t bytes = 0;
    slice->count = 0;
    for (; *at < list->count && slice->count < PG_ROWS_MAX && bytes < SLICE_MAX_BYTES; (*at)++)
        if (is_wanted(list, *at))
            bytes += add_row(slice, &list->items[*at]);
}

static int write_insert(struct buf *sql, const struct row_table *table, const enum list_type *types)
{
    int failed = buf_printf(sql, "INSERT INTO %s (", table->name);
    for (size_t i = 0; i < table->count; i++)
        failed |= buf_printf(sql, "%s%s", i ? ", " : "", table->columns[i].name);
    failed |= buf_add_str(sql, ") SELECT * FROM ");
    failed |= pg_add_unnest(sql, types, table->count);
    for (size_t i = 0; i < table->key_count; i++)
        failed |= buf_printf(sql, "%s%s", i ? ", " : " ON CONFLICT (", table->columns[i].name);
    for (size_t i = 0; i < table->key_count; i++)
        failed |=
            buf_printf(sql, "%s%s", i ? ", " : ") DO NOTHING RETURNING ", table->columns[i].name);
    return failed;
}

static void types_of(const struct row_table *table, enum list_type types[ROW_VALUES_MAX])
{
    for (size_t i = 0; i < table->count; i++)
        types[i] = table->columns[i].type;
}

static bool is_same(const struct list_value *a, const struct list_value *b)
{
    if (a->type == LIST_INT)
        return a->integer == b->integer;
    return a->bytes.len == b->bytes.len && memcmp(a->bytes.data, b->bytes.data, a->bytes.len) == 0;
}

static bool is_row(const PGresult *result, int at, const struct row *row, size_t keys)
{
    for (size_t i = 0; i < keys; i++) {
        struct list_value value = pg_value(result, at, (int)i);
        if (!is_same(&value, &row->values[i]))
            return false;
    }
    return true;
}

static void mark_item(backend_conn_t *conn, struct pg_item *item)
{
    item->is_new = true;
    if (item->event->type == EVENT_SPAN)
        rollup_add(&conn->rollup, item->project, &item->event->span);
}

/* Marks the rows that the server gave back. */
static int mark_new(backend_conn_t *conn, const struct pg_slice *slice, const PGresult *result,
                    size_t keys, struct err *err)
{
    size_t at = 0;
    for (int i = 0; i < PQntuples(result); i++, at++) {
        while (at < slice->count && !is_row(result, i, &slice->rows[at], keys))
            at++;
        if (at == slice->count) {
            conn->fault = PG_AWAY;
            return err_set(err, "%s: rows came back in another order", conn->store->target.label);
        }
        mark_item(conn, slice->items[at]);
    }
    return 0;
}

/* One round of slices; *at is where the next one goes on. */
static int insert_round(backend_conn_t *conn, const char *sql, const struct row_table *table,
                        const enum list_type *types, const struct pg_items *list, size_t *at,
                        struct err *err)
{
    struct pg_slice *slices = pg_slices(conn);
    PGresult *results[PG_SLICES];
    size_t count = 0;
    pg_round_begin(conn);
    while (count < PG_SLICES && *at < list->count) {
        struct pg_slice *slice = &slices[count];
        fill_slice(slice, list, at, pg_item_is_first);
        if (slice->count == 0)
            break;
        pg_queue_rows(conn, sql, types, table->count, slice->rows, slice->count);
        count++;
    }
    if (pg_round(conn, results, count, err) == -1)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = mark_new(conn, &slices[i], results[i], table->key_count, err);
        PQclear(results[i]);
    }
    return rc;
}

/* As many slices as one round has: a COPY is one statement, with the time that one has. *at is
 * where the next one goes on. */
static int copy_some(backend_conn_t *conn, const struct pg_items *list,
                     const struct row_table *table, size_t *at, struct err *err)
{
    struct pg_slice *slice = pg_slices(conn);
    pg_round_begin(conn);
    int rc = pg_copy_begin(conn, table, err);
    for (size_t i = 0; rc == 0 && i < PG_SLICES && *at < list->count; i++) {
        fill_slice(slice, list, at, pg_item_is_first);
        pg_round_begin(conn);
        rc = pg_copy_rows(conn, slice->rows, slice->count, err);
    }
    return rc == 0 ? pg_copy_end(conn, err) : -1;
}

/* All of the list as rows that are not there yet. */
static int copy_list(backend_conn_t *conn, const struct pg_items *list,
                     const struct row_table *table, struct err *err)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < list->count;)
        rc = copy_some(conn, list, table, &at, err);
    if (rc == -1 && conn->fault == PG_TWICE)
        conn->copy_pause = COPY_PAUSE_GROUPS;
    for (size_t at = 0; rc == 0 && at < list->count; at++)
        if (pg_item_is_first(list, at))
            mark_item(conn, &list->items[at]);
    return rc;
}

static int insert_list(backend_conn_t *conn, const struct pg_items *list, enum event_type type,
                       struct err *err)
{
    const struct row_table *table = row_table(type);
    enum list_type types[ROW_VALUES_MAX];
    struct buf sql;
    int rc = 0;
    if (list->count == 0)
        return 0;
    if (list->count >= COPY_MIN_ROWS && conn->copy_pause == 0)
        return copy_list(conn, list, table, err);
    types_of(table, types);
    buf_init(&sql, SQL_MAX_BYTES);
    int failed = write_insert(&sql, table, types);
    assert(!failed);
    for (size_t at = 0; rc == 0 && at < list->count;)
        rc = insert_round(conn, buf_cstr(&sql), table, types, list, &at, err);
    buf_fini(&sql);
    return rc;
}

/* The first of its identity that may complete an open span. */
static bool may_complete(const struct pg_items *list, size_t at)
{
    const struct pg_item *item = &list->items[at];
    if (item->is_new || item->event->span.end_ns == 0)
        return false;
    for (; !pg_item_is_first(list, at); at--)
        if (list->items[at - 1].event->span.end_ns != 0)
            return false; /* an earlier one is a candidate, or is what is stored */
    return true;
}

/* Queues the completion of one of the slice's spans, of which the row of the result is the start.
 */
static void complete_span(backend_conn_t *conn, const struct pg_slice *slice, const PGresult *open,
                          int at)
{
    size_t i = (size_t)pg_int(open, at, 0) - 1;
    struct list_value tokens[2] = {pg_value(open, at, 3), pg_value(open, at, 4)};
    struct stored_span stored = {
        .status = (int)pg_int(open, at, 1),
        .op = pg_value(open, at, 2).bytes,
        .in_tok = tokens[0].type == LIST_INT ? tokens[0].integer : BATCH_TOKENS_NONE,
        .out_tok = tokens[1].type == LIST_INT ? tokens[1].integer : BATCH_TOKENS_NONE,
    };
    struct pg_params params = {0};
    const struct row *row = &slice->rows[i];
    struct pg_item *item = slice->items[i];
    for (size_t column = 0; column < row->count; column++)
        pg_bind_value(&params, &row->values[column]);
    pg_queue(conn, span_complete, &params);
    rollup_complete(&conn->rollup, item->project, &item->event->span, &stored);
    item->is_new = true;
}

/* Queues the completions of the slice's spans that are open. */
static int complete_slice(backend_conn_t *conn, const struct pg_slice *slice, const PGresult *open,
                          struct err *err)
{
    for (int i = 0; i < PQntuples(open); i++) {
        complete_span(conn, slice, open, i);
        if (conn->queued < SINGLES_IN_ROUND && i + 1 < PQntuples(open))
            continue;
        pg_round_begin(conn);
        if (pg_round_done(conn, err) == -1)
            return -1;
    }
    return 0;
}

/* Takes the next candidates of one project and day into the slice. */
static void fill_day(struct pg_slice *slice, const struct pg_items *list, size_t *at)
{
    const uint8_t *first = NULL;
    slice->count = 0;
    for (; *at < list->count && slice->count < PG_ROWS_MAX; (*at)++) {
        const struct pg_item *item = &list->items[*at];
        if (!may_complete(list, *at))
            continue;
        if (first && memcmp(first, item->identity, PG_IDENTITY_DAY_LEN) != 0)
            return;
        first = item->identity;
        add_row(slice, &list->items[*at]);
    }
}

/* One round of slices; *at is where the next one goes on. */
static int complete_round(backend_conn_t *conn, const struct pg_items *list, size_t *at,
                          struct err *err)
{
    static const enum list_type types[] = {LIST_INT, LIST_INT, LIST_BYTES, LIST_BYTES};
    struct pg_slice *slices = pg_slices(conn);
    PGresult *open[PG_SLICES];
    size_t count = 0;
    for (; count < PG_SLICES; count++) {
        fill_day(&slices[count], list, at);
        if (slices[count].count == 0)
            break;
        pg_queue_rows(conn, span_open, types, 4, slices[count].rows, slices[count].count);
    }
    pg_round_begin(conn);
    if (count == 0)
        return 0;
    if (pg_round(conn, open, count, err) == -1)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = complete_slice(conn, &slices[i], open[i], err);
        PQclear(open[i]);
    }
    return rc;
}

static int complete_spans(backend_conn_t *conn, const struct pg_items *list, struct err *err)
{
    for (size_t at = 0; at < list->count;)
        if (complete_round(conn, list, &at, err) == -1)
            return -1;
    return 0;
}

/* Each run's events one after the other: the later may say something new. */
static int write_runs(backend_conn_t *conn, const struct pg_items *list, struct err *err)
{
    PGresult *results[SINGLES_IN_ROUND];
    for (size_t at = 0; at < list->count;) {
        size_t count = 0;
        pg_round_begin(conn);
        for (; count < SINGLES_IN_ROUND && at + count < list->count; count++) {
            const struct pg_item *item = &list->items[at + count];
            struct pg_params params = {0};
            struct row row;
            row_of_event(item->request, item->project, item->event, &row);
            for (size_t i = 0; i < row.count; i++)
                pg_bind_value(&params, &row.values[i]);
            pg_queue(conn, run_add, &params);
        }
        if (pg_round(conn, results, count, err) == -1)
            return -1;
        for (size_t i = 0; i < count; i++) {
            list->items[at + i].is_new = strcmp(PQcmdTuples(results[i]), "1") == 0;
            PQclear(results[i]);
        }
        at += count;
    }
    return 0;
}

int pg_write_events(backend_conn_t *conn, struct pg_group *group, struct err *err)
{
    static const enum event_type batched[] = {EVENT_SPAN, EVENT_LOG, EVENT_METRIC, EVENT_SCORE};
    for (size_t i = 0; i < sizeof batched / sizeof *batched; i++)
        if (insert_list(conn, &group->lists[batched[i]], batched[i], err) == -1)
            return -1;
    if (complete_spans(conn, &group->lists[EVENT_SPAN], err) == -1)
        return -1;
    return write_runs(conn, &group->lists[EVENT_RUN], err);
}
