// SPDX-License-Identifier: MIT
/*
 * libpq in non-blocking pipeline mode. While results are awaited both directions are polled, so
 * that neither side waits for the other with full buffers.
 *
 * Errors carry the server's primary message only: details quote rows.
 */
#include "store/pg_conn.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "store/pg_conn_impl.h"
#include "store/pg_schema.h"

#define CONNECT_LIMIT_MS 5000
#define CONNECT_AGAIN_MS 500

#define UNDEFINED_TABLE "42P01"

/* The first row whose state is a prefix of what the server says counts. */
static const struct {
    const char *state;
    enum pg_fault fault;
} faults[] = {
    {"23514", PG_DATA},   /* a check; without a constraint's name: no partition, see fault_of */
    {"22", PG_DATA},      /* a value that the type does not hold */
    {"23", PG_DATA},      /* a constraint */
    {"54", PG_DATA},      /* beyond a limit, as an index entry that is too large */
    {"55P03", PG_LOCKED}, /* lock_timeout */
    {"40P01", PG_DEADLOCK},
    {"40", PG_AWAY},    /* serialization; rolled back */
    {"57014", PG_AWAY}, /* statement_timeout, or somebody cancelled it */
    {"57", PG_LOST},    /* shutting down, starting up */
    {"08", PG_LOST},
    {"25P03", PG_LOST},    /* idle in transaction for too long: the session is gone */
    {"53", PG_AWAY},       /* disk full, out of memory, too many connections */
    {"28", PG_REFUSED},    /* password, pg_hba */
    {"3D000", PG_REFUSED}, /* no such database */
    {"3F000", PG_REFUSED}, /* no schema of the search_path is there */
    {"42", PG_REFUSED},    /* no right to, no such table */
    {"", PG_AWAY},
};

backend_conn_t *pg_conn_new(backend_store_t *store)
{
    backend_conn_t *self = calloc(1, sizeof *self);
    assert(self);
    self->store = store;
    rollup_init(&self->rollup);
    return self;
}

void pg_conn_drop(backend_conn_t *self)
{
    PQfinish(self->pg);
    self->pg = NULL;
    self->queued = 0;
    memset(self->projects, 0, sizeof self->projects);
}

void pg_conn_destroy(backend_conn_t **self_p)
{
    backend_conn_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    pg_conn_drop(self);
    rollup_fini(&self->rollup);
    free(self->slices);
    free(self);
}

int pg_impl_fail(backend_conn_t *self, enum pg_fault fault, struct err *err, const char *text)
{
    self->fault = fault;
    return err_set(err, "%s: %.*s", self->store->target.label, (int)strcspn(text, "\n"), text);
}

static int lose_as(backend_conn_t *self, enum pg_fault fault, struct err *err, const char *text)
{
    if (self->fault == PG_FINE) /* else the server has said why before it hung up */
        pg_impl_fail(self, fault, err, text);
    self->fault = fault;
    pg_conn_drop(self);
    return -1;
}

int pg_impl_lose_for(backend_conn_t *self, struct err *err, const char *text)
{
    return lose_as(self, PG_LOST, err, text);
}

static enum pg_fault fault_of(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (!state)
        return PG_LOST;
    if (strcmp(state, "23514") == 0 && !PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME))
        return PG_NO_DAY;
    size_t i = 0;
    while (strncmp(state, faults[i].state, strlen(faults[i].state)) != 0)
        i++;
    return faults[i].fault;
}

int pg_impl_wait(backend_conn_t *self, short events)
{
    uint64_t now_ms = clock_mono_ms();
    struct pollfd socket = {.fd = PQsocket(self->pg), .events = events};
    int rc = 0;
    while (rc == 0 && now_ms < self->deadline_ms) {
        uint64_t left_ms = self->deadline_ms - now_ms;
        rc = poll(&socket, 1, left_ms < 60000 ? (int)left_ms : 60000);
        if (rc == -1 && errno == EINTR)
            rc = 0;
        now_ms = clock_mono_ms();
    }
    return rc > 0 ? 0 : -1;
}

static int connect_steps(backend_conn_t *self)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (status != PGRES_POLLING_OK) {
        if (status == PGRES_POLLING_FAILED)
            return -1;
        if (pg_impl_wait(self, status == PGRES_POLLING_READING ? POLLIN : POLLOUT) == -1)
            return -1;
        status = PQconnectPoll(self->pg);
    }
    return 0;
}

/* libpq gives no SQLSTATE for a connection that failed: the words must do. */
static enum pg_fault connect_fault(const char *message)
{
    static const char *const words[] = {"authentication failed",
                                        "no password supplied",
                                        "does not exist",
                                        "no pg_hba.conf entry",
                                        "is not permitted to log in",
                                        "permission denied",
                                        "unrecognized configuration parameter"};
    if (strncmp(message, "invalid ", strlen("invalid ")) == 0)
        return PG_REFUSED; /* libpq itself finds no sense in a parameter of the URL */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(message, "FATAL:") && strstr(message, words[i]))
            return PG_REFUSED;
    return PG_LOST;
}

static int fail_connect(backend_conn_t *self, struct err *err)
{
    const char *message = self->pg ? PQerrorMessage(self->pg) : "out of memory";
    bool is_late = self->pg && PQstatus(self->pg) != CONNECTION_BAD;
    bool has_no_password = self->pg && PQconnectionNeedsPassword(self->pg);
    enum pg_fault fault = is_late ? PG_LOST : has_no_password ? PG_REFUSED : connect_fault(message);
    pg_impl_fail(self, fault, &self->reason,
                 is_late ? "no answer in time while connecting" : message);
    pg_conn_drop(self);
    self->retry_at_ms = clock_mono_ms() + CONNECT_AGAIN_MS;
    return err_set(err, "%s", self->reason.text);
}

/* Whether the server has ended an idle connection, with or without a last word, so that the next
 * call need not fail to find out. Does not block. */
static bool is_ended(PGconn *pg)
{
    struct pollfd socket = {.fd = PQsocket(pg), .events = POLLIN};
    while (PQstatus(pg) == CONNECTION_OK && poll(&socket, 1, 0) > 0)
        if (!PQconsumeInput(pg))
            return true;
    return PQstatus(pg) == CONNECTION_BAD;
}

int pg_conn_connect(backend_conn_t *self, uint64_t deadline_ms, struct err *err)
{
    uint64_t now_ms = clock_mono_ms();
    assert(self->queued == 0);
    self->fault = PG_FINE;
    if (self->pg && is_ended(self->pg))
        pg_conn_drop(self);
    self->deadline_ms = deadline_ms;
    if (self->pg)
        return 0;
    if (now_ms < self->retry_at_ms) {
        self->fault = PG_LOST;
        return err_set(err, "%s", self->reason.text);
    }
    self->deadline_ms = clock_sooner_ms(deadline_ms, now_ms + CONNECT_LIMIT_MS);
    self->pg = PQconnectStartParams(self->store->target.keywords, self->store->target.values, 0);
    if (!self->pg || PQstatus(self->pg) == CONNECTION_BAD || connect_steps(self) == -1)
        return fail_connect(self, err);
    self->deadline_ms = deadline_ms;
    if (PQsetnonblocking(self->pg, 1) == -1 || !PQenterPipelineMode(self->pg))
        return pg_impl_lose_for(self, err, "the connection cannot be used");
    return 0;
}

int pg_conn_open(backend_conn_t *self, uint64_t deadline_ms, struct err *err)
{
    if (pg_conn_connect(self, deadline_ms, err) == -1)
        return -1;
    return pg_schema_ensure(self, err);
}

int pg_impl_lose(backend_conn_t *self, struct err *err)
{
    const char *message = PQerrorMessage(self->pg);
    return pg_impl_lose_for(self, err, *message ? message : "the connection was lost");
}

int pg_impl_flush(backend_conn_t *self, struct err *err)
{
    int rc = PQflush(self->pg);
    return rc == -1 ? pg_impl_lose(self, err) : rc;
}

/* Waits until the next result can be had without waiting. */
static int await(backend_conn_t *self, struct err *err)
{
    while (PQisBusy(self->pg)) {
        int unsent = pg_impl_flush(self, err);
        if (unsent == -1)
            return -1;
        if (pg_impl_wait(self, unsent ? POLLIN | POLLOUT : POLLIN) == -1)
            return lose_as(self, PG_LATE, err, "no answer in time");
        if (!PQconsumeInput(self->pg))
            return pg_impl_lose(self, err);
    }
    return 0;
}

int pg_impl_take(backend_conn_t *self, PGresult **result, struct err *err)
{
    if (await(self, err) == -1)
        return -1;
    *result = PQgetResult(self->pg);
    return 0;
}

/* Somebody has removed the tables, as when a backup is put back: they are looked at anew. */
static void doubt_schema(backend_store_t *store)
{
    pthread_mutex_lock(&store->lock);
    store->is_schema_sure = false;
    pthread_mutex_unlock(&store->lock);
}

void pg_impl_note(backend_conn_t *self, const PGresult *result, struct err *err)
{
    if (PQresultStatus(result) == PGRES_PIPELINE_ABORTED || self->fault != PG_FINE)
        return;
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    self->fault = fault_of(result);
    if (state && strcmp(state, UNDEFINED_TABLE) == 0)
        doubt_schema(self->store);
    err_set(err, "%s: %s (%s)", self->store->target.label,
            primary ? primary : "the connection was lost", state ? state : "-");
}
