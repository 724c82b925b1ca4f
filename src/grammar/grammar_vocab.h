/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_vocab.h - the tokens of a model, arranged for the question "which may come next?".
 *
 * Made once per model, never changed, shared by any number of threads. The bytes
 * of all tokens form trees whose branches lie together in memory, so that a walk
 * touches what is allowed and little else. Small letters, other letters and
 * digits, other plain text and all the rest each have a tree of their own, so that a
 * state which such text does not leave takes the tree whole, or at least its large
 * branches, which carry a summary for that. And because most of an answer in JSON is text inside
 * strings, what each token does there is worked out beforehand.
 */
#ifndef MOTE_GRAMMAR_GRAMMAR_VOCAB_H
#define MOTE_GRAMMAR_GRAMMAR_VOCAB_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

typedef enum vocab_kind {
    VOCAB_NEVER = 0, /* control tokens, padding */
    VOCAB_TEXT,
    VOCAB_END /* ends the answer: allowed where the grammar is complete */
} vocab_kind;

typedef enum vocab_tree {
    VOCAB_SMALL_LETTERS, /* ASCII ones and nothing else */
    VOCAB_ALPHANUMERIC,  /* ASCII letters and digits, not only small letters */
    VOCAB_PLAIN,         /* other whole characters that a JSON string need not escape */
    VOCAB_REST,
    VOCAB_TREES
} vocab_tree;

/* Where the tokens come from; must outlive the vocab, and so must the bytes. */
typedef struct vocab_source {
    const void *ctx;
    uint32_t n; /* ids 0 .. n - 1, the bits of a mask */
    vocab_kind (*kind)(const void *ctx, uint32_t id);
    str (*bytes)(const void *ctx, uint32_t id);
} vocab_source;

enum {
    VOCAB_MAX_TOKENS = 1 << 20,
    VOCAB_MAX_BYTES = 1023, /* of one token; longer ones are never allowed */
    VOCAB_BULK = 64,        /* a branch of so many tokens has a summary */
    VOCAB_SHORT = 16        /* tokens of at most so many characters have masks by length */
};
#define VOCAB_NO_TOKEN UINT32_MAX

/* One byte of the tree. Its children stand side by side, by byte; two of the same byte are
 * tokens of the same text. */
typedef struct vocab_node {
    uint32_t token; /* that ends here, or VOCAB_NO_TOKEN */
    uint32_t child; /* the first */
    uint16_t n;     /* children */
    uint8_t byte;
    bool bulk; /* has a summary */
} vocab_node;

/* All bytes that follow a node inside its branch. */
typedef struct vocab_summary {
    uint32_t node;
    uint32_t first, n; /* its tokens, in `order` */
    uint32_t depth;    /* bytes up to the node */
    uint64_t ascii[2]; /* which of the first 128 bytes occur */
    bool multi;        /* characters of more than one byte occur */
    bool punctuation;  /* some of them are U+2000 to U+203F */
    bool whole;        /* and all of them are whole */
} vocab_summary;

/* A token that leaves a JSON string: `n` characters, a quote, the rest. */
typedef struct vocab_closer {
    uint32_t token;
    uint32_t n;
    str rest;
    uint32_t common; /* bytes of rest that the closer before it begins with too */
} vocab_closer;

/* A token that stays in a JSON string and makes it `n` characters longer. */
typedef struct vocab_inside {
    uint32_t token;
    uint32_t n; /* one that is begun counts */
} vocab_inside;

typedef struct vocab {
    vocab_source source;
    str *texts;       /* [source.n], only while it is built */
    uint32_t words;   /* of a mask: 32 tokens each */
    uint32_t longest; /* bytes of a token */
    uint32_t n_nodes, nodes_room;
    vocab_node *nodes;               /* [n_nodes] */
    vocab_summary tree[VOCAB_TREES]; /* whole trees; their nodes are roots, which have no byte */
    uint32_t *tree_bits;             /* [VOCAB_TREES][words], their tokens */
    uint32_t *order;                 /* [n_text], tokens by tree and then by their bytes */
    uint32_t n_text;
    vocab_summary *summaries; /* [n_summaries], by node */
    uint32_t n_summaries, summaries_room;
    uint32_t *ends; /* [n_ends] */
    uint32_t n_ends;
    uint32_t *within;     /* [VOCAB_SHORT + 1][words]: stays inside, at most so many characters;
                           * number 0: any number of them */
    vocab_inside *longer; /* [n_longer], of more than VOCAB_SHORT characters, longest first */
    uint32_t n_longer;
    vocab_closer *closers; /* [n_closers], by rest */
    uint32_t n_closers;
} vocab;

mote_status vocab_new(vocab **out, const vocab_source *source, mote_error *err);
/* NULL is allowed. */
void vocab_free(vocab *v);
/* Memory it holds. */
uint64_t vocab_bytes(const vocab *v);

static inline void vocab_allow(uint32_t *bits, uint32_t token)
{
    bits[token / 32] |= UINT32_C(1) << token % 32;
}

/* The summary of a node that has one. */
const vocab_summary *vocab_summary_of(const vocab *v, uint32_t node);

/* ---- vocab_strings.c ---- */

/* Fills within, longer and closers. */
mote_status vocab_read_strings(vocab *v, mote_error *err);

#endif
