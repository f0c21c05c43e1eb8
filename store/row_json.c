// SPDX-License-Identifier: MIT
#include "store/row_json.h"

#include <string.h>

#include "proto/batch.h"
#include "proto/codec.h"

#define ID_MAX_BYTES 64

static void write_id(struct json_out *out, struct slice id)
{
    char hex[2 * ID_MAX_BYTES];
    size_t len = id.len < ID_MAX_BYTES ? id.len : ID_MAX_BYTES;
    codec_hex_encode((const uint8_t *)id.data, len, hex);
    json_out_text(out, (struct slice){hex, 2 * len});
}

/* attrs is an object; its members become members of the row. */
static void write_members(struct json_out *out, struct slice attrs)
{
    if (attrs.len <= strlen("{}"))
        return;
    json_out_str(out, ",");
    json_out_raw(out, attrs.data + 1, attrs.len - 2);
}

static const char *name_of(enum column_form form, int64_t number)
{
    if (form == COLUMN_SPAN_KIND)
        return span_kind_name(number >= 0 && number < SPAN_KIND_COUNT ? (enum span_kind)number
                                                                      : SPAN_KIND_UNSPECIFIED);
    return span_status_name(number >= 0 && number < SPAN_STATUS_COUNT ? (enum span_status)number
                                                                      : SPAN_STATUS_UNSET);
}

static void write_value(struct json_out *out, const struct column *column,
                        const struct list_value *value)
{
    if (column->form == COLUMN_MEMBERS) {
        write_members(out, value->bytes);
        return;
    }
    json_out_key(out, column->name);
    switch (column->form) {
    case COLUMN_INT:
        json_out_int(out, value->integer);
        break;
    case COLUMN_REAL:
        json_out_value(out, &(struct value){.type = VALUE_DOUBLE, .number = value->real});
        break;
    case COLUMN_TEXT:
        json_out_text(out, value->bytes);
        break;
    case COLUMN_ID:
        write_id(out, value->bytes);
        break;
    case COLUMN_JSON:
        json_out_raw(out, value->bytes.data, value->bytes.len);
        break;
    default:
        json_out_text(out, slice_of(name_of(column->form, value->integer)));
    }
}

void row_json_write(struct json_out *out, const struct listing *listing,
                    const struct list_value *values)
{
    json_out_str(out, "{");
    for (size_t i = 0; listing->columns[i].name; i++)
        if (values[i].type != LIST_NULL)
            write_value(out, &listing->columns[i], &values[i]);
}
