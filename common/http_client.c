// SPDX-License-Identifier: MIT
#include "common/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define DNS_CACHE_S 30L

void http_client_must(CURLcode code)
{
    if (code != CURLE_OK)
        abort();
}

void http_client_set_up(CURL *easy)
{
    static const struct {
        CURLoption option;
        long value;
    } rows[] = {
        {CURLOPT_NOSIGNAL, 1},
        {CURLOPT_FOLLOWLOCATION, 0},
        {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
        {CURLOPT_TCP_NODELAY, 1},
        {CURLOPT_TCP_KEEPALIVE, 1},
        {CURLOPT_DNS_CACHE_TIMEOUT, DNS_CACHE_S},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        http_client_must(curl_easy_setopt(easy, rows[i].option, rows[i].value));
    /* A peer is named by its address; what the environment says of proxies is for browsers. */
    http_client_must(curl_easy_setopt(easy, CURLOPT_PROXY, ""));
    http_client_must(curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"));
}

static bool is_forbidden_v4(uint32_t address)
{
    static const struct {
        uint32_t net, mask;
    } nets[] = {
        {0xa9fe0000, 0xffff0000}, /* 169.254.0.0/16, with 169.254.169.254 */
        {0x646464c8, 0xffffffff}, /* 100.100.100.200 */
        {0xc00000c0, 0xffffffff}, /* 192.0.0.192 */
        {0xe0000000, 0xf0000000}, /* multicast */
        {0xffffffff, 0xffffffff},
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        if ((address & nets[i].mask) == nets[i].net)
            return true;
    return false;
}

static uint32_t v4_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool is_forbidden_v6(const struct in6_addr *address)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}; /* 64:ff9b::/96 */
    static const uint8_t six_to_four[2] = {0x20, 0x02};        /* 2002::/16 */
    static const struct in6_addr metadata = {
        {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}}}; /* fd00:ec2::254 */
    const uint8_t *bytes = address->s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(address) || IN6_IS_ADDR_V4COMPAT(address) ||
        memcmp(bytes, nat64, sizeof nat64) == 0)
        return is_forbidden_v4(v4_at(bytes + 12));
    if (memcmp(bytes, six_to_four, sizeof six_to_four) == 0)
        return is_forbidden_v4(v4_at(bytes + 2));
    return IN6_IS_ADDR_LINKLOCAL(address) || IN6_IS_ADDR_MULTICAST(address) ||
           memcmp(address, &metadata, sizeof metadata) == 0;
}

bool http_client_is_forbidden(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    switch (address->sa_family) {
    case AF_INET:
        memcpy(&v4, address, sizeof v4);
        return is_forbidden_v4(ntohl(v4.sin_addr.s_addr));
    case AF_INET6:
        memcpy(&v6, address, sizeof v6);
        return is_forbidden_v6(&v6.sin6_addr);
    default:
        return true;
    }
}

static curl_socket_t open_guarded(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    bool *is_refused = arg;
    (void)purpose;
    if (http_client_is_forbidden(&address->addr)) {
        *is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void http_client_guard(CURL *easy, bool *is_refused)
{
    http_client_must(curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_guarded));
    http_client_must(curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, is_refused));
}
