/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web_page.c - see web_page.h. Event loop thread.
 *
 * The files are public and the same for every client; all data of the page comes from the other
 * routes, with the key of its user. The policy header allows scripts, styles and requests of this
 * server only, no inline script, no frame, and text becomes HTML in the sanitizer alone
 * (docs/web.md).
 */
#include "server/api/native/web_page.h"

#include "server/api/native/native.h"

#include <strings.h>

#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "        \
    "media-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "             \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; "                                 \
    "trusted-types dompurify mote-worker"

/* ---- Accept headers ---- */

static bool text_is(str text, const char *word)
{
    return text.n == strlen(word) && strncasecmp(text.p, word, text.n) == 0;
}

static str text_trim(str s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (str){s.p + 1, s.n - 1};
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* Takes the part of *rest before the separator. */
static str text_take(str *rest, char separator)
{
    const char *end = rest->n > 0 ? memchr(rest->p, separator, rest->n) : NULL;
    const str part = {rest->p, end != NULL ? (size_t)(end - rest->p) : rest->n};
    const size_t used = part.n + (end != NULL);
    *rest = (str){rest->p + used, rest->n - used};
    return text_trim(part);
}

/* Is every digit of a weight such as q=0.0 zero? */
static bool weight_is_zero(str parameter)
{
    if (parameter.n < 3 || strncasecmp(parameter.p, "q=", 2) != 0)
        return false;
    for (size_t i = 2; i < parameter.n; i++)
        if (parameter.p[i] != '0' && parameter.p[i] != '.')
            return false;
    return true;
}

bool accept_lists(str header, const char *wanted)
{
    while (header.n > 0) {
        str range = text_take(&header, ',');
        bool listed = text_is(text_take(&range, ';'), wanted);
        while (range.n > 0)
            if (weight_is_zero(text_take(&range, ';')))
                listed = false;
        if (listed)
            return true;
    }
    return false;
}

/* A request without the header accepts every encoding (RFC 9110, 12.5.3). */
static bool accepts_gzip(const exchange *x)
{
    const str header = exchange_find_header(x, "accept-encoding");
    return header.p == NULL || accept_lists(header, "gzip") || accept_lists(header, "*");
}

/* ---- files ---- */

static const web_file *web_find(str path)
{
    for (size_t i = 0; i < web_n_files; i++)
        if (str_is(path, web_files[i].path))
            return &web_files[i];
    return NULL;
}

/* Does If-None-Match list the tag? */
static bool client_has(const exchange *x, const char *etag)
{
    str list = exchange_header(x, "if-none-match");
    while (list.n > 0) {
        str tag = text_take(&list, ',');
        if (tag.n > 2 && memcmp(tag.p, "W/", 2) == 0)
            tag = (str){tag.p + 2, tag.n - 2};
        if (str_is(tag, etag) || str_is(tag, "*"))
            return true;
    }
    return false;
}

static void web_add_headers(exchange *x, const web_file *file)
{
    exchange_add_header(x, "ETag", file->etag);
    exchange_add_header(x, "Cache-Control", "no-cache");
    exchange_vary_by_encoding(x);
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "X-Frame-Options", "DENY");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    exchange_add_header(x, "Cross-Origin-Resource-Policy", "same-origin");
    exchange_add_header(x, "Permissions-Policy", "camera=(self), geolocation=(), microphone=()");
    exchange_add_header(x, "Content-Security-Policy", POLICY);
}

void web_page_reply(exchange *x, str path)
{
    const server_context *s = exchange_context(x);
    const web_file *file = s->web ? web_find(path) : NULL;
    http_error error;
    if (file == NULL) {
        http_error_set(&error, HTTP_E_NOT_FOUND, "not_found", "unknown path");
        exchange_fail(x, &error);
        return;
    }
    if (!accepts_gzip(x)) {
        http_error_set(&error, HTTP_E_ACCEPT, "not_acceptable",
                       "this file is stored compressed; send Accept-Encoding: gzip");
        exchange_fail(x, &error);
        return;
    }
    web_add_headers(x, file);
    if (client_has(x, file->etag)) {
        exchange_reply(x, 304, NULL, (str){"", 0});
        return;
    }
    exchange_add_header(x, "Content-Encoding", "gzip");
    exchange_reply(x, 200, file->type, (str){(const char *)file->gzip, file->n});
}

void handle_web(exchange *x)
{
    web_page_reply(x, exchange_request(x)->tail);
}
