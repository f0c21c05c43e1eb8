// SPDX-License-Identifier: MIT
#include "proto/pb_any.h"

static void *allocate(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void release(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

void *pb_unpack(const ProtobufCMessageDescriptor *schema, struct arena *arena, struct slice message)
{
    ProtobufCAllocator allocator = {allocate, release, arena};
    return protobuf_c_message_unpack(schema, &allocator, message.len,
                                     (const uint8_t *)message.data);
}

struct slice pb_slice(ProtobufCBinaryData bytes)
{
    return (struct slice){(const char *)bytes.data, bytes.len};
}

static int convert_array(struct arena *arena, const Mcpd__Otlp__ArrayValue *from, struct value *to)
{
    struct value_list list = {0};
    for (size_t i = 0; i < from->n_values; i++) {
        struct value *item = value_append(arena, &list);
        if (!item || pb_any_value(arena, from->values[i], item) == -1)
            return -1;
    }
    to->type = VALUE_ARRAY;
    to->first = list.first;
    return 0;
}

int pb_any_value(struct arena *arena, const Mcpd__Otlp__AnyValue *from, struct value *to)
{
    to->type = VALUE_NULL;
    if (!from)
        return 0;
    switch (from->value_case) {
    case MCPD__OTLP__ANY_VALUE__VALUE_STRING_VALUE:
        to->type = VALUE_TEXT;
        to->text = pb_slice(from->string_value);
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_BYTES_VALUE:
        to->type = VALUE_BYTES;
        to->text = pb_slice(from->bytes_value);
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
        to->type = VALUE_BOOL;
        to->boolean = from->bool_value;
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_INT_VALUE:
        to->type = VALUE_INT;
        to->integer = from->int_value;
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
        to->type = VALUE_DOUBLE;
        to->number = from->double_value;
        return 0;
    case MCPD__OTLP__ANY_VALUE__VALUE_ARRAY_VALUE:
        return convert_array(arena, from->array_value, to);
    case MCPD__OTLP__ANY_VALUE__VALUE_KVLIST_VALUE:
        to->type = VALUE_MAP;
        return pb_any_members(arena, from->kvlist_value->values, from->kvlist_value->n_values,
                              &to->first);
    default:
        return 0;
    }
}

int pb_any_members(struct arena *arena, Mcpd__Otlp__KeyValue **pairs, size_t count,
                   struct value **out)
{
    struct value_list list = {0};
    for (size_t i = 0; i < count; i++) {
        struct value *member = value_append(arena, &list);
        if (!member || pb_any_value(arena, pairs[i]->value, member) == -1)
            return -1;
        member->key = pb_slice(pairs[i]->key);
    }
    *out = list.first;
    return 0;
}
