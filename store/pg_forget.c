// SPDX-License-Identifier: MIT
#include "store/pg_forget.h"

#include "common/clock.h"
#include "store/pg_conn.h"
#include "store/pg_days.h"

#define FORGET_LIMIT_MS 10000 /* of one statement */

/* $1: the project's name; $2: the days it keeps; $3: rows. */
#define PROJECT_ID "(SELECT id FROM projects WHERE name = $1)"
#define FIRST_DAY  "(extract(epoch FROM now())::bigint / 86400 - $2)"
#define FIRST_NS   FIRST_DAY " * 86400000000000"
#define REMOVE(table, key, condition)                                      \
    "DELETE FROM " table " WHERE (" key ") IN (SELECT " key " FROM " table \
    " WHERE project = " PROJECT_ID " AND " condition " LIMIT $3)"

static const char *const removals[] = {
    REMOVE("spans", "project, day, trace_id, span_id", "day < " FIRST_DAY),
    REMOVE("logs", "project, day, id", "day < " FIRST_DAY),
    REMOVE("metrics", "project, day, id", "day < " FIRST_DAY),
    REMOVE("traces", "project, trace_id", "start_ns < " FIRST_NS " AND end_ns < " FIRST_NS),
    REMOVE("scores", "project, id", "created_ns < " FIRST_NS),
    REMOVE("runs", "project, id", "seen_ns < " FIRST_NS),
};

static bool keeps_all(const struct retention *kept, size_t count, struct list_value name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equals(name.bytes, kept[i].project))
            return kept[i].days == 0;
    return true;
}

/* *before_day: nobody keeps an earlier one, neither a project of the store nor one that may come;
 * INT64_MIN where one keeps all. */
static int find_first_day(backend_conn_t *conn, const struct retention *kept, size_t count,
                          int64_t *before_day, struct err *err)
{
    PGresult *result;
    uint64_t longest = 0;
    bool is_all_kept = false;
    for (size_t i = 0; i < count; i++) {
        is_all_kept |= kept[i].days == 0;
        longest = kept[i].days > longest ? kept[i].days : longest;
    }
    *before_day = INT64_MIN;
    if (pg_run(conn, "SELECT extract(epoch FROM now())::bigint / 86400, name FROM projects", NULL,
               &result, err) == -1)
        return -1;
    int rows = PQntuples(result);
    for (int row = 0; row < rows; row++)
        is_all_kept |= keeps_all(kept, count, pg_value(result, row, 1));
    if (rows > 0 && !is_all_kept)
        *before_day = pg_int(result, 0, 0) - (int64_t)longest;
    PQclear(result);
    return 0;
}

/* How many rows went of the kind that had most. */
static int remove_rows(backend_conn_t *conn, const struct retention *one, int max_rows,
                       struct err *err)
{
    struct pg_params params = {0};
    int most = 0;
    pg_bind_text(&params, one->project);
    pg_bind_int(&params, (int64_t)one->days);
    pg_bind_int(&params, max_rows);
    for (size_t i = 0; i < sizeof removals / sizeof *removals; i++) {
        conn->deadline_ms = clock_mono_ms() + FORGET_LIMIT_MS;
        if (pg_remove(conn, removals[i], &params, &most, err) == -1)
            return -1;
    }
    return most;
}

int pg_forget(backend_conn_t *conn, const struct retention *kept, size_t count, int max_rows,
              struct err *err)
{
    int64_t before_day;
    if (pg_conn_open(conn, clock_mono_ms() + FORGET_LIMIT_MS, err) == -1 ||
        find_first_day(conn, kept, count, &before_day, err) == -1)
        return -1;
    int dropped = before_day > 0 ? pg_days_drop(conn, before_day, max_rows, err) : 0;
    if (dropped == -1)
        return -1;
    int most = dropped > 0 ? max_rows : 0; /* it drops one day at a time */
    for (size_t i = 0; i < count; i++) {
        if (kept[i].days == 0)
            continue;
        int removed = remove_rows(conn, &kept[i], max_rows, err);
        if (removed == -1)
            return -1;
        if (removed > most)
            most = removed;
    }
    return most;
}
