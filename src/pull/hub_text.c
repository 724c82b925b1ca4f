/* SPDX-License-Identifier: Apache-2.0 */
/* hub_text.c - implements hub_text.h. */
#include "pull/hub_text.h"

#include "store/known_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- names ---- */

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool hub_blob_name_valid(str hash)
{
    return hub_hash_valid(hash, 40) || hub_hash_valid(hash, 64);
}

bool hub_token_valid(const char *token)
{
    const size_t n = strlen(token);
    if (n == 0 || n > 1000)
        return false;
    for (size_t i = 0; i < n; i++)
        if (token[i] <= 0x20 || token[i] >= 0x7F)
            return false;
    return true;
}

void hub_put_encoded(strbuf *out, const char *path, bool slashes)
{
    for (; *path != '\0'; path++) {
        char code[4];
        if (is_alphanumeric(*path) || strchr("-._~", *path) != NULL || (slashes && *path == '/')) {
            strbuf_byte(out, *path);
            continue;
        }
        snprintf(code, sizeof code, "%%%02X", (unsigned char)*path);
        strbuf_text(out, code);
    }
}

/* ---- header fields ---- */

static const char *const header_names[HUB_HEADERS] = {
    [HUB_LOCATION] = "location",
    [HUB_LINK] = "link",
    [HUB_ETAG] = "etag",
    [HUB_LINKED_ETAG] = "x-linked-etag",
    [HUB_LINKED_SIZE] = "x-linked-size",
    [HUB_REPO_COMMIT] = "x-repo-commit",
    [HUB_CONTENT_LENGTH] = "content-length",
    [HUB_CONTENT_RANGE] = "content-range",
    [HUB_CONTENT_ENCODING] = "content-encoding",
    [HUB_ERROR_CODE] = "x-error-code",
    [HUB_ERROR_MESSAGE] = "x-error-message",
    [HUB_RETRY_AFTER] = "retry-after",
    [HUB_RATE_LIMIT] = "ratelimit",
    [HUB_WARNING] = "x-hf-warning",
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static str trimmed(str text)
{
    while (text.n > 0 && is_blank(text.p[0]))
        text.p++, text.n--;
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    return text;
}

/* Where the value of a field is stored. */
static char *header_slot(hub_headers *h, hub_header which, size_t *room)
{
    *room = which < HUB_ETAG ? HUB_URL_BYTES : HUB_HEADER_BYTES;
    return which < HUB_ETAG ? h->url[which] : h->text[which - HUB_ETAG];
}

static void header_store(hub_headers *h, hub_header which, str value)
{
    size_t room;
    char *slot = header_slot(h, which, &room);
    h->count[which]++;
    if (value.n >= room || memchr(value.p, '\0', value.n) != NULL) {
        h->too_long = true;
        value.n = 0;
    }
    memcpy(slot, value.p, value.n);
    slot[value.n] = '\0';
}

bool hub_headers_add(hub_headers *h, str line)
{
    const size_t bytes = h->bytes + line.n;
    if (bytes > HUB_HEADERS_MAX)
        return false;
    if (line.n >= 5 && memcmp(line.p, "HTTP/", 5) == 0) {
        memset(h->count, 0, sizeof h->count);
        h->too_long = false;
    }
    h->bytes = bytes;
    const char *colon = memchr(line.p, ':', line.n);
    if (colon == NULL)
        return true;
    const size_t n_name = (size_t)(colon - line.p);
    for (int i = 0; i < HUB_HEADERS; i++)
        if (strlen(header_names[i]) == n_name && strncasecmp(header_names[i], line.p, n_name) == 0)
            header_store(h, (hub_header)i, trimmed((str){colon + 1, line.n - n_name - 1}));
    return true;
}

const char *hub_headers_get(const hub_headers *h, hub_header which)
{
    if (h->count[which] != 1)
        return "";
    return which < HUB_ETAG ? h->url[which] : h->text[which - HUB_ETAG];
}

bool hub_number(const char *text, uint64_t *out)
{
    uint64_t n = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
            return false;
    }
    *out = n;
    return true;
}

bool hub_etag_hash(const char *etag, char hash[HUB_HASH_BYTES])
{
    str text = str_of(etag);
    if (text.n >= 2 && memcmp(text.p, "W/", 2) == 0)
        text.p += 2, text.n -= 2;
    if (text.n >= 2 && text.p[0] == '"' && text.p[text.n - 1] == '"')
        text.p++, text.n -= 2;
    if (!hub_blob_name_valid(text))
        return false;
    memcpy(hash, text.p, text.n);
    hash[text.n] = '\0';
    return true;
}

/* Reads digits up to `stop` and advances *text behind it. */
static bool number_until(const char **text, char stop, uint64_t *out)
{
    char digits[24];
    const char *end = stop != '\0' ? strchr(*text, stop) : *text + strlen(*text);
    if (end == NULL || (size_t)(end - *text) >= sizeof digits)
        return false;
    memcpy(digits, *text, (size_t)(end - *text));
    digits[end - *text] = '\0';
    *text = stop != '\0' ? end + 1 : end;
    return hub_number(digits, out);
}

bool hub_content_range_read(const char *text, hub_content_range *out)
{
    if (strncasecmp(text, "bytes ", 6) != 0)
        return false;
    text += 6;
    return number_until(&text, '-', &out->first) && number_until(&text, '/', &out->last) &&
           number_until(&text, '\0', &out->total) && out->first <= out->last &&
           out->last < out->total;
}

bool hub_next_link(const char *link, char *out, size_t room)
{
    for (const char *open = strchr(link, '<'); open != NULL; open = strchr(open + 1, '<')) {
        const char *close = strchr(open, '>');
        if (close == NULL)
            return false;
        const char *comma = strchr(close, '<'); /* where the next link begins */
        const char *next = strstr(close, "rel=\"next\"");
        if (next == NULL || (comma != NULL && next > comma))
            continue;
        const size_t n = (size_t)(close - open - 1);
        if (n == 0 || n >= room)
            return false;
        memcpy(out, open + 1, n);
        out[n] = '\0';
        return true;
    }
    return false;
}

/* The number after `name` in "\"api\";r=0;t=55"; -1: absent. */
static double limit_parameter(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return -1;
    at += strlen(name);
    char *end;
    const double value = *at >= '0' && *at <= '9' ? strtod(at, &end) : -1;
    return value <= 1e9 ? value : 1e9;
}

double hub_wait_seconds(const hub_headers *h)
{
    const char *limit = hub_headers_get(h, HUB_RATE_LIMIT);
    const double left = limit_parameter(limit, ";r="), until = limit_parameter(limit, ";t=");
    uint64_t seconds;
    if (left == 0 && until >= 0)
        return until + 1;
    if (hub_number(hub_headers_get(h, HUB_RETRY_AFTER), &seconds))
        return seconds < 1000000 ? (double)seconds : 1e6;
    return -1;
}
