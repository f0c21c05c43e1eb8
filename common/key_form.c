// SPDX-License-Identifier: MIT
#include "common/key_form.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>

#include "common/sha256.h"

#define SECRET_LEN   32
#define KEY_LINE_MAX 4096
#define CHECK_LEN    6
#define BASE         62
#define KEY_MAX      (sizeof "mcpd_in_" + GRANT_PROJECT_MAX + 1 + SECRET_LEN + 1 + CHECK_LEN)

static const char prefix[] = "mcpd_";
static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const char key_form_help[] =
    "  key new [--scope SCOPE] [--project PROJECT] [--sha256]  print a new key (in, default) for "
    "--ingest-key;\n             --sha256: and its line for the settings file\n"
    "  key sha256   read a key from standard input and print its digest for the settings file\n";

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

static int print_new(const char *scope, const char *project, bool has_line, FILE *out,
                     struct err *err)
{
    struct buf key;
    char hex[SHA256_HEX_SIZE];
    buf_init(&key, KEY_MAX);
    int rc = make(slice_of(scope), slice_of(project), &key, err);
    struct slice text = {key.data, key.len};
    if (rc == 0 && fprintf(out, SLICE_FORMAT "\n", SLICE_ARGS(text)) < 0)
        rc = err_set(err, "cannot print the key");
    sha256_hex(text, hex);
    if (rc == 0 && has_line &&
        fprintf(out, "- {name: %s-%.6s, project: %s, scope: %s, sha256: \"%s\"}\n", project, hex,
                project, scope, hex) < 0)
        rc = err_set(err, "cannot print the line");
    buf_fini(&key);
    return rc;
}

static int make_new(int argc, char **argv, FILE *out, struct err *err)
{
    const char *scope = "in";
    const char *project = GRANT_PROJECT_DEFAULT;
    bool has_line = false;
    enum grant_scope known;
    for (int at = 0; at < argc; at++)
        if (strcmp(argv[at], "--sha256") == 0)
            has_line = true;
        else if (!take_value("--scope", argc, argv, &at, &scope) &&
                 !take_value("--project", argc, argv, &at, &project))
            return err_set(err,
                           "key new: takes --scope SCOPE, --project PROJECT and --sha256, not '%s'",
                           argv[at]);
    struct slice rest = slice_of(project);
    if (!grant_scope_find(slice_of(scope), &known))
        return err_set(err, "--scope: in, rd, sc or ad, not '%s'", scope);
    if (take(&rest, GRANT_PROJECT_CHARACTERS, GRANT_PROJECT_MAX).len == 0 || rest.len > 0)
        return err_set(err, "--project: 1 to %d of a-z, 0-9 and '-', not '%s'", GRANT_PROJECT_MAX,
                       project);
    return print_new(scope, project, has_line, out, err);
}

/* Of a key that exists already; read, so that it stands in no command line. */
static int print_digest(FILE *in, FILE *out, struct err *err)
{
    char line[KEY_LINE_MAX], hex[SHA256_HEX_SIZE];
    struct slice key = {line, 0};
    if (fgets(line, sizeof line, in)) {
        key = slice_of(line);
        while (key.len > 0 && (line[key.len - 1] == '\n' || line[key.len - 1] == '\r'))
            key.len--;
        key = slice_trim(key);
    }
    if (key.len == 0 || key.len >= sizeof line - 2)
        return err_set(err, "key sha256: a key is expected as a line on standard input");
    sha256_hex(key, hex);
    explicit_bzero(line, sizeof line);
    return fprintf(out, "%s\n", hex) < 0 ? err_set(err, "cannot print the digest") : 0;
}

int key_form_tool(int argc, char **argv, FILE *in, FILE *out, struct err *err)
{
    if (argc >= 1 && strcmp(argv[0], "new") == 0)
        return make_new(argc - 1, argv + 1, out, err);
    if (argc == 1 && strcmp(argv[0], "sha256") == 0)
        return print_digest(in, out, err);
    return err_set(err,
                   "key: 'mcpd key new' makes one, 'mcpd key sha256' reads one and digests it");
}
