// SPDX-License-Identifier: MIT
/*
 * A trace's spans lie in the days from its start to its end. SQLite is told those days one by one,
 * so that the key of its one table finds them; for Postgres they are a range, which leaves the
 * other partitions alone.
 */
#include "store/list_sql.h"

#include "store/rows.h"

static int add_columns(struct sql_text *sql, const struct listing *listing)
{
    if (sql_text_add(sql, "SELECT") == -1)
        return -1;
    for (const struct column *column = listing->columns; column->name; column++)
        if (sql_text_add(sql, "%s%s", column == listing->columns ? " " : ", ",
                         column->source ? column->source : column->name) == -1)
            return -1;
    return 0;
}

static const char *source_of(const struct column *column)
{
    return column->source ? column->source : column->name;
}

/* t.project is the one with that name. */
static int add_project(struct sql_text *sql, const char *project)
{
    return sql_text_add(sql, "t.project = (SELECT id FROM projects WHERE name = ") == 0 &&
                   sql_text_str(sql, project) == 0
               ? sql_text_add(sql, ")")
               : -1;
}

/* The text before a value, the value, the text behind it. */
static int add_around(struct sql_text *sql, const char *before, const struct list_value *value,
                      const char *behind)
{
    return sql_text_add(sql, "%s", before) == 0 && sql_text_value(sql, value) == 0
               ? sql_text_add(sql, "%s", behind)
               : -1;
}

static const char *const span_of_trace[] = {
    [EXPR_SQLITE] =
        " AND EXISTS (" LISTING_SQLITE_DAYS
        " SELECT 1 FROM days CROSS JOIN spans s ON s.project = t.project AND s.day = days.day"
        " AND s.trace_id = t.trace_id WHERE s.%s = ",
    [EXPR_POSTGRES] = " AND EXISTS (SELECT 1 FROM spans s WHERE s.project = t.project"
                      " AND s.day BETWEEN t.start_ns / 86400000000000 AND t.end_ns / 86400000000000"
                      " AND s.trace_id = t.trace_id AND s.%s = ",
};

/* The condition of one filter. */
static int add_filter(struct sql_text *sql, const struct filter *filter,
                      const struct list_value *value)
{
    const char *source = filter->source ? filter->source : filter->name;
    switch (filter->match) {
    case MATCH_TEXT:
    case MATCH_TRACE_ID:
        return sql_text_add(sql, " AND t.%s = ", source) == 0 ? sql_text_value(sql, value) : -1;
    case MATCH_AT_LEAST:
        return sql_text_add(sql, " AND t.%s >= ", source) == 0 ? sql_text_value(sql, value) : -1;
    case MATCH_MIN_MS:
        return add_around(sql, " AND t.end_ns - t.start_ns >= ", value, " * 1000000");
    case MATCH_HAS_ERRORS:
        return sql_text_add(sql, " AND (CASE WHEN t.%s > 0 THEN 1 ELSE 0 END) = ", source) == 0
                   ? sql_text_value(sql, value)
                   : -1;
    case MATCH_SPAN_OF_TRACE:
        return sql_text_add(sql, span_of_trace[sql->dialect], source) == 0
                   ? add_around(sql, "", value, ")")
                   : -1;
    }
    return -1;
}

/* The time asked for; of a table with partitions also its days, which leaves the others alone. */
static int add_time(struct sql_text *sql, const struct list_query *query, const char *time)
{
    if (sql_text_add(sql, "t.%s >= ", time) == -1 || sql_text_int(sql, query->from_ns) == -1 ||
        sql_text_add(sql, " AND t.%s < ", time) == -1 || sql_text_int(sql, query->to_ns) == -1)
        return -1;
    if (sql->dialect != EXPR_POSTGRES || !query->listing->is_by_day)
        return 0;
    return sql_text_add(sql, " AND t.day BETWEEN ") == 0 &&
                   sql_text_int(sql, query->from_ns / DAY_NS) == 0 &&
                   sql_text_add(sql, " AND ") == 0
               ? sql_text_int(sql, query->to_ns / DAY_NS)
               : -1;
}

static int add_cursor(struct sql_text *sql, const struct list_query *query, const char *time,
                      const char *key)
{
    if (query->cursor_key.type == LIST_NULL)
        return 0;
    return sql_text_add(sql, " AND (t.%s, t.%s) < (", time, key) == 0 &&
                   sql_text_int(sql, query->cursor_ns) == 0
               ? add_around(sql, ", ", &query->cursor_key, ")")
               : -1;
}

int list_sql_page(struct sql_text *sql, const struct list_query *query)
{
    const struct listing *listing = query->listing;
    const char *key = source_of(&listing->columns[0]);
    const char *time = source_of(&listing->columns[1]);
    if (add_columns(sql, listing) == -1 ||
        sql_text_add(sql, " FROM %s t WHERE ", listing->table) == -1 ||
        (!listing->is_global && add_project(sql, query->project) == -1) ||
        (!listing->is_global && sql_text_add(sql, " AND ") == -1) ||
        add_time(sql, query, time) == -1 || add_cursor(sql, query, time, key) == -1)
        return -1;
    for (size_t i = 0; listing->filters[i].name; i++)
        if (query->filters[i].type != LIST_NULL &&
            add_filter(sql, &listing->filters[i], &query->filters[i]) == -1)
            return -1;
    if (query->where &&
        (sql_text_add(sql, " AND ") == -1 || sql_text_where(sql, query->where) == -1))
        return -1;
    return sql_text_add(sql, " ORDER BY t.%s DESC, t.%s DESC LIMIT ", time, key) == 0
               ? sql_text_int(sql, query->limit)
               : -1;
}

/* t is the trace of the key. */
static int add_trace(struct sql_text *sql, const struct trace_key *key)
{
    struct list_value id = {.type = LIST_BYTES,
                            .bytes = {(const char *)key->trace_id, sizeof key->trace_id}};
    return add_project(sql, key->project) == 0 && sql_text_add(sql, " AND t.trace_id = ") == 0
               ? sql_text_value(sql, &id)
               : -1;
}

int list_sql_trace(struct sql_text *sql, const struct trace_key *key)
{
    return add_columns(sql, listing_row(LISTING_TRACES)) == 0 &&
                   sql_text_add(sql, " FROM traces t WHERE ") == 0
               ? add_trace(sql, key)
               : -1;
}

int list_sql_spans(struct sql_text *sql, const struct trace_key *key)
{
    static const char *const before[] = {
        [EXPR_SQLITE] =
            " FROM (WITH RECURSIVE days (project, trace_id, day, last) AS ("
            " SELECT project, trace_id, start_ns / 86400000000000, end_ns / 86400000000000"
            " FROM traces t WHERE ",
        [EXPR_POSTGRES] = " FROM (SELECT s.* FROM traces t JOIN spans s ON s.project = t.project"
                          " AND s.trace_id = t.trace_id AND s.day BETWEEN"
                          " t.start_ns / 86400000000000 AND t.end_ns / 86400000000000 WHERE ",
    };
    static const char *const behind[] = {
        [EXPR_SQLITE] = " UNION ALL SELECT project, trace_id, day + 1, last FROM days"
                        " WHERE day < last) SELECT s.* FROM days d CROSS JOIN spans s"
                        " ON s.project = d.project AND s.day = d.day AND s.trace_id = d.trace_id)"
                        " ORDER BY start_ns, span_id",
        [EXPR_POSTGRES] = ") found ORDER BY start_ns, span_id",
    };
    return add_columns(sql, listing_row(LISTING_SPANS)) == 0 &&
                   sql_text_add(sql, "%s", before[sql->dialect]) == 0 && add_trace(sql, key) == 0
               ? sql_text_add(sql, "%s", behind[sql->dialect])
               : -1;
}
