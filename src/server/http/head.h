/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head.h - the first look at the head of a request, byte by byte, before any parser.
 *
 * Parsers forgive, and two that forgive differently can be played against each other. The
 * gate forgives nothing: what it passes has one meaning. It works on the raw bytes up to the
 * blank line and stops at the first one that cannot belong to a sound head, however the bytes
 * were cut into pieces on their way. llhttp then reads the same bytes as a second opinion.
 *
 * Refused: lone CR or LF, folded lines, anything but one method, one target in origin form
 * and one known version on the first line, blanks around a field's name, bytes outside of the
 * sets of tokens and values, a missing or repeated Host, lengths that are not plain
 * digits, a length beside a coding, any coding but "chunked", codings in HTTP/1.0, bodies of
 * methods that have none, and repeated fields that decide who may do what.
 */
#ifndef MOTE_SERVER_HTTP_HEAD_H
#define MOTE_SERVER_HTTP_HEAD_H

#include "server/core/limits.h"
#include "server/http/exchange.h"

#include <stdint.h>

typedef struct http_field {
    uint16_t name, n_name, value, n_value; /* offsets into the head */
} http_field;

/* A head that passed. Offsets count from its first byte. */
typedef struct http_head {
    http_method method;
    bool http_1_0;
    uint16_t target, n_target;
    size_t bytes; /* of all of it, blank line included */
    uint32_t n_fields;
    http_field fields[LIMIT_MOST_FIELDS];
    bool chunked;
    bool has_length;
    bool wants_continue;
    uint64_t length;
} http_head;

typedef enum head_status {
    HEAD_MORE, /* nothing wrong so far */
    HEAD_PASS,
    HEAD_BAD,     /* 400 */
    HEAD_METHOD,  /* 405 */
    HEAD_TARGET,  /* 414 */
    HEAD_HEADERS, /* 431 */
    HEAD_CODING   /* 415: the body is compressed */
} head_status;

/* All zero is the beginning of a request. */
typedef struct gate {
    size_t at;     /* bytes looked at */
    size_t line;   /* where the present line begins */
    size_t fields; /* where the fields begin; 0: still in the first line */
    uint32_t seen; /* of the fields that come at most once, a bit each */
    const char *why;
    http_head head;
} gate;

/* `bytes` are all that came since the request began: those of the last call and more. After any
 * answer but HEAD_MORE the gate must be made zero before it is used again; `why` says what
 * was wrong, without quoting it. */
head_status head_check(gate *g, str bytes, const limits *l);

/* The value of a field by its name in lower case; its p is NULL if it did not come. */
str http_head_field(const http_head *h, const char *bytes, const char *name);

/* Decodes the path of a target that passed the gate, once, to out[n_target]; *query is what stands
 * behind '?'. false: it decodes to something that is no path: control characters, no UTF-8. */
bool head_decode_target(str target, char *out, size_t *n, str *query);

#endif
