// SPDX-License-Identifier: MIT
#include "common/key_form.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>

#define SECRET_LEN 32
#define CHECK_LEN  6
#define BASE       62
#define KEY_MAX    (sizeof "mcpd_in_" + GRANT_PROJECT_MAX + 1 + SECRET_LEN + 1 + CHECK_LEN)

static const char prefix[] = "mcpd_";
static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const char key_form_help[] =
    "  key new [--scope SCOPE] [--project PROJECT]  print a new key (in, default) for "
    "--ingest-key\n";

/* At most `most` of the allowed characters that rest starts with, taken off it. */
static struct slice take(struct slice *rest, const char *allowed, size_t most)
{
    struct slice taken = {rest->data, 0};
    while (taken.len < rest->len && taken.len < most && rest->data[taken.len] &&
           strchr(allowed, rest->data[taken.len]))
        taken.len++;
    *rest = (struct slice){rest->data + taken.len, rest->len - taken.len};
    return taken;
}

static bool take_mark(struct slice *rest)
{
    return take(rest, "_", 1).len == 1;
}

static void write_check(struct slice text, char out[CHECK_LEN])
{
    uint32_t sum = (uint32_t)crc32(0, (const Bytef *)text.data, (uInt)text.len);
    for (size_t at = CHECK_LEN; at-- > 0; sum /= BASE)
        out[at] = digits[sum % BASE];
}

enum key_verdict key_form_read(struct slice key, struct grant *grant)
{
    size_t head_len = strlen(prefix);
    if (key.len <= head_len || key.len > KEY_MAX || memcmp(key.data, prefix, head_len) != 0)
        return KEY_OTHER;
    struct slice rest = {key.data + head_len, key.len - head_len};
    struct grant found = {.secret = key};
    struct slice scope = take(&rest, "adcinrs", 2);
    if (!grant_scope_find(scope, &found.scope) || !take_mark(&rest))
        return KEY_OTHER;
    found.project = take(&rest, GRANT_PROJECT_CHARACTERS, GRANT_PROJECT_MAX);
    if (found.project.len == 0 || !take_mark(&rest) ||
        take(&rest, digits, SECRET_LEN).len != SECRET_LEN)
        return KEY_OTHER;
    struct slice checked = {key.data, (size_t)(rest.data - key.data)};
    if (!take_mark(&rest) || rest.len != CHECK_LEN ||
        take(&rest, digits, CHECK_LEN).len != CHECK_LEN)
        return KEY_OTHER;
    char check[CHECK_LEN];
    write_check(checked, check);
    if (memcmp(key.data + checked.len + 1, check, CHECK_LEN) != 0)
        return KEY_MISTYPED;
    *grant = found;
    return KEY_GOOD;
}

/* Bytes from 248 on would make some digits likelier than others. */
static int add_secret(struct buf *out, struct err *err)
{
    for (size_t made = 0; made < SECRET_LEN;) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) != 1)
            return err_set(err, "the system gives no random bytes");
        if (byte >= UINT8_MAX / BASE * BASE)
            continue;
        if (buf_add(out, &digits[byte % BASE], 1) == -1)
            return err_set(err, "the key is too long");
        made++;
    }
    return 0;
}

static int make(struct slice scope, struct slice project, struct buf *out, struct err *err)
{
    char check[CHECK_LEN];
    if (buf_printf(out, "%s" SLICE_FORMAT "_" SLICE_FORMAT "_", prefix, SLICE_ARGS(scope),
                   SLICE_ARGS(project)) == -1)
        return err_set(err, "the key is too long");
    if (add_secret(out, err) == -1)
        return -1;
    write_check((struct slice){out->data, out->len}, check);
    if (buf_add(out, "_", 1) == -1 || buf_add(out, check, sizeof check) == -1)
        return err_set(err, "the key is too long");
    return 0;
}

/* Takes `--name VALUE` or `--name=VALUE` at *at, which moves on; false for another argument. */
static bool take_value(const char *name, int argc, char **argv, int *at, const char **value)
{
    size_t len = strlen(name);
    const char *argument = argv[*at];
    if (strncmp(argument, name, len) != 0)
        return false;
    if (argument[len] == '=')
        *value = argument + len + 1;
    else if (argument[len] == '\0' && *at + 1 < argc)
        *value = argv[++*at];
    else
        return false;
    return true;
}

int key_form_tool(int argc, char **argv, FILE *out, struct err *err)
{
    const char *scope = "in";
    const char *project = GRANT_PROJECT_DEFAULT;
    enum grant_scope known;
    if (argc < 1 || strcmp(argv[0], "new") != 0)
        return err_set(err, "key: 'mcpd key new' makes one");
    for (int at = 1; at < argc; at++)
        if (!take_value("--scope", argc, argv, &at, &scope) &&
            !take_value("--project", argc, argv, &at, &project))
            return err_set(err, "key new: takes --scope SCOPE and --project PROJECT, not '%s'",
                           argv[at]);
    struct slice rest = slice_of(project);
    if (!grant_scope_find(slice_of(scope), &known))
        return err_set(err, "--scope: in, rd, sc or ad, not '%s'", scope);
    if (take(&rest, GRANT_PROJECT_CHARACTERS, GRANT_PROJECT_MAX).len == 0 || rest.len > 0)
        return err_set(err, "--project: 1 to %d of a-z, 0-9 and '-', not '%s'", GRANT_PROJECT_MAX,
                       project);
    struct buf key;
    buf_init(&key, KEY_MAX);
    int rc = make(slice_of(scope), slice_of(project), &key, err);
    if (rc == 0 && fprintf(out, SLICE_FORMAT "\n", (int)key.len, key.data) < 0)
        rc = err_set(err, "cannot print the key");
    buf_fini(&key);
    return rc;
}
