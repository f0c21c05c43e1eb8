// SPDX-License-Identifier: MIT
/*
 * The text is cut at blanks; the first word is the URL, each further one an option of option_rows.
 * libcurl's URL parser decides what a URL is, as libcurl will use it later.
 */
#include "courier/upstream_spec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "common/buf.h"
#include "common/options.h"

#define BLANKS             " \t"
#define URL_MAX_BYTES      2048
#define TIMEOUT_STANDARD   30000 /* ms */
#define CONNECT_STANDARD   5000  /* ms */
#define TIMEOUT_MIN_MS     100
#define TIMEOUT_MAX_MS     3600000
#define NAME_MAX_LEN       128
#define PROBE_PATH_MAX_LEN 1024

static int set_name(struct upstream_spec *self, struct slice value, struct err *err)
{
    if (value.len == 0 || value.len > NAME_MAX_LEN)
        return err_set(err, "name= takes 1 to %d characters", NAME_MAX_LEN);
    free(self->name);
    self->name = slice_dup(value);
    return 0;
}

static int set_ca_file(struct upstream_spec *self, struct slice value, struct err *err)
{
    free(self->ca_file);
    self->ca_file = slice_dup(value);
    if (access(self->ca_file, R_OK) == -1)
        return err_set(err, "ca-file=%s cannot be read", self->ca_file);
    return 0;
}

static int parse_timeout(uint64_t *out_ms, const char *option, struct slice value, struct err *err)
{
    char *text = slice_dup(value);
    int rc = options_parse_ms(text, out_ms);
    free(text);
    if (rc == -1 || *out_ms < TIMEOUT_MIN_MS || *out_ms > TIMEOUT_MAX_MS)
        return err_set(err, "%s=" SLICE_FORMAT " is not a time from 100ms to 1h", option,
                       SLICE_ARGS(value));
    return 0;
}

static int set_timeout(struct upstream_spec *self, struct slice value, struct err *err)
{
    return parse_timeout(&self->timeout_ms, "timeout", value, err);
}

static int set_connect_timeout(struct upstream_spec *self, struct slice value, struct err *err)
{
    return parse_timeout(&self->connect_timeout_ms, "connect-timeout", value, err);
}

static bool is_path(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] <= ' ' || value.data[i] >= 0x7f || value.data[i] == '#')
            return false;
    }
    return value.len > 0 && value.len <= PROBE_PATH_MAX_LEN && value.data[0] == '/';
}

static int set_probe(struct upstream_spec *self, struct slice value, struct err *err)
{
    free(self->probe_path);
    self->probe_path = NULL;
    if (slice_equals(value, "off"))
        return 0;
    if (!is_path(value))
        return err_set(err, "probe= takes a path that starts with '/', or off");
    self->probe_path = slice_dup(value);
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct upstream_spec *self, struct slice value, struct err *err);
} option_rows[] = {
    {"name", set_name},       {"ca-file", set_ca_file},
    {"timeout", set_timeout}, {"connect-timeout", set_connect_timeout},
    {"probe", set_probe},
};

static int set_option(struct upstream_spec *self, struct slice word, struct err *err)
{
    const char *equals = memchr(word.data, '=', word.len);
    struct slice name = {word.data, equals ? (size_t)(equals - word.data) : word.len};
    for (size_t i = 0; i < sizeof option_rows / sizeof option_rows[0]; i++) {
        if (!slice_equals(name, option_rows[i].name))
            continue;
        if (!equals)
            return err_set(err, "%s needs a value", option_rows[i].name);
        struct slice value = {equals + 1, word.len - name.len - 1};
        return option_rows[i].set(self, value, err);
    }
    return err_set(err,
                   "unknown option \"" SLICE_FORMAT
                   "\"; there are name, ca-file, timeout, connect-timeout and probe",
                   SLICE_ARGS(name));
}

/* The part, or null; the caller frees it with curl_free. */
static char *url_part(CURLU *url, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return curl_url_get(url, part, &text, flags) == CURLUE_OK ? text : NULL;
}

static int check_url(CURLU *url, struct err *err)
{
    static const struct {
        CURLUPart part;
        const char *refusal;
    } refused[] = {
        {CURLUPART_USER, "a URL takes no user or password; use --upstream-key"},
        {CURLUPART_PASSWORD, "a URL takes no user or password; use --upstream-key"},
        {CURLUPART_QUERY, "a URL takes no query"},
        {CURLUPART_FRAGMENT, "a URL takes no fragment"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char *text = url_part(url, refused[i].part, 0);
        curl_free(text);
        if (text)
            return err_set(err, "%s", refused[i].refusal);
    }
    return 0;
}

/* curl_url_get gives a malloc'd text of libcurl's; ours is freed with free. */
static void split_url(struct upstream_spec *self, CURLU *url)
{
    char *path = url_part(url, CURLUPART_PATH, 0);
    size_t len = path ? strlen(path) : 0;
    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    self->prefix = slice_dup((struct slice){path, len});
    curl_free(path);
    if (curl_url_set(url, CURLUPART_PATH, "/", 0) != CURLUE_OK)
        abort(); /* only without memory */
    char *origin = url_part(url, CURLUPART_URL, CURLU_NO_DEFAULT_PORT);
    self->origin = slice_dup(slice_of(origin));
    for (char *c = self->origin; *c; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    }
    curl_free(origin);
}

static int set_url(struct upstream_spec *self, struct slice word, struct err *err)
{
    if (word.len > URL_MAX_BYTES)
        return err_set(err, "a URL takes at most %d bytes", URL_MAX_BYTES);
    int rc = -1;
    char *text = slice_dup(word);
    CURLU *url = curl_url();
    char *scheme = NULL;
    CURLUcode code = curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS);
    if (code != CURLUE_OK) {
        err_set(err, "not an http:// or https:// URL: %s", curl_url_strerror(code));
        goto out;
    }
    scheme = url_part(url, CURLUPART_SCHEME, 0);
    if (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)) {
        err_set(err, "a URL starts with http:// or https://");
        goto out;
    }
    if (check_url(url, err) == -1)
        goto out;
    split_url(self, url);
    rc = 0;
out:
    curl_free(scheme);
    curl_url_cleanup(url);
    free(text);
    return rc;
}

static struct slice next_word(const char **text)
{
    *text += strspn(*text, BLANKS);
    struct slice word = {*text, strcspn(*text, BLANKS)};
    *text += word.len;
    return word;
}

/* The probe goes through the same prefix as everything else. */
static void prefix_probe(struct upstream_spec *self)
{
    if (!self->probe_path)
        return;
    struct buf path;
    buf_init(&path, URL_MAX_BYTES + PROBE_PATH_MAX_LEN + 1);
    if (buf_printf(&path, "%s%s", self->prefix, self->probe_path) == -1)
        abort(); /* both parts were checked */
    free(self->probe_path);
    self->probe_path = slice_dup((struct slice){path.data, path.len});
    buf_fini(&path);
}

int upstream_spec_parse(struct upstream_spec *self, const char *text, struct err *err)
{
    *self = (struct upstream_spec){
        .timeout_ms = TIMEOUT_STANDARD,
        .connect_timeout_ms = CONNECT_STANDARD,
        .probe_path = slice_dup(slice_of("/readyz")),
    };
    struct err reason = {{0}};
    struct slice url = next_word(&text);
    struct slice word;
    int rc = set_url(self, url, &reason);
    while (rc == 0 && (word = next_word(&text)).len > 0) {
        rc = set_option(self, word, &reason);
    }
    if (rc == -1) {
        /* What stands before an @ may be a password. */
        const char *at = memrchr(url.data, '@', url.len);
        int len = (int)(at ? url.data + url.len - at : (ptrdiff_t)url.len);
        err_set(err, "--upstream %s%.*s: %s", at ? "***" : "", len < 80 ? len : 80,
                at ? at : url.data, reason.text);
        upstream_spec_fini(self);
        return -1;
    }
    if (!self->name)
        self->name = slice_dup(url);
    prefix_probe(self);
    return 0;
}

void upstream_spec_fini(struct upstream_spec *self)
{
    free(self->name);
    free(self->origin);
    free(self->prefix);
    free(self->probe_path);
    free(self->ca_file);
    *self = (struct upstream_spec){0};
}
