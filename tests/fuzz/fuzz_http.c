/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_http.c - any bytes as a connection, through the gate and llhttp as the server does it.
 *
 * The first byte says in what pieces the rest comes. Held: what the gate says does not depend on
 * the pieces; a head it passes is not refused behind it; where a body ends and what it says
 * is what a second, plain reading of RFC 9112 finds.
 */
#include "fuzz/fuzz.h"
#include "server/http/head.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_BODY = 4096 };

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_http: %s\n", what);
    abort();
}

/* ---- the plain reading of a body ---- */

typedef enum plain { PLAIN_MORE, PLAIN_WHOLE, PLAIN_BAD, PLAIN_LARGE } plain;

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A size and CR LF at *at, which is moved behind them. */
static plain chunk_size(str bytes, size_t *at, uint64_t *size)
{
    size_t i = *at;
    *size = 0;
    for (; i < bytes.n && hex(bytes.p[i]) >= 0; i++) {
        if (*size >> 60 != 0)
            return PLAIN_BAD;
        *size = *size << 4 | (uint64_t)hex(bytes.p[i]);
    }
    if (i == *at)
        return i < bytes.n ? PLAIN_BAD : PLAIN_MORE;
    for (const char *p = "\r\n"; *p != '\0'; p++, i++) {
        if (i == bytes.n)
            return PLAIN_MORE;
        if (bytes.p[i] != *p)
            return PLAIN_BAD;
    }
    *at = i;
    return PLAIN_WHOLE;
}

static plain line_end(str bytes, size_t *at)
{
    for (const char *p = "\r\n"; *p != '\0'; p++, (*at)++) {
        if (*at == bytes.n)
            return PLAIN_MORE;
        if (bytes.p[*at] != *p)
            return PLAIN_BAD;
    }
    return PLAIN_WHOLE;
}

static plain read_chunks(str bytes, size_t *used, strbuf *body)
{
    size_t at = 0;
    for (;;) {
        uint64_t size;
        plain is = chunk_size(bytes, &at, &size);
        if (is != PLAIN_WHOLE)
            return is;
        size_t there = size < bytes.n - at ? (size_t)size : bytes.n - at;
        if (there > MOST_BODY - body->n)
            return PLAIN_LARGE;
        strbuf_put(body, (str){bytes.p + at, there});
        if (there < size)
            return PLAIN_MORE;
        at += there;
        is = line_end(bytes, &at);
        if (is != PLAIN_WHOLE)
            return is;
        if (size == 0) {
            *used = at;
            return PLAIN_WHOLE;
        }
    }
}

static plain read_length(str bytes, uint64_t length, size_t *used, strbuf *body)
{
    size_t there = length < bytes.n ? (size_t)length : bytes.n;
    if (there > MOST_BODY)
        return PLAIN_LARGE;
    strbuf_put(body, (str){bytes.p, there});
    *used = there;
    return there == length ? PLAIN_WHOLE : PLAIN_MORE;
}

/* ---- the two compared ---- */

static http_parsed read_in_pieces(http_parser *parser, str bytes, size_t piece, size_t *used,
                                  strbuf *body)
{
    http_parsed parsed = HTTP_PARSED_MORE;
    *used = 0;
    while (parsed == HTTP_PARSED_MORE && *used < bytes.n) {
        size_t n = bytes.n - *used < piece ? bytes.n - *used : piece, taken;
        parsed = http_parser_body(parser, (str){bytes.p + *used, n}, &taken, body, MOST_BODY);
        demand(taken <= n, "more was used than there is");
        *used += taken;
    }
    return parsed;
}

/* Returns the bytes used, 0: the connection ends here. */
static size_t compare_bodies(http_parser *parser, const http_head *head, str bytes, size_t piece)
{
    strbuf body = {0}, wanted = {0};
    size_t used, plainly_used = 0;
    plain is = head->chunked ? read_chunks(bytes, &plainly_used, &wanted)
                             : read_length(bytes, head->length, &plainly_used, &wanted);
    http_parsed parsed = read_in_pieces(parser, bytes, piece, &used, &body);
    switch (parsed) {
    case HTTP_PARSED_WHOLE:
        demand(is == PLAIN_WHOLE && used == plainly_used, "a body ends elsewhere");
        demand(str_eq(strbuf_view(&body), strbuf_view(&wanted)), "a body says something else");
        break;
    case HTTP_PARSED_MORE: demand(is == PLAIN_MORE, "a body goes on that should not"); break;
    case HTTP_PARSED_TOO_LARGE: demand(is == PLAIN_LARGE, "a body is too large that is not"); break;
    case HTTP_PARSED_REFUSED:
        demand(is == PLAIN_BAD || is == PLAIN_LARGE, "a sound body is refused");
        break;
    default: demand(false, "no memory");
    }
    strbuf_fini(&body);
    strbuf_fini(&wanted);
    return parsed == HTTP_PARSED_WHOLE ? used : 0;
}

static head_status look(head_checker *g, str bytes, size_t piece, const limits *l)
{
    head_status answer = HEAD_MORE;
    *g = (head_checker){0};
    for (size_t n = 0; n < bytes.n && answer == HEAD_MORE;) {
        n = bytes.n - n < piece ? bytes.n : n + piece;
        answer = head_check(g, (str){bytes.p, n}, l);
    }
    return answer;
}

/* One request; returns the bytes used, 0: the connection ends here. */
static size_t one_request(http_parser *parser, str bytes, size_t piece, const limits *l)
{
    head_checker g, whole;
    head_status answer = look(&g, bytes, piece, l);
    demand(answer == look(&whole, bytes, bytes.n, l), "the gate looks at the pieces");
    if (answer != HEAD_PASS)
        return 0;
    demand(g.head.bytes <= bytes.n, "a head is longer than what came");
    char path[LIMIT_MOST_TARGET + 1];
    size_t n;
    str query;
    head_decode_target((str){bytes.p + g.head.target, g.head.n_target}, path, &n, &query);
    http_parsed parsed = http_parser_head(parser, (str){bytes.p, g.head.bytes}, &g.head);
    demand(parsed == HTTP_PARSED_HEAD || parsed == HTTP_PARSED_WHOLE, "llhttp disagrees");
    str rest = {bytes.p + g.head.bytes, bytes.n - g.head.bytes};
    bool more = http_parser_keeps_alive(parser);
    if (parsed == HTTP_PARSED_WHOLE)
        return more ? g.head.bytes : 0;
    size_t used = compare_bodies(parser, &g.head, rest, piece);
    return more && used > 0 ? g.head.bytes + used : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static http_parser *parser;
    limits l;
    limits_init(&l);
    if (parser == NULL)
        parser = http_parser_new();
    if (size < 2)
        return 0;
    size_t piece = data[0] == 0 ? size : data[0];
    str rest = {(const char *)data + 1, size - 1};
    while (rest.n > 0) {
        size_t used = one_request(parser, rest, piece, &l);
        if (used == 0)
            break;
        rest = (str){rest.p + used, rest.n - used};
    }
    return 0;
}
