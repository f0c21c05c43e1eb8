// SPDX-License-Identifier: MIT
#include "store/outcall.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/http_client.h"
#include "common/utf8.h"

#define CONNECT_TIMEOUT_MS 10000
#define KEY_MAX            4096
#define EXCERPT_MAX        80 /* of an answer that is a refusal, in the reason */

struct outcall {
    CURL *easy;
    struct curl_slist *headers;
    struct buf answer;
    bool is_too_long;
    bool is_forbidden;
    char error[CURL_ERROR_SIZE];
};

static size_t take_answer(char *data, size_t size, size_t count, void *arg)
{
    outcall_t *self = arg;
    self->is_too_long = buf_add(&self->answer, data, size * count) == -1;
    return self->is_too_long ? 0 : size * count;
}

outcall_t *outcall_new(void *owner)
{
    outcall_t *self = calloc(1, sizeof *self);
    assert(self);
    self->easy = curl_easy_init();
    assert(self->easy);
    buf_init(&self->answer, OUTCALL_ANSWER_MAX);
    http_client_set_up(self->easy);
    http_client_guard(self->easy, &self->is_forbidden);
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_POST, 1L));
    http_client_must(
        curl_easy_setopt(self->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_ERRORBUFFER, self->error));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_PRIVATE, owner));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_WRITEFUNCTION, take_answer));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_WRITEDATA, self));
    return self;
}

static void forget_headers(outcall_t *self)
{
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_HTTPHEADER, NULL));
    curl_slist_free_all(self->headers);
    self->headers = NULL;
}

void outcall_destroy(outcall_t **self_p)
{
    outcall_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    forget_headers(self);
    curl_easy_cleanup(self->easy);
    buf_fini(&self->answer);
    free(self);
}

CURL *outcall_handle(outcall_t *self)
{
    return self->easy;
}

void *outcall_owner(CURL *handle)
{
    void *owner = NULL;
    http_client_must(curl_easy_getinfo(handle, CURLINFO_PRIVATE, &owner));
    return owner;
}

static void add_header(outcall_t *self, const char *line)
{
    self->headers = curl_slist_append(self->headers, line);
    assert(self->headers);
}

static int add_key(outcall_t *self, const char *key, struct err *err)
{
    char line[KEY_MAX + 32];
    size_t len = strlen(key);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)key[i] <= ' ' || key[i] == 0x7f)
            return err_set(err, "the key holds bytes that no header may have");
    if (len > KEY_MAX)
        return err_set(err, "the key is too long");
    snprintf(line, sizeof line, "Authorization: Bearer %s", key);
    add_header(self, line);
    explicit_bzero(line, sizeof line);
    return 0;
}

int outcall_prepare(outcall_t *self, const struct outcall_target *target, struct slice body,
                    struct err *err)
{
    buf_reset(&self->answer);
    self->is_too_long = false;
    self->is_forbidden = false;
    self->error[0] = '\0';
    forget_headers(self);
    add_header(self, "Content-Type: application/json");
    add_header(self, "Accept: application/json");
    /* Left to itself, libcurl asks for leave to send a large body and waits a second for it. */
    add_header(self, "Expect:");
    if (target->key && add_key(self, target->key, err) == -1)
        return -1;
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_HTTPHEADER, self->headers));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_URL, target->url));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_TIMEOUT_MS, (long)target->timeout_ms));
    http_client_must(curl_easy_setopt(self->easy, CURLOPT_POSTFIELDS, body.data));
    http_client_must(
        curl_easy_setopt(self->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len));
    return 0;
}

/* "status 500: the start of its answer", as far as that is plain text. */
static int fail_with_status(const outcall_t *self, long status, struct err *err)
{
    struct slice text = {self->answer.data, self->answer.len};
    size_t len = 0;
    while (len < text.len && len < EXCERPT_MAX) {
        size_t step = utf8_sequence((struct slice){text.data + len, text.len - len});
        if (step == 0 || (unsigned char)text.data[len] < ' ')
            break;
        len += step;
    }
    return err_set(err, "status %ld%s%.*s", status, len ? ": " : "", (int)len,
                   len ? text.data : "");
}

int outcall_result(outcall_t *self, CURLcode code, struct slice *answer, struct err *err)
{
    long status = 0;
    http_client_must(curl_easy_getinfo(self->easy, CURLINFO_RESPONSE_CODE, &status));
    if (self->is_forbidden)
        return err_set(err, "its address is link-local or a metadata service's");
    if (self->is_too_long)
        return err_set(err, "its answer is longer than %zu bytes", OUTCALL_ANSWER_MAX);
    if (code != CURLE_OK)
        return err_set(err, "%s", self->error[0] ? self->error : curl_easy_strerror(code));
    if (status < 200 || status > 299)
        return fail_with_status(self, status, err);
    *answer = (struct slice){self->answer.data, self->answer.len};
    return 0;
}
