/* SPDX-License-Identifier: Apache-2.0 */
/* grammar_int.h - what a grammar is made of; for the files of this folder only. */
#ifndef MOTE_GRAMMAR_GRAMMAR_INT_H
#define MOTE_GRAMMAR_GRAMMAR_INT_H

#include "grammar/configs.h"
#include "grammar/grammar.h"

enum {
    MASKS_KEPT = 32,   /* masks that are remembered */
    MASKS_WORTH = 512, /* nodes a walk must have visited for its mask to be one of them */
    STAYS_KEPT = 256,  /* configurations whose stay_info is remembered */
    REACH_MOST = 24,   /* configurations looked at to find that none refuses */
    ROWS_KEPT = 128    /* and whose walk_row */
};

typedef struct kept_mask {
    uint32_t config; /* plain; CONFIG_DEAD: free */
    uint64_t used;   /* clock of the latest use */
    uint32_t *bits;  /* [words] or NULL */
} kept_mask;

/* Characters that a configuration is not left by. */
typedef struct stay_info {
    uint32_t config;
    uint64_t ascii[2];
    bool multi;       /* every character of more than one byte, but for those of */
    bool punctuation; /* U+2000 to U+203F */
} stay_info;

/* Trees of the vocabulary that may follow a configuration whole. */
typedef struct tree_info {
    uint32_t config;
    bool asked[TRIE_TREES], taken[TRIE_TREES];
} tree_info;

/* Where each byte leads from a configuration, as far as it was asked: walks ask the same few
 * configurations hundreds of thousands of times. */
typedef struct walk_row {
    uint32_t config; /* CONFIG_DEAD: free */
    uint32_t next[256];
} walk_row;

struct grammar {
    rules *r;
    const token_trie *v;
    configs c;
    kept_mask kept[MASKS_KEPT];
    stay_info stays[STAYS_KEPT];
    tree_info trees[STAYS_KEPT];
    walk_row *rows; /* [ROWS_KEPT] */
    uint64_t clock;
    uint32_t string_start;     /* state where a character of a JSON string begins, or RULES_NONE */
    grammar_matcher *matchers; /* list */
};

struct grammar_matcher {
    grammar *g;
    grammar_matcher *next, *previous;
    uint32_t *places; /* [n + 1], configuration after each token; CONFIG_DEAD: it has ended */
    uint32_t n, room;
};

/* ---- mask_walk.c ---- */

/* Allows what a configuration can read, by walking over the vocabulary. False: CONFIG_FAILED. */
bool mask_walk(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited);
/* Turns the mask of `from` into that of `to`, by walking where they lead to different places. */
bool mask_change(grammar *g, uint32_t from, uint32_t to, uint32_t *bits, uint64_t *visited);
/* Do letters not leave the configuration? Then most of its walk is taken whole. */
bool mask_is_cheap(grammar *g, uint32_t config_id);

/* ---- mask.c ---- */

/* Fills the mask of a configuration, without the tokens that end the answer. */
mote_status mask_fill(grammar *g, uint32_t config, uint32_t *bits, mote_error *err);

#endif
