// SPDX-License-Identifier: MIT
#include "store/pg_days.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define DAYS_AHEAD     7
#define DAYS_KNOWN_MAX 8192 /* 22 years from the first */
#define DAYS_AT_ONCE   32   /* each takes locks until its transaction ends */
#define MAKE_LIMIT_MS  20000
#define DROP_LIMIT_MS  10000

static const char *const families[PG_FAMILY_COUNT] = {
    [PG_SPANS] = "spans",
    [PG_LOGS] = "logs",
    [PG_METRICS] = "metrics",
};

struct pg_days {
    pthread_mutex_t lock;
    int64_t first_day;
    bool is_known[PG_FAMILY_COUNT][DAYS_KNOWN_MAX];
};

struct pg_days *pg_days_new(void)
{
    struct pg_days *self = calloc(1, sizeof *self);
    assert(self);
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

void pg_days_destroy(struct pg_days **self_p)
{
    struct pg_days *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    pthread_mutex_destroy(&self->lock);
    free(self);
}

void pg_days_begin(struct pg_days *self, int64_t first_day)
{
    pthread_mutex_lock(&self->lock);
    self->first_day = first_day;
    memset(self->is_known, 0, sizeof self->is_known);
    pthread_mutex_unlock(&self->lock);
}

void pg_days_forget(struct pg_days *self)
{
    pthread_mutex_lock(&self->lock);
    memset(self->is_known, 0, sizeof self->is_known);
    pthread_mutex_unlock(&self->lock);
}

/* Where a day's mark is, or null for one that lies before the first or far ahead. */
static bool *mark_of(struct pg_days *self, enum pg_family family, int64_t day)
{
    int64_t at = day - self->first_day;
    return at >= 0 && at < DAYS_KNOWN_MAX ? &self->is_known[family][at] : NULL;
}

static int make(backend_conn_t *conn, enum pg_family family, const int64_t *days, size_t count,
                struct err *err)
{
    uint64_t deadline_ms = conn->deadline_ms;
    conn->deadline_ms = clock_mono_ms() + MAKE_LIMIT_MS;
    pg_queue(conn, PG_BEGIN, NULL);
    for (size_t i = 0; i < count; i++) {
        struct pg_params params = {0};
        pg_bind_text(&params, families[family]);
        pg_bind_int(&params, days[i]);
        pg_queue(conn, "SELECT mcpd_make_days($1, ARRAY[$2])", &params);
    }
    pg_queue(conn, "COMMIT", NULL);
    int rc = pg_round_done(conn, err);
    if (rc == -1)
        pg_rollback(conn);
    conn->deadline_ms = deadline_ms;
    return rc;
}

static void note_made(struct pg_days *self, enum pg_family family, const int64_t *days,
                      size_t count)
{
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count; i++) {
        bool *mark = mark_of(self, family, days[i]);
        if (mark)
            *mark = true;
    }
    pthread_mutex_unlock(&self->lock);
}

/* The first days of the list that have to be made; *next is where to go on. */
static size_t pick_unknown(struct pg_days *self, enum pg_family family, const int64_t *days,
                           size_t count, size_t *next, int64_t unknown[DAYS_AT_ONCE])
{
    size_t found = 0;
    pthread_mutex_lock(&self->lock);
    for (; *next < count && found < DAYS_AT_ONCE; (*next)++) {
        int64_t day = days[*next];
        const bool *mark = mark_of(self, family, day);
        bool is_needed = mark && !*mark;
        for (size_t i = 0; i < found; i++)
            is_needed = is_needed && unknown[i] != day;
        if (is_needed)
            unknown[found++] = day;
    }
    pthread_mutex_unlock(&self->lock);
    return found;
}

int pg_days_need(backend_conn_t *conn, enum pg_family family, const int64_t *days, size_t count,
                 struct err *err)
{
    struct pg_days *self = conn->store->days;
    int64_t unknown[DAYS_AT_ONCE];
    for (size_t next = 0; next < count;) {
        size_t found = pick_unknown(self, family, days, count, &next, unknown);
        if (found > 0 && make(conn, family, unknown, found, err) == -1)
            return -1;
        note_made(self, family, unknown, found);
    }
    return 0;
}

int pg_days_ahead(backend_conn_t *conn, int64_t today, struct err *err)
{
    int64_t days[DAYS_AHEAD + 1];
    for (int i = 0; i <= DAYS_AHEAD; i++)
        days[i] = today + i;
    for (enum pg_family family = 0; family < PG_FAMILY_COUNT; family++)
        if (pg_days_need(conn, family, days, DAYS_AHEAD + 1, err) == -1)
            return -1;
    return 0;
}

/* Rows of the days that share a partition. */
static const char *const old_rows[PG_FAMILY_COUNT] = {
#define OLD(table)                                                                     \
    "DELETE FROM " table "_old WHERE ctid = ANY (ARRAY(SELECT ctid FROM " table "_old" \
    " WHERE day < $1 LIMIT $2))"
    [PG_SPANS] = OLD("spans"),
    [PG_LOGS] = OLD("logs"),
    [PG_METRICS] = OLD("metrics"),
#undef OLD
};

/* How many of one family went. */
static int drop_of(backend_conn_t *conn, enum pg_family family, int64_t before_day, int max_rows,
                   struct err *err)
{
    struct pg_params day = {0};
    struct pg_params rows = {0};
    PGresult *results[5];
    pg_bind_text(&day, families[family]);
    pg_bind_int(&day, before_day);
    pg_bind_int(&rows, before_day);
    pg_bind_int(&rows, max_rows);
    pg_queue(conn, PG_BEGIN, NULL);
    /* Writers that queue up behind this one wait as long as it does. */
    pg_queue(conn, "SET LOCAL lock_timeout = '100ms'", NULL);
    pg_queue(conn, "SELECT mcpd_drop_day($1, $2)", &day);
    pg_queue(conn, old_rows[family], &rows);
    pg_queue(conn, "COMMIT", NULL);
    if (pg_round(conn, results, 5, err) == -1) {
        pg_rollback(conn);
        return conn->fault == PG_LOCKED ? 0 : -1; /* another time */
    }
    int removed = (int)pg_int(results[2], 0, 0) + (int)strtol(PQcmdTuples(results[3]), NULL, 10);
    pg_clear(results, 5);
    return removed;
}

int pg_days_drop(backend_conn_t *conn, int64_t before_day, int max_rows, struct err *err)
{
    int total = 0;
    conn->deadline_ms = clock_mono_ms() + DROP_LIMIT_MS;
    for (enum pg_family family = 0; family < PG_FAMILY_COUNT; family++) {
        int removed = drop_of(conn, family, before_day, max_rows, err);
        if (removed == -1)
            return -1;
        total += removed;
    }
    if (total > 0)
        pg_days_forget(conn->store->days);
    return total;
}
