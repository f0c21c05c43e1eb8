// SPDX-License-Identifier: MIT
/*
 * The answer is somebody else's and may be cut, so it is not parsed as a document: in JSON the
 * members whose names begin with "rejected" are looked for, in protobuf only the two fields that
 * matter are walked. A wrong guess costs a wrong count, nothing else.
 */
#include "courier/partial.h"

#include <string.h>

#define REJECTED        "\"rejected"
#define BLANKS          " \t\r\n"
#define PARTIAL_SUCCESS 0x0a /* field 1, a message, in every Export...ServiceResponse */
#define REJECTED_ITEMS  0x08 /* field 1, a varint, in every Export...PartialSuccess */
#define VARINT_BYTES    10

static void skip_blanks(struct slice *text)
{
    while (text->len > 0 && strchr(BLANKS, *text->data)) {
        text->data++;
        text->len--;
    }
}

static bool skip_byte(struct slice *text, char byte)
{
    if (text->len == 0 || *text->data != byte)
        return false;
    text->data++;
    text->len--;
    return true;
}

/* The number behind a member's name: `: 3`, or `: "3"` as OTLP writes 64 bits. */
static uint64_t member_number(struct slice text)
{
    uint64_t number = 0;
    skip_blanks(&text);
    if (!skip_byte(&text, ':'))
        return 0;
    skip_blanks(&text);
    skip_byte(&text, '"');
    for (; text.len > 0 && *text.data >= '0' && *text.data <= '9'; text.data++, text.len--) {
        if (number > UINT32_MAX)
            return 0; /* nobody sends so many: nonsense */
        number = number * 10 + (uint64_t)(*text.data - '0');
    }
    return number;
}

static uint64_t rejected_json(struct slice answer)
{
    uint64_t rejected = 0;
    const char *end = answer.data + answer.len;
    const char *at = answer.data;
    while ((at = memmem(at, (size_t)(end - at), REJECTED, strlen(REJECTED))) != NULL) {
        const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));
        if (!quote)
            break;
        rejected += member_number((struct slice){quote + 1, (size_t)(end - quote - 1)});
        at = quote;
    }
    return rejected;
}

static bool read_varint(struct slice *bytes, uint64_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < VARINT_BYTES && bytes->len > 0; i++) {
        unsigned char byte = (unsigned char)*bytes->data;
        bytes->data++;
        bytes->len--;
        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return true;
    }
    return false;
}

static uint64_t rejected_protobuf(struct slice answer)
{
    uint64_t len = 0;
    uint64_t rejected = 0;
    if (!skip_byte(&answer, PARTIAL_SUCCESS) || !read_varint(&answer, &len) || len == 0 ||
        !skip_byte(&answer, REJECTED_ITEMS) || !read_varint(&answer, &rejected))
        return 0;
    return rejected > UINT32_MAX ? 0 : rejected;
}

uint64_t partial_rejected(struct slice answer, bool is_protobuf)
{
    if (answer.len == 0)
        return 0;
    return is_protobuf ? rejected_protobuf(answer) : rejected_json(answer);
}
