// SPDX-License-Identifier: MIT
/* codec: hex and base64, as ids and bytes travel in JSON. Any thread. */
#ifndef MCPD_CODEC_H
#define MCPD_CODEC_H

#include <stdint.h>

#include "common/buf.h"

/* Exactly 2 * len digits in any case; -1 otherwise (out is then undefined). */
int codec_hex_decode(struct slice text, uint8_t *out, size_t len) MUST_USE;
/* Lower case, 2 * len characters and no terminating NUL. */
void codec_hex_encode(const uint8_t *bytes, size_t len, char *out);

/* What codec_base64_encode writes for len bytes. */
size_t codec_base64_size(size_t len);
/* Padded; returns the length written. */
size_t codec_base64_encode(struct slice bytes, char *out);
/* Takes the standard and the URL alphabet, with and without padding. out has room for text.len
 * bytes. Returns the length, or -1 when text is no base64. */
long codec_base64_decode(struct slice text, char *out) MUST_USE;

#endif
