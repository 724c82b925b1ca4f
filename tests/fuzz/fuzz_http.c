/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_http.c - any bytes as a connection, through head_check() and llhttp like in the server.
 *
 * The first byte is the chunk size for the following bytes. Invariants: the result of head_check()
 * does not depend on the chunks; llhttp accepts every head that passes; length and content of a
 * body equal those of a simple parser written from RFC 9112.
 */
#include "fuzz/fuzz.h"
#include "server/http/head.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_BODY = 4096 };

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_http: %s\n", what);
    abort();
}

/* ---- the simple body parser ---- */

typedef enum plain { PLAIN_MORE, PLAIN_WHOLE, PLAIN_BAD, PLAIN_LARGE } plain;

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads a chunk size and CR LF at *at and advances *at. */
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
        if (there > MAX_BODY - body->n)
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
    if (there > MAX_BODY)
        return PLAIN_LARGE;
    strbuf_put(body, (str){bytes.p, there});
    *used = there;
    return there == length ? PLAIN_WHOLE : PLAIN_MORE;
}

/* ---- comparison ---- */

static http_parsed read_in_chunks(http_parser *parser, str bytes, size_t chunk, size_t *used,
                                  strbuf *body)
{
    http_parsed parsed = HTTP_PARSED_MORE;
    *used = 0;
    while (parsed == HTTP_PARSED_MORE && *used < bytes.n) {
        size_t n = bytes.n - *used < chunk ? bytes.n - *used : chunk, taken;
        parsed = http_parser_body(parser, (str){bytes.p + *used, n}, &taken, body, MAX_BODY);
        demand(taken <= n, "more bytes used than given");
        *used += taken;
    }
    return parsed;
}

/* Returns the bytes used; 0: the connection ends. */
static size_t compare_bodies(http_parser *parser, const http_head *head, str bytes, size_t chunk)
{
    strbuf body = {0}, wanted = {0};
    size_t used, expected_used = 0;
    plain is = head->chunked ? read_chunks(bytes, &expected_used, &wanted)
                             : read_length(bytes, head->length, &expected_used, &wanted);
    http_parsed parsed = read_in_chunks(parser, bytes, chunk, &used, &body);
    switch (parsed) {
    case HTTP_PARSED_WHOLE:
        demand(is == PLAIN_WHOLE && used == expected_used, "the body has another length");
        demand(str_eq(strbuf_view(&body), strbuf_view(&wanted)), "the body has another content");
        break;
    case HTTP_PARSED_MORE: demand(is == PLAIN_MORE, "llhttp expects more body"); break;
    case HTTP_PARSED_TOO_LARGE: demand(is == PLAIN_LARGE, "the body is not too large"); break;
    case HTTP_PARSED_REFUSED:
        demand(is == PLAIN_BAD || is == PLAIN_LARGE, "a valid body is refused");
        break;
    default: demand(false, "out of memory");
    }
    strbuf_fini(&body);
    strbuf_fini(&wanted);
    return parsed == HTTP_PARSED_WHOLE ? used : 0;
}

static head_status check_head(head_checker *g, str bytes, size_t chunk, const limits *l)
{
    head_status answer = HEAD_MORE;
    *g = (head_checker){0};
    for (size_t n = 0; n < bytes.n && answer == HEAD_MORE;) {
        n = bytes.n - n < chunk ? bytes.n : n + chunk;
        answer = head_check(g, (str){bytes.p, n}, l);
    }
    return answer;
}

/* Checks one request. Returns the bytes used; 0: the connection ends. */
static size_t check_request(http_parser *parser, str bytes, size_t chunk, const limits *l)
{
    head_checker g, whole;
    head_status answer = check_head(&g, bytes, chunk, l);
    demand(answer == check_head(&whole, bytes, bytes.n, l), "the result depends on the chunks");
    if (answer != HEAD_PASS)
        return 0;
    demand(g.head.bytes <= bytes.n, "the head is longer than the input");
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
    size_t used = compare_bodies(parser, &g.head, rest, chunk);
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
    size_t chunk = data[0] == 0 ? size : data[0];
    str rest = {(const char *)data + 1, size - 1};
    while (rest.n > 0) {
        size_t used = check_request(parser, rest, chunk, &l);
        if (used == 0)
            break;
        rest = (str){rest.p + used, rest.n - used};
    }
    return 0;
}
