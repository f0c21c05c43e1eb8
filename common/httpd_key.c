// SPDX-License-Identifier: MIT
#include "common/httpd_impl.h"

#include <string.h>
#include <strings.h>

#include "common/key_form.h"

static const char bearer[] = "Bearer ";

struct slice key_of(const struct httpd_headers *headers)
{
    const char *authorization = headers->known[HEADER_AUTHORIZATION];
    if (authorization && strncasecmp(authorization, bearer, strlen(bearer)) == 0)
        return slice_trim(slice_of(authorization + strlen(bearer)));
    return slice_trim(slice_of(headers->known[HEADER_MCPD_KEY]));
}

/* Walks the whole of `given`, around `key` as often as that takes. */
static bool is_equal(struct slice key, struct slice given)
{
    size_t at = 0;
    size_t difference = key.len ^ given.len;
    for (size_t i = 0; i < given.len && key.len > 0; i++) {
        difference |= (size_t)(unsigned char)(key.data[at] ^ given.data[i]);
        at = at + 1 == key.len ? 0 : at + 1;
    }
    return difference == 0;
}

enum refusal key_check(const struct httpd_config *config, struct slice given,
                       struct key_holder *holder)
{
    const struct text_list *keys = &config->options->ingest_key;
    bool is_known = false;
    struct grant hint;
    if (!config->find_key && keys->count == 0)
        return REFUSAL_NONE;
    if (config->find_key && config->find_key(config->arg, given, holder))
        return REFUSAL_NONE; /* it may be that anyone is let in */
    if (key_form_read(given, &hint) == KEY_MISTYPED)
        return REFUSAL_KEY_MISTYPED;
    if (config->find_key)
        return REFUSAL_KEY;
    for (size_t i = 0; i < keys->count; i++)
        is_known |= is_equal(grant_parse(keys->items[i]).secret, given);
    return is_known && given.len > 0 ? REFUSAL_NONE : REFUSAL_KEY;
}
