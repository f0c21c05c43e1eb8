// SPDX-License-Identifier: MIT
/*
 * utf8: foreign text made fit for every store: U+0000 and whatever is not UTF-8 (cut or overlong
 * sequences, surrogates, beyond U+10FFFF) become U+FFFD, one for each byte that cannot be kept.
 * Any thread.
 */
#ifndef MCPD_UTF8_H
#define MCPD_UTF8_H

#include <stdbool.h>

#include "common/arena.h"
#include "common/buf.h"

/* The length of the valid sequence (1 to 4) that text starts with, or 0 where its first byte cannot
 * be kept. text is not empty. */
size_t utf8_sequence(struct slice text);

bool utf8_is_clean(struct slice text);

/* A clean copy in the arena, cut before max_bytes at a character's edge. -1 over the arena's
 * maximum. */
int utf8_clean(struct arena *arena, struct slice text, size_t max_bytes,
               struct slice *clean) MUST_USE;

/* Writes the code point (not a surrogate, at most U+10FFFF) and returns its length, 1 to 4. */
size_t utf8_encode(unsigned code_point, char out[4]);

/* Writes U+FFFD and returns its length. */
#define UTF8_REPLACEMENT_LEN 3
size_t utf8_replacement(char *out);

#endif
