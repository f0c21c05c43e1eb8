// SPDX-License-Identifier: MIT
/* Values in binary, as they go to the server and come from it: most significant byte first. */
#include <assert.h>
#include <string.h>

#include "store/pg_conn.h"

/* Types of values, by their numbers in every Postgres (catalog/pg_type.dat). */
enum {
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_FLOAT8 = 701
};

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
