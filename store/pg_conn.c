// SPDX-License-Identifier: MIT
/*
 * libpq in non-blocking pipeline mode: statements go into its buffer, a sync ends the round, and
 * while results are awaited both directions are polled, so that neither side waits for the other
 * with full buffers. After an error the server skips the rest of the round up to the sync, which is
 * always read, so the connection stays of use.
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

#define CONNECT_LIMIT_MS  5000
#define CONNECT_AGAIN_MS  500
#define ROLLBACK_LIMIT_MS 2000

#define UNDEFINED_TABLE "42P01"

/* Types of values, by their numbers in every Postgres (catalog/pg_type.dat). */
enum {
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_FLOAT8 = 701
};

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

static int fail(backend_conn_t *self, enum pg_fault fault, struct err *err, const char *text)
{
    self->fault = fault;
    return err_set(err, "%s: %.*s", self->store->target.label, (int)strcspn(text, "\n"), text);
}

static int lose_as(backend_conn_t *self, enum pg_fault fault, struct err *err, const char *text)
{
    if (self->fault == PG_FINE) /* else the server has said why before it hung up */
        fail(self, fault, err, text);
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
    static const char *const words[] = {
        "authentication failed", "no password supplied",       "does not exist",
        "no pg_hba.conf entry",  "is not permitted to log in", "permission denied"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(message, "FATAL:") && strstr(message, words[i]))
            return PG_REFUSED;
    return PG_LOST;
}

static int fail_connect(backend_conn_t *self, struct err *err)
{
    const char *message = self->pg ? PQerrorMessage(self->pg) : "out of memory";
    bool is_late = self->pg && PQstatus(self->pg) != CONNECTION_BAD;
    enum pg_fault fault = is_late ? PG_LOST : connect_fault(message);
    fail(self, fault, &self->reason, is_late ? "no answer in time while connecting" : message);
    pg_conn_drop(self);
    self->retry_at_ms = clock_mono_ms() + CONNECT_AGAIN_MS;
    return err_set(err, "%s", self->reason.text);
}

int pg_conn_connect(backend_conn_t *self, uint64_t deadline_ms, struct err *err)
{
    uint64_t now_ms = clock_mono_ms();
    assert(self->queued == 0);
    self->fault = PG_FINE;
    if (self->pg && PQstatus(self->pg) == CONNECTION_BAD)
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

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static void queue_failed(backend_conn_t *self)
{
    if (self->fault == PG_FINE)
        self->fault = PG_LOST;
}

void pg_queue(backend_conn_t *self, const char *sql, const struct pg_params *params)
{
    static const struct pg_params none = {0};
    static const int binary[PG_PARAMS_MAX] = {[0 ... PG_PARAMS_MAX - 1] = 1};
    if (!params)
        params = &none;
    if (!self->pg || !PQsendQueryParams(self->pg, sql, params->count, params->types, params->values,
                                        params->lengths, binary, 1))
        queue_failed(self);
    else
        self->queued++;
}

/* Reads on to the round's end. */
static int finish_round(backend_conn_t *self, struct err *err)
{
    PGresult *result = NULL;
    bool is_over = false;
    while (!is_over) {
        if (pg_impl_take(self, &result, err) == -1)
            return -1;
        is_over = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (result && !is_over && !is_good(result))
            pg_impl_note(self, result, err);
        PQclear(result);
        if (self->pg && PQstatus(self->pg) == CONNECTION_BAD)
            return pg_impl_lose(self, err);
    }
    self->queued = 0;
    return self->fault == PG_FINE ? 0 : -1;
}

/* Begins to end the round: everything queued is followed by a sync. */
static int end_queue(backend_conn_t *self, struct err *err)
{
    if (self->fault == PG_DATA && self->queued == 0 && self->pg)
        return err_set(err, "%s: a row is too large", self->store->target.label);
    if (!self->pg)
        return fail(self, PG_LOST, err, "not connected");
    if (self->fault == PG_LOST || !PQpipelineSync(self->pg))
        return pg_impl_lose(self, err);
    return 0;
}

/* The result of the next statement, or null where it failed. */
static PGresult *take_statement(backend_conn_t *self, struct err *err)
{
    PGresult *result = NULL;
    PGresult *mark = NULL;
    if (pg_impl_take(self, &result, err) == -1)
        return NULL;
    if (!is_good(result)) {
        pg_impl_note(self, result, err);
        PQclear(result);
        return NULL;
    }
    if (pg_impl_take(self, &mark, err) == -1) {
        PQclear(result);
        return NULL;
    }
    assert(!mark);
    return result;
}

static void clear_all(PGresult **results, size_t count)
{
    for (size_t i = 0; i < count; i++)
        PQclear(results[i]);
}

int pg_round(backend_conn_t *self, PGresult **results, size_t count, struct err *err)
{
    size_t taken = 0;
    size_t queued = self->queued; /* fewer than count only where one could not be queued */
    assert(!self->pg || queued <= count);
    if (end_queue(self, err) == -1)
        return -1;
    while (taken < queued && (results[taken] = take_statement(self, err)))
        taken++;
    if (self->pg && finish_round(self, err) == 0 && taken == count)
        return 0;
    clear_all(results, taken);
    return -1;
}

int pg_round_done(backend_conn_t *self, struct err *err)
{
    return end_queue(self, err) == 0 ? finish_round(self, err) : -1;
}

int pg_run(backend_conn_t *self, const char *sql, const struct pg_params *params, PGresult **result,
           struct err *err)
{
    pg_queue(self, sql, params);
    return pg_round(self, result, 1, err);
}

int pg_run_done(backend_conn_t *self, const char *sql, struct err *err)
{
    pg_queue(self, sql, NULL);
    return pg_round_done(self, err);
}

/* Gives the rows of one statement to the sink. */
static int give_rows(backend_conn_t *self, row_sink *sink, void *arg, struct err *err)
{
    struct list_value values[LISTING_COLUMNS_MAX];
    PGresult *result = NULL;
    if (!PQsetSingleRowMode(self->pg))
        return pg_impl_lose_for(self, err, "the rows cannot be read");
    while (pg_impl_take(self, &result, err) == 0 && result) {
        bool is_row = PQresultStatus(result) == PGRES_SINGLE_TUPLE;
        int columns = PQnfields(result);
        if (!is_row && !is_good(result)) {
            pg_impl_note(self, result, err);
            PQclear(result);
            return -1;
        }
        for (int i = 0; is_row && i < columns && i < LISTING_COLUMNS_MAX; i++)
            values[i] = pg_value(result, 0, i);
        bool is_refused = is_row && sink(arg, values) == -1;
        PQclear(result);
        if (is_refused)
            return pg_impl_lose_for(self, err, "the answer would be too large");
    }
    return self->pg ? 0 : -1;
}

int pg_round_rows(backend_conn_t *self, size_t wanted, row_sink *sink, void *arg, struct err *err)
{
    if (end_queue(self, err) == -1)
        return -1;
    for (size_t i = 0; i < wanted; i++) {
        PGresult *result = take_statement(self, err);
        PQclear(result);
        if (!result)
            return self->pg ? finish_round(self, err) : -1;
    }
    int rc = give_rows(self, sink, arg, err);
    return self->pg && finish_round(self, err) == 0 ? rc : -1;
}

int pg_remove(backend_conn_t *self, const char *sql, const struct pg_params *params, int *most,
              struct err *err)
{
    PGresult *result;
    if (pg_run(self, sql, params, &result, err) == -1)
        return -1;
    int removed = (int)strtol(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    if (removed > *most)
        *most = removed;
    return 0;
}

void pg_rollback(backend_conn_t *self)
{
    enum pg_fault fault = self->fault;
    if (!self->pg)
        return;
    self->deadline_ms = clock_mono_ms() + ROLLBACK_LIMIT_MS;
    self->fault = PG_FINE;
    pg_queue(self, "ROLLBACK", NULL);
    if (pg_round_done(self, NULL) == -1)
        pg_conn_drop(self);
    self->fault = fault;
}

static void bind(struct pg_params *params, Oid type, const void *bytes, size_t len)
{
    assert(params->count < PG_PARAMS_MAX);
    params->types[params->count] = type;
    params->values[params->count] = bytes;
    params->lengths[params->count] = (int)len;
    params->count++;
}

static void bind_number(struct pg_params *params, Oid type, uint64_t bits)
{
    char *number = params->numbers[params->count];
    for (int i = 0; i < 8; i++)
        number[i] = (char)(bits >> (8 * (7 - i)));
    bind(params, type, number, 8);
}

void pg_bind_int(struct pg_params *params, int64_t value)
{
    bind_number(params, OID_INT8, (uint64_t)value);
}

void pg_bind_text(struct pg_params *params, const char *text)
{
    bind(params, OID_TEXT, text, strlen(text));
}

void pg_bind_bytes(struct pg_params *params, const void *bytes, size_t len)
{
    bind(params, OID_BYTEA, len ? bytes : "", len);
}

void pg_bind_value(struct pg_params *params, const struct list_value *value)
{
    uint64_t bits;
    switch (value->type) {
    case LIST_NULL:
        bind(params, 0, NULL, 0);
        break;
    case LIST_INT:
        pg_bind_int(params, value->integer);
        break;
    case LIST_REAL:
        memcpy(&bits, &value->real, sizeof bits);
        bind_number(params, OID_FLOAT8, bits);
        break;
    case LIST_TEXT:
        bind(params, OID_TEXT, value->bytes.len ? value->bytes.data : "", value->bytes.len);
        break;
    case LIST_BYTES:
        pg_bind_bytes(params, value->bytes.data, value->bytes.len);
        break;
    }
}

/* An integer of 2, 4 or 8 bytes, most significant first, with its sign. */
static int64_t read_int(const char *bytes, int len)
{
    int64_t number = bytes[0] < 0 ? -1 : 0;
    for (int i = 0; i < len; i++)
        number = (int64_t)((uint64_t)number << 8 | (uint8_t)bytes[i]);
    return number;
}

struct list_value pg_value(const PGresult *result, int row, int column)
{
    struct list_value value = {.type = LIST_NULL};
    if (PQgetisnull(result, row, column))
        return value;
    const char *bytes = PQgetvalue(result, row, column);
    int len = PQgetlength(result, row, column);
    switch (PQftype(result, column)) {
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
        value.type = LIST_INT;
        value.integer = read_int(bytes, len);
        return value;
    case OID_FLOAT8: {
        int64_t bits = read_int(bytes, len);
        value.type = LIST_REAL;
        memcpy(&value.real, &bits, sizeof bits);
        return value;
    }
    default:
        value.type = PQftype(result, column) == OID_BYTEA ? LIST_BYTES : LIST_TEXT;
        value.bytes = (struct slice){.data = bytes, .len = (size_t)len};
        return value;
    }
}

int64_t pg_int(const PGresult *result, int row, int column)
{
    return pg_value(result, row, column).integer;
}
