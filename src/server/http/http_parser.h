/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_parser.h - llhttp behind the gate: a second opinion on the head, and the body.
 *
 * One message at a time; what comes behind it stays with the caller. Chunk extensions and
 * trailers are refused: nobody sends them, and they are bytes that no limit counts.
 */
#ifndef MOTE_SERVER_HTTP_HTTP_PARSER_H
#define MOTE_SERVER_HTTP_HTTP_PARSER_H

#include "base/strbuf.h"
#include "server/http/head.h"

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

/* Reads a head that the gate has passed. REFUSED also where the two disagree about it. WHOLE:
 * it has no body. */
http_parsed http_parser_head(http_parser *p, str bytes, const http_head *head);
/* Reads of the body what there is and appends it to `body`, which may hold `most` bytes. */
http_parsed http_parser_body(http_parser *p, str bytes, size_t *used, strbuf *body, size_t most);
/* After the head: may another request follow on this connection? */
bool http_parser_keeps_alive(const http_parser *p);
/* "9.4.3" */
const char *http_parser_version(void);

#endif
