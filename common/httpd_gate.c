// SPDX-License-Identifier: MIT
/*
 * The framing gate. The library's parser is lenient: it skips bytes before the request line, stops
 * at a line it does not understand and so hides all headers behind it, takes a bare LF for a line
 * end, and reads "5, 5" as 5. Each is a way to make a proxy in front and this process disagree on
 * where a request ends, which is how one sender's bytes become another sender's request.
 *
 * The parser writes NULs over the delimiters it consumed and leaves everything else in place, in
 * one buffer, in order. So what it skipped or hid can be seen from the pointers it returns: the
 * next word must start right behind the last one's delimiter. That is what is checked here, and the
 * connection ends with the first request that fails.
 */
#include "common/httpd_impl.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NO_ADDRESS_CHECK  __attribute__((no_sanitize_address))
#define MAX_LENGTH_DIGITS 18

static const struct {
    const char *name;
    enum known_header id;
    bool is_single;
} known_headers[] = {
    {"Host", HEADER_HOST, true},
    {"Content-Length", HEADER_CONTENT_LENGTH, true},
    {"Transfer-Encoding", HEADER_TRANSFER_ENCODING, true},
    {"Expect", HEADER_EXPECT, true},
    {"Authorization", HEADER_AUTHORIZATION, true},
    {"x-mcpd-key", HEADER_MCPD_KEY, true},
    {"Idempotency-Key", HEADER_IDEMPOTENCY_KEY, true},
    {"Content-Type", HEADER_CONTENT_TYPE, true},
    {"Content-Encoding", HEADER_CONTENT_ENCODING, true},
    {"Connection", HEADER_CONNECTION, false},
};

/* White space before the method is skipped silently, and the head's length is then counted from the
 * wrong place. Before the first byte of the library's buffer lies the allocator's size field, whose
 * high byte is never white space; hence no address check. */
NO_ADDRESS_CHECK
static bool has_leading_bytes(const struct mg_request_info *info)
{
    return isspace((unsigned char)info->request_method[-1]);
}

/* Exactly one space between the three words. The library has cut the target at its '?'. */
static bool is_request_line_strict(const struct mg_request_info *info)
{
    const char *method_end = info->request_method + strlen(info->request_method);
    const char *target_tail = info->query_string ? info->query_string : info->request_uri;
    const char *target_end = target_tail + strlen(target_tail);
    const char *version = info->http_version - strlen("HTTP/");
    return method_end + 1 == info->request_uri && target_end + 1 == version &&
           info->local_uri_raw[0] == '/';
}

/* Behind the version: CR LF and then the first header, or the end of the head. (Up to four bytes
 * are looked at, which a head that ends in bare LFs may not have; the buffer is larger than its
 * limit.)
 */
NO_ADDRESS_CHECK
static bool is_version_end_strict(const struct mg_request_info *info)
{
    const char *end = info->http_version + strlen(info->http_version);
    if (end[0] || end[1])
        return false;
    if (info->num_headers == 0)
        return !end[2] && !end[3];
    return info->http_headers[0].name == end + 2;
}

static bool is_token(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    if (!*name)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr(others, *name))
            return false;
    return true;
}

NO_ADDRESS_CHECK
static enum refusal check_header_line(const struct mg_header *header, bool is_last,
                                      bool is_table_full)
{
    const char *name_end = header->name + strlen(header->name);
    const char *end = header->value + strlen(header->value);
    if (!is_token(header->name))
        return REFUSAL_HEADER_SYNTAX;
    if (header->value > name_end + 1 && !name_end[1])
        return REFUSAL_HEADER_SYNTAX; /* blanks before the colon */
    if (end[0] || end[1])
        return REFUSAL_HEADER_SYNTAX;          /* ended by a bare LF */
    if (is_last && (end[2] != '\r' || end[3])) /* the parser stopped before the end of the head */
        return is_table_full ? REFUSAL_TOO_MANY_HEADERS : REFUSAL_HEADER_SYNTAX;
    return REFUSAL_NONE;
}

static enum refusal note_known(struct httpd_headers *headers, const struct mg_header *header)
{
    for (size_t i = 0; i < sizeof known_headers / sizeof known_headers[0]; i++) {
        if (strcasecmp(header->name, known_headers[i].name) != 0)
            continue;
        const char **value = &headers->known[known_headers[i].id];
        if (*value && known_headers[i].is_single)
            return REFUSAL_REPEATED_HEADER;
        if (*value)
            headers->wants_close = true; /* two Connection headers: too odd to stay */
        *value = header->value;
        return REFUSAL_NONE;
    }
    return REFUSAL_NONE;
}

static enum refusal walk_headers(const struct mg_request_info *info, struct httpd_headers *headers)
{
    for (int i = 0; i < info->num_headers; i++) {
        const struct mg_header *header = &info->http_headers[i];
        bool is_last = i + 1 == info->num_headers;
        enum refusal refusal =
            check_header_line(header, is_last, info->num_headers == MG_MAX_HEADERS);
        if (refusal == REFUSAL_NONE)
            refusal = note_known(headers, header);
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
    return REFUSAL_NONE;
}

static enum refusal check_length(struct httpd_headers *headers)
{
    const char *text = headers->known[HEADER_CONTENT_LENGTH];
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > MAX_LENGTH_DIGITS || text[digits])
        return REFUSAL_CONTENT_LENGTH;
    for (; *text; text++)
        headers->content_length = headers->content_length * 10 + (uint64_t)(*text - '0');
    return REFUSAL_NONE;
}

static enum refusal check_body_framing(const struct mg_request_info *info, bool is_http11,
                                       struct httpd_headers *headers)
{
    const char *coding = headers->known[HEADER_TRANSFER_ENCODING];
    const char *length = headers->known[HEADER_CONTENT_LENGTH];
    if (coding && (strcasecmp(coding, "chunked") != 0 || !is_http11 || length))
        return REFUSAL_TRANSFER_ENCODING;
    headers->is_chunked = coding != NULL;
    if (length) {
        enum refusal refusal = check_length(headers);
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
    bool takes_body =
        strcmp(info->request_method, "POST") == 0 || strcmp(info->request_method, "PUT") == 0;
    if (takes_body && !coding && !length)
        return REFUSAL_NO_LENGTH;
    if (!takes_body && (coding || headers->content_length > 0))
        return REFUSAL_UNWANTED_BODY;
    return REFUSAL_NONE;
}

static void note_wishes(bool is_http11, struct httpd_headers *headers)
{
    const char *connection = headers->known[HEADER_CONNECTION];
    headers->wants_continue = is_http11 && headers->known[HEADER_EXPECT];
    if (!connection)
        headers->wants_close |= !is_http11;
    else if (!strcasestr(connection, "keep-alive") || strcasestr(connection, "close"))
        headers->wants_close = true;
    if (headers->is_chunked)
        headers->wants_close =
            true; /* the library's chunk reader is too lenient to go on after it */
}

enum refusal gate_check(const struct mg_request_info *info, struct httpd_headers *headers)
{
    *headers = (struct httpd_headers){.info = info};
    bool is_http11 = strcmp(info->http_version, "1.1") == 0;
    if (has_leading_bytes(info))
        return REFUSAL_LEADING_BYTES;
    if (!is_request_line_strict(info))
        return REFUSAL_REQUEST_LINE;
    if (!is_version_end_strict(info))
        return REFUSAL_HEADER_SYNTAX;
    enum refusal refusal = walk_headers(info, headers);
    if (refusal != REFUSAL_NONE)
        return refusal;
    if (is_http11 && !headers->known[HEADER_HOST])
        return REFUSAL_NO_HOST;
    refusal = check_body_framing(info, is_http11, headers);
    if (refusal != REFUSAL_NONE)
        return refusal;
    const char *expect = headers->known[HEADER_EXPECT];
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return REFUSAL_EXPECTATION;
    note_wishes(is_http11, headers);
    return REFUSAL_NONE;
}
