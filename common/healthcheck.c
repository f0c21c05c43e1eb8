// SPDX-License-Identifier: MIT
#include "common/healthcheck.h"

#include <curl/curl.h>

#define TIMEOUT_MS 3000L

static size_t drop_body(char *data, size_t size, size_t count, void *arg)
{
    (void)data;
    (void)arg;
    return size * count;
}

int healthcheck_run(const struct options *options, struct err *err)
{
    const struct text_list *list =
        options->admin_listen.count > 0 ? &options->admin_listen : &options->listen;
    if (list->count == 0)
        return err_set(err, "healthcheck: neither --admin-listen nor --listen is given");
    char url[256];
    snprintf(url, sizeof url, "http://%.200s/healthz", list->items[0]);
    CURL *curl = curl_easy_init();
    if (!curl)
        return err_set(err, "healthcheck: cannot start the HTTP client");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* next door, whatever the environment says */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
    CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        return err_set(err, "healthcheck: %s: %s", url, curl_easy_strerror(code));
    if (status != 200)
        return err_set(err, "healthcheck: %s answered %ld", url, status);
    return 0;
}
