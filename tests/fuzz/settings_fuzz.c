// SPDX-License-Identifier: MIT
/* Whatever a settings file holds, it is taken in order or refused with a reason. */
#include <assert.h>
#include <string.h>

#include "store/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {{0}};
    const struct settings *settings =
        settings_parse((struct slice){(const char *)data, size}, &err);
    assert(settings || strncmp(err.text, "line ", 5) == 0);
    for (size_t i = 0; settings && i < settings->scorers_count; i++) {
        const struct settings_scorer *scorer = &settings->scorers[i];
        assert(!scorer->rule != !scorer->judge && scorer->output && scorer->version);
        assert(scorer->sample >= 0 && scorer->sample <= 1 && *scorer->name);
    }
    settings_release(&settings);
    return 0;
}
