/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart.c - parts of a multipart/form-data body (RFC 7578). See batch_api.h.
 *
 * The boundary is read from the first line of the body, which every client begins with it. Contents
 * are returned as they are; no encoding of a part is supported, as the RFC says.
 */
#include "server/batch/batch_api.h"

enum { MAX_BOUNDARY = 72, MAX_PART_HEAD = 4096 };

/* Where `needle` begins in `text`; text.n: nowhere. */
static size_t text_find(str text, str needle)
{
    for (size_t at = 0; at + needle.n <= text.n; at++) {
        const char *hit = memchr(text.p + at, needle.p[0], text.n - needle.n - at + 1);
        if (hit == NULL)
            break;
        at = (size_t)(hit - text.p);
        if (memcmp(hit, needle.p, needle.n) == 0)
            return at;
    }
    return text.n;
}

static str text_after(str text, size_t n)
{
    return (str){text.p + n, text.n - n};
}

/* The value of name="value" in a head; empty: absent. */
static str head_parameter(str head, const char *name)
{
    const size_t n = strlen(name);
    for (size_t at = 0; at + n + 2 < head.n; at++) {
        const char before = at > 0 ? head.p[at - 1] : ';';
        if ((before != ' ' && before != ';') || memcmp(head.p + at, name, n) != 0 ||
            memcmp(head.p + at + n, "=\"", 2) != 0)
            continue;
        const str rest = text_after(head, at + n + 2);
        const size_t end = text_find(rest, (str){"\"", 1});
        return end < rest.n ? (str){rest.p, end} : (str){"", 0};
    }
    return (str){"", 0};
}

static bool form_fail(str *rest)
{
    *rest = (str){NULL, 0};
    return false;
}

/* Reads "--boundary" of the first line. *boundary is that text with the line break before it, as it
 * stands between parts; the first one has none, so the body is read from its third byte. */
static bool form_begin(str *rest, str *boundary)
{
    const size_t end = text_find(*rest, str_of("\r\n"));
    if (end == rest->n || end < 3 || end > MAX_BOUNDARY || memcmp(rest->p, "--", 2) != 0)
        return false;
    *boundary = (str){rest->p, end};
    *rest = text_after(*rest, end);
    return true;
}

/* Where "\r\n" and the boundary begin. */
static size_t form_find_boundary(str text, str boundary)
{
    size_t from = 0;
    while (from < text.n) {
        const size_t at = from + text_find(text_after(text, from), boundary);
        if (at == text.n)
            return text.n;
        if (at >= 2 && memcmp(text.p + at - 2, "\r\n", 2) == 0)
            return at - 2;
        from = at + 1;
    }
    return text.n;
}

bool form_next(str *rest, str *boundary, form_part *out)
{
    if (boundary->n == 0 && !form_begin(rest, boundary))
        return form_fail(rest);
    /* Behind a boundary: "--" at the end of the body, a line break before a part. */
    if (rest->n >= 2 && memcmp(rest->p, "--", 2) == 0) {
        *rest = text_after(*rest, rest->n);
        return false;
    }
    if (rest->n < 2 || memcmp(rest->p, "\r\n", 2) != 0)
        return form_fail(rest);
    const str body = text_after(*rest, 2);
    const size_t head = text_find(body, str_of("\r\n\r\n"));
    if (head == body.n || head > MAX_PART_HEAD)
        return form_fail(rest);
    const str contents = text_after(body, head + 4);
    const size_t end = form_find_boundary(contents, *boundary);
    if (end == contents.n)
        return form_fail(rest);
    out->name = head_parameter((str){body.p, head}, "name");
    out->filename = head_parameter((str){body.p, head}, "filename");
    out->contents = (str){contents.p, end};
    *rest = text_after(contents, end + 2 + boundary->n);
    return true;
}
