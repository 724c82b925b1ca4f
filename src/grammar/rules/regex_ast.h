/* SPDX-License-Identifier: Apache-2.0 */
/* regex_ast.h - syntax tree of a regular expression: written by regex_parse.c, read by regex.c. */
#ifndef MOTE_GRAMMAR_RULES_REGEX_AST_H
#define MOTE_GRAMMAR_RULES_REGEX_AST_H

#include "grammar/rules/dfa.h"
#include "grammar/rules/regex.h"

typedef enum regex_kind {
    REGEX_CLASS,    /* one character of ranges[first .. first + n) */
    REGEX_CONCAT,   /* the children in sequence; none: the empty string */
    REGEX_ANY_OF,   /* one of the children */
    REGEX_REPEAT,   /* the child, min to max times */
    REGEX_AT_START, /* ^ */
    REGEX_AT_END    /* $ */
} regex_kind;

typedef struct regex_node {
    uint8_t kind;
    uint32_t first, n; /* of a class */
    uint32_t min, max; /* of a repetition */
    uint32_t child;    /* first child or RULES_NONE */
    uint32_t last;     /* last child */
    uint32_t sibling;  /* next child of the same parent or RULES_NONE */
} regex_node;

typedef struct regex_tree {
    regex_node *nodes;
    char_class ranges; /* of each class: ascending, disjoint */
    uint32_t n_nodes, nodes_room;
    uint32_t root;
} regex_tree;

/* The tree must be freed also after a failure. */
mote_status regex_parse(regex_tree *t, str pattern, mote_error *err);
void regex_tree_fini(regex_tree *t);

#endif
