/* SPDX-License-Identifier: Apache-2.0 */
/* regex_parser.h - a place in an expression; between regex_parse.c and regex_class.c. */
#ifndef MOTE_GRAMMAR_RULES_REGEX_PARSER_H
#define MOTE_GRAMMAR_RULES_REGEX_PARSER_H

#include "grammar/rules/regex_ast.h"

#include <string.h>

typedef struct regex_parser {
    regex_tree *t;
    str text;
    size_t at;
    uint32_t open[REGEX_MAX_DEPTH + 1][2]; /* REGEX_ANY_OF and its latest REGEX_CONCAT */
    uint32_t depth;
    mote_error *err;
} regex_parser;

static inline bool regex_more(const regex_parser *p)
{
    return p->at < p->text.n;
}

/* The byte `ahead` of here, 0 behind the end. */
static inline unsigned char regex_peek(const regex_parser *p, size_t ahead)
{
    return p->at + ahead < p->text.n ? (unsigned char)p->text.p[p->at + ahead] : 0;
}

static inline bool regex_starts_with(const regex_parser *p, const char *what)
{
    const size_t n = strlen(what);
    return p->text.n - p->at >= n && memcmp(p->text.p + p->at, what, n) == 0;
}

/* The pattern has something that makes no sense; or that is not supported. */
mote_status regex_wrong(const regex_parser *p, const char *what);
mote_status regex_refused(const regex_parser *p, const char *what);

/* ---- regex_class.c; ranges are added to those of the tree ---- */

mote_status regex_add_range(regex_parser *p, uint32_t lo, uint32_t hi);
/* What a dot stands for: all but the ends of lines. */
mote_status regex_add_dot(regex_parser *p);
/* d, D, w, W, s or S. */
bool regex_is_class_name(unsigned char c);
mote_status regex_add_named_class(regex_parser *p, char name);
/* A character from behind a backslash. */
mote_status regex_char_escape(regex_parser *p, uint32_t *c);
/* From behind an opening bracket. */
mote_status regex_read_class(regex_parser *p, uint32_t node);

#endif
