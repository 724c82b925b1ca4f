/* SPDX-License-Identifier: Apache-2.0 */
/* gbnf_parser.h - a place in a grammar's text; between gbnf_parse.c and gbnf_chars.c. */
#ifndef MOTE_GRAMMAR_RULES_GBNF_PARSER_H
#define MOTE_GRAMMAR_RULES_GBNF_PARSER_H

#include "grammar/rules/gbnf_ast.h"
#include "base/strmap.h"

typedef struct gbnf_open {
    uint32_t any_of, sequence; /* GBNF_ANY_OF and its latest GBNF_SEQUENCE */
    size_t at;                 /* of its parenthesis */
} gbnf_open;

typedef struct gbnf_parser {
    gbnf_tree *t;
    str text;
    size_t at;
    gbnf_open open[GBNF_MAX_DEPTH + 1]; /* the first is the rule itself */
    uint32_t depth;
    strmap names; /* of rules */
    mote_error *err;
} gbnf_parser;

static inline bool gbnf_more(const gbnf_parser *p)
{
    return p->at < p->text.n;
}

/* The byte `ahead` of here, 0 behind the end. */
static inline unsigned char gbnf_peek(const gbnf_parser *p, size_t ahead)
{
    return p->at + ahead < p->text.n ? (unsigned char)p->text.p[p->at + ahead] : 0;
}

/* The text makes no sense at `at`; or says something there that is not supported. */
mote_status gbnf_wrong(const gbnf_parser *p, size_t at, const char *what);
mote_status gbnf_refused(const gbnf_parser *p, size_t at, const char *what);

/* ---- gbnf_chars.c: from behind the opening quote or bracket to behind the closing one ---- */

/* Adds to the tree's bytes. */
mote_status gbnf_read_text(gbnf_parser *p);
/* Adds to the tree's ranges, settled. */
mote_status gbnf_read_class(gbnf_parser *p);

#endif
