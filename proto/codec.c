// SPDX-License-Identifier: MIT
#include "proto/codec.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

int codec_hex_decode(struct slice text, uint8_t *out, size_t len)
{
    if (text.len != 2 * len)
        return -1;
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text.data[2 * i]);
        int low = hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return -1;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

void codec_hex_encode(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

size_t codec_base64_size(size_t len)
{
    return (len + 2) / 3 * 4;
}

size_t codec_base64_encode(struct slice bytes, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)bytes.data;
    char *start = out;
    for (size_t at = 0; at < bytes.len; at += 3) {
        size_t left = bytes.len - at;
        unsigned group = (unsigned)in[at] << 16;
        if (left > 1)
            group |= (unsigned)in[at + 1] << 8;
        if (left > 2)
            group |= in[at + 2];
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[group & 63] : '=';
    }
    return (size_t)(out - start);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

long codec_base64_decode(struct slice text, char *out)
{
    size_t padding = 0;
    while (padding < 2 && text.len > 0 && text.data[text.len - 1] == '=') {
        text.len--;
        padding++;
    }
    if (text.len % 4 == 1 || (padding > 0 && (text.len + padding) % 4 != 0))
        return -1;
    unsigned group = 0;
    long len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_digit(text.data[i]);
        if (digit < 0)
            return -1;
        group = group << 6 | (unsigned)digit;
        if (i % 4 != 0)
            out[len++] = (char)(group >> (6 - 2 * (i % 4)) & 0xff);
    }
    return len;
}
