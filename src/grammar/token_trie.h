/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_trie.h - the tokens of a model, arranged for the question "which may come next?".
 *
 * Made once per model, never changed, shared by any number of threads. The bytes
 * of all tokens form trees whose branches lie together in memory, so that a walk
 * touches what is allowed and little else. Small letters, other letters and
 * digits, other plain text and all the rest each have a tree of their own, so that a
 * state which such text does not leave takes the tree whole, or at least its large
 * branches, which carry a summary for that. And because most of an answer in JSON is text inside
 * strings, what each token does there is worked out beforehand.
 */
#ifndef MOTE_GRAMMAR_TOKEN_TRIE_H
#define MOTE_GRAMMAR_TOKEN_TRIE_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

typedef enum token_trie_kind {
    TRIE_NEVER = 0, /* control tokens, padding */
    TRIE_TEXT,
    TRIE_END /* ends the answer: allowed where the grammar is complete */
} token_trie_kind;

typedef enum token_trie_tree {
    TRIE_SMALL_LETTERS, /* ASCII ones and nothing else */
    TRIE_ALPHANUMERIC,  /* ASCII letters and digits, not only small letters */
    TRIE_PLAIN,         /* other whole characters that a JSON string need not escape */
    TRIE_REST,
    TRIE_TREES
} token_trie_tree;

/* Where the tokens come from; must outlive the vocab, and so must the bytes. */
typedef struct token_trie_source {
    const void *ctx;
    uint32_t n; /* ids 0 .. n - 1, the bits of a mask */
    token_trie_kind (*kind)(const void *ctx, uint32_t id);
    str (*bytes)(const void *ctx, uint32_t id);
} token_trie_source;

enum {
    TRIE_MAX_TOKENS = 1 << 20,
    TRIE_MAX_BYTES = 1023, /* of one token; longer ones are never allowed */
    TRIE_BULK = 64,        /* a branch of so many tokens has a summary */
    TRIE_SHORT = 16        /* tokens of at most so many characters have masks by length */
};
#define TRIE_NO_TOKEN UINT32_MAX

/* One byte of the tree. Its children stand side by side, by byte; two of the same byte are
 * tokens of the same text. */
typedef struct token_trie_node {
    uint32_t token; /* that ends here, or TRIE_NO_TOKEN */
    uint32_t child; /* the first */
    uint16_t n;     /* children */
    uint8_t byte;
    bool bulk; /* has a summary */
} token_trie_node;

/* All bytes that follow a node inside its branch. */
typedef struct token_trie_summary {
    uint32_t node;
    uint32_t first, n; /* its tokens, in `order` */
    uint32_t depth;    /* bytes up to the node */
    uint64_t ascii[2]; /* which of the first 128 bytes occur */
    bool multi;        /* characters of more than one byte occur */
    bool punctuation;  /* some of them are U+2000 to U+203F */
    bool whole;        /* and all of them are whole */
} token_trie_summary;

/* A token that leaves a JSON string: `n` characters, a quote, the rest. */
typedef struct token_trie_closer {
    uint32_t token;
    uint32_t n;
    str rest;
    uint32_t common; /* bytes of rest that the closer before it begins with too */
} token_trie_closer;

/* A token that stays in a JSON string and makes it `n` characters longer. */
typedef struct token_trie_inside {
    uint32_t token;
    uint32_t n; /* one that is begun counts */
} token_trie_inside;

typedef struct token_trie {
    token_trie_source source;
    str *texts;       /* [source.n], only while it is built */
    uint32_t words;   /* of a mask: 32 tokens each */
    uint32_t longest; /* bytes of a token */
    uint32_t n_nodes, nodes_room;
    token_trie_node *nodes; /* [n_nodes] */
    token_trie_summary
        tree[TRIE_TREES]; /* whole trees; their nodes are roots, which have no byte */
    uint32_t *tree_bits;  /* [TRIE_TREES][words], their tokens */
    uint32_t *order;      /* [n_text], tokens by tree and then by their bytes */
    uint32_t n_text;
    token_trie_summary *summaries; /* [n_summaries], by node */
    uint32_t n_summaries, summaries_room;
    uint32_t *ends; /* [n_ends] */
    uint32_t n_ends;
    uint32_t *within;          /* [TRIE_SHORT + 1][words]: stays inside, at most so many characters;
                                * number 0: any number of them */
    token_trie_inside *longer; /* [n_longer], of more than TRIE_SHORT characters, longest first */
    uint32_t n_longer;
    token_trie_closer *closers; /* [n_closers], by rest */
    uint32_t n_closers;
} token_trie;

mote_status token_trie_new(token_trie **out, const token_trie_source *source, mote_error *err);
/* NULL is allowed. */
void token_trie_free(token_trie *v);
/* Memory it holds. */
uint64_t token_trie_bytes(const token_trie *v);

static inline void token_trie_allow(uint32_t *bits, uint32_t token)
{
    bits[token / 32] |= UINT32_C(1) << token % 32;
}

/* The summary of a node that has one. */
const token_trie_summary *token_trie_summary_of(const token_trie *v, uint32_t node);

/* ---- vocab_strings.c ---- */

/* Fills within, longer and closers. */
mote_status token_trie_read_strings(token_trie *v, mote_error *err);

#endif
