/* SPDX-License-Identifier: Apache-2.0 */
/* hub_url.c - implements hub_url.h. */
#include "pull/hub_url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>

/* ---- URLs ---- */

/* Copies a part of a URL; false if it is absent or too long. */
static bool url_part(CURLU *u, CURLUPart part, unsigned flags, char *out, size_t room)
{
    char *text = NULL;
    if (curl_url_get(u, part, &text, flags) != CURLUE_OK)
        return false;
    const size_t n = strlen(text);
    if (n < room)
        memcpy(out, text, n + 1);
    curl_free(text);
    return n < room;
}

static bool url_has(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    const bool has = curl_url_get(u, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

/* Fills `out` from a parsed URL, or says why it is not allowed. */
static mote_status url_accept(hub_url *out, CURLU *u, mote_error *err)
{
    char scheme[16] = "?";
    if (!url_part(u, CURLUPART_SCHEME, 0, scheme, sizeof scheme) || strcmp(scheme, "https") != 0)
        return err_set(err, MOTE_E_ARG, "the scheme is %s; only https is allowed", scheme);
    if (url_has(u, CURLUPART_USER) || url_has(u, CURLUPART_PASSWORD))
        return err_set(err, MOTE_E_ARG, "the URL contains a user name or password");
    curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
    if (!url_part(u, CURLUPART_HOST, 0, out->host, sizeof out->host) ||
        !url_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, out->port, sizeof out->port) ||
        !url_part(u, CURLUPART_URL, 0, out->text, sizeof out->text))
        return err_set(err, MOTE_E_ARG, "the URL is too long");
    for (char *c = out->host; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    return MOTE_OK;
}

static mote_status url_read(hub_url *out, const char *base, const char *text, mote_error *err)
{
    CURLU *u = curl_url();
    if (u == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a URL");
    /* An unknown scheme must be named, not called malformed. */
    const unsigned flags = CURLU_NON_SUPPORT_SCHEME | CURLU_DISALLOW_USER;
    CURLUcode code = base != NULL ? curl_url_set(u, CURLUPART_URL, base, flags) : CURLUE_OK;
    if (code == CURLUE_OK)
        code = curl_url_set(u, CURLUPART_URL, text, flags);
    const mote_status status =
        code == CURLUE_OK ? url_accept(out, u, err)
        : code == CURLUE_USER_NOT_ALLOWED
            ? err_set(err, MOTE_E_ARG, "the URL contains a user name or password")
            : err_set(err, MOTE_E_ARG, "the URL is malformed");
    curl_url_cleanup(u);
    return status;
}

/* Blanks and control characters; libcurl accepts some of them. */
static bool url_bytes_valid(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= 0x20 || *text == 0x7F)
            return false;
    return true;
}

mote_status hub_url_parse(hub_url *out, const char *text, mote_error *err)
{
    if (!url_bytes_valid(text))
        return err_set(err, MOTE_E_ARG, "the URL is malformed");
    return url_read(out, NULL, text, err);
}

mote_status hub_url_follow(hub_url *out, const hub_url *base, const char *location, mote_error *err)
{
    if (location[0] == '\0')
        return err_set(err, MOTE_E_ARG, "there is not exactly one Location header");
    if (!url_bytes_valid(location))
        return err_set(err, MOTE_E_ARG, "the URL is malformed");
    return url_read(out, base->text, location, err);
}

bool hub_url_same_origin(const hub_url *a, const hub_url *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

/* A host of the Hugging Face hub. */
static bool url_is_hugging_face(const hub_url *url)
{
    static const char *const hosts[] = {"huggingface.co", "hub-ci.huggingface.co", "hf.co"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strcmp(url->host, hosts[i]) == 0 && strcmp(url->port, "443") == 0)
            return true;
    return false;
}

bool hub_url_is_hub(const hub_url *url, const hub_url *endpoint)
{
    return hub_url_same_origin(url, endpoint) || url_is_hugging_face(url);
}

bool hub_url_gets_token(const hub_url *url, const hub_url *endpoint)
{
    return hub_url_same_origin(url, endpoint) ||
           (url_is_hugging_face(url) && url_is_hugging_face(endpoint));
}

/* ---- addresses ---- */

static bool ipv4_private(uint32_t ip)
{
    static const struct {
        uint32_t network;
        int bits;
    } blocks[] = {
        {0x00000000, 8},  /* this network */
        {0x0A000000, 8},  /* private */
        {0x64400000, 10}, /* shared, carrier NAT */
        {0x7F000000, 8},  /* loopback */
        {0xA9FE0000, 16}, /* link-local; metadata services of clouds */
        {0xAC100000, 12}, /* private */
        {0xC0000000, 24}, /* protocol assignments */
        {0xC0A80000, 16}, /* private */
        {0xC6120000, 15}, /* benchmarks */
        {0xE0000000, 4},  /* multicast */
        {0xF0000000, 4},  /* reserved, broadcast */
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if ((ip ^ blocks[i].network) >> (32 - blocks[i].bits) == 0)
            return true;
    return false;
}

static uint32_t ipv4_of_bytes(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool ipv6_private(const unsigned char *b)
{
    static const unsigned char zeros[12], mapped[12] = {[10] = 0xFF, [11] = 0xFF},
                                          nat64[12] = {0x00, 0x64, 0xFF, 0x9B};
    if (memcmp(b, zeros, 12) == 0) /* ::, ::1 and IPv4-compatible ones */
        return true;
    if (memcmp(b, mapped, 12) == 0 || memcmp(b, nat64, 12) == 0)
        return ipv4_private(ipv4_of_bytes(b + 12));
    if (b[0] == 0x20 && b[1] == 0x02) /* 6to4 */
        return ipv4_private(ipv4_of_bytes(b + 2));
    return (b[0] & 0xFE) == 0xFC || b[0] == 0xFF || (b[0] == 0xFE && (b[1] & 0x80) != 0);
}

bool hub_address_private(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return ipv4_private(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof in);
        return ipv6_private(in.sin6_addr.s6_addr);
    }
    return true;
}

bool hub_url_private(const hub_url *url)
{
    unsigned char bytes[16];
    char literal[sizeof url->host];
    const size_t n = strlen(url->host);
    if (strcmp(url->host, "localhost") == 0 ||
        (n > 10 && strcmp(url->host + n - 10, ".localhost") == 0))
        return true;
    if (inet_pton(AF_INET, url->host, bytes) == 1)
        return ipv4_private(ipv4_of_bytes(bytes));
    snprintf(literal, sizeof literal, "%s", url->host[0] == '[' ? url->host + 1 : url->host);
    literal[strcspn(literal, "]%")] = '\0';
    return inet_pton(AF_INET6, literal, bytes) == 1 && ipv6_private(bytes);
}
