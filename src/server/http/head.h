/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head.h - strict check of a request head, and the parser of heads and bodies (llhttp).
 *
 * Lenient parsers that accept different inputs make request smuggling possible. head_check() is
 * strict: a head that passes has one meaning only. It works on the raw bytes up to the blank line
 * and stops at the first invalid byte; how the bytes were split into packets does not matter.
 * llhttp then parses the same bytes, and the request is refused if the two disagree.
 *
 * Refused: a lone CR or LF; folded lines; a first line that is not method, target in origin form
 * and HTTP/1.0 or HTTP/1.1; spaces around a header name; bytes outside the token and value sets; a
 * missing or repeated Host; a Content-Length that is not plain digits; Content-Length together with
 * Transfer-Encoding; a Transfer-Encoding other than "chunked"; Transfer-Encoding in HTTP/1.0; a
 * body of a method that has none; repeated headers that affect framing or access. llhttp refuses
 * chunk extensions and trailers, because no limit counts their bytes.
 */
#ifndef MOTE_SERVER_HTTP_HEAD_H
#define MOTE_SERVER_HTTP_HEAD_H

#include "server/core/limits.h"
#include "server/http/exchange.h"

#include <stdint.h>

typedef struct http_field {
    uint16_t name, n_name, value, n_value; /* offsets into the head, and lengths */
} http_field;

/* A head that passed. Offsets count from its first byte. */
typedef struct http_head {
    http_method method;
    bool http_1_0;
    uint16_t target, n_target;
    size_t bytes; /* including the blank line */
    uint32_t n_fields;
    http_field fields[LIMIT_MOST_FIELDS];
    bool chunked;
    bool has_length;
    bool wants_continue;
    uint64_t length;
} http_head;

typedef enum head_status {
    HEAD_MORE, /* valid so far, incomplete */
    HEAD_PASS,
    HEAD_BAD,     /* 400 */
    HEAD_METHOD,  /* 405 */
    HEAD_TARGET,  /* 414 */
    HEAD_HEADERS, /* 431 */
    HEAD_CODING   /* 415: the body is compressed */
} head_status;

/* State of the check. All zero: the start of a request. */
typedef struct head_checker {
    size_t at;       /* bytes checked */
    size_t line;     /* start of the current line */
    size_t fields;   /* start of the headers; 0: still in the first line */
    uint32_t seen;   /* bit set of the headers that may occur once */
    const char *why; /* of a refusal; a constant that quotes nothing from the request */
    http_head head;
} head_checker;

/* `bytes` is everything received since the start of the request: the bytes of the last call and
 * more. After any result but HEAD_MORE, zero the checker before the next request. */
head_status head_check(head_checker *g, str bytes, const limits *l);

/* Value of a header by its lower-case name; p is NULL if absent. */
str http_head_field(const http_head *h, const char *bytes, const char *name);

/* Percent-decodes the path of a target that passed head_check() into out[n_target]; *query is the
 * part after '?', not decoded. false: the path has control characters or is not UTF-8. */
bool head_decode_target(str target, char *out, size_t *n, str *query);

/* ---- http_parser.c: the parser, one message at a time ---- */

typedef struct http_parser http_parser;

typedef enum http_parsed {
    HTTP_PARSED_MORE,
    HTTP_PARSED_HEAD, /* only from http_parser_head */
    HTTP_PARSED_WHOLE,
    HTTP_PARSED_REFUSED,
    HTTP_PARSED_TOO_LARGE,
    HTTP_PARSED_NO_MEMORY
} http_parsed;

http_parser *http_parser_new(void);
/* NULL is allowed. */
void http_parser_free(http_parser *p);

/* Parses a head that head_check() has passed. REFUSED also if the two disagree. WHOLE: the request
 * has no body. */
http_parsed http_parser_head(http_parser *p, str bytes, const http_head *head);
/* Parses body bytes and appends the decoded body to `body`, which may hold `most` bytes. Bytes
 * after the end of the message are not used. */
http_parsed http_parser_body(http_parser *p, str bytes, size_t *used, strbuf *body, size_t most);
/* After the head: can another request follow on this connection? */
bool http_parser_keeps_alive(const http_parser *p);
/* "9.4.3" */
const char *http_parser_version(void);

#endif
