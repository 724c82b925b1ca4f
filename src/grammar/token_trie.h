/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_trie.h - the vocabulary of a model as tries over bytes, for token masks.
 *
 * Built once per model; read-only afterwards and shared by any number of threads.
 *
 * There are four tries: lower-case letters, alphanumeric, other plain text, everything else. If a
 * configuration accepts all text of one kind, the mask takes the whole trie. Branches of at least
 * TRIE_BULK tokens have a summary of their characters, so that a mask can take a branch as a whole
 * too. The children of a node are contiguous in memory.
 *
 * Most of a JSON document is text inside strings. So the effect of each token inside a JSON string
 * is precomputed: how many characters it adds, or where it closes the string.
 */
#ifndef MOTE_GRAMMAR_TOKEN_TRIE_H
#define MOTE_GRAMMAR_TOKEN_TRIE_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

typedef enum token_trie_kind {
    TRIE_NEVER = 0, /* never allowed: control tokens, padding */
    TRIE_TEXT,
    TRIE_END /* end of generation: allowed where the grammar is complete */
} token_trie_kind;

typedef enum token_trie_tree {
    TRIE_LOWERCASE,    /* ASCII lower-case letters only */
    TRIE_ALPHANUMERIC, /* ASCII letters and digits, not only lower-case letters */
    TRIE_PLAIN,        /* other whole characters that need no escape in a JSON string */
    TRIE_OTHER,
    TRIE_TREES
} token_trie_tree;

/* Access to the tokens. The source and the bytes it returns must outlive the trie. */
typedef struct token_trie_source {
    const void *ctx;
    uint32_t n; /* ids 0 .. n - 1, the bits of a mask */
    token_trie_kind (*kind)(const void *ctx, uint32_t id);
    str (*bytes)(const void *ctx, uint32_t id);
} token_trie_source;

enum {
    TRIE_MAX_TOKENS = 1 << 20,
    TRIE_MAX_BYTES = 1023, /* of one token; longer ones are never allowed */
    TRIE_BULK = 64,        /* tokens of a branch that has a summary */
    TRIE_SHORT = 16        /* characters up to which there are masks by length, see `within` */
};
#define TRIE_NO_TOKEN UINT32_MAX

/* A node is one byte. Its children are contiguous and sorted by byte. Two children with the same
 * byte are tokens with the same text. */
typedef struct token_trie_node {
    uint32_t token; /* token that ends here, or TRIE_NO_TOKEN */
    uint32_t child; /* first child */
    uint16_t n;     /* children */
    uint8_t byte;
    bool has_summary;
} token_trie_node;

/* The bytes that follow a node in the tokens of its branch. */
typedef struct token_trie_summary {
    uint32_t node;
    uint32_t first, n; /* its tokens: a range of `order` */
    uint32_t depth;    /* bytes from the root to the node */
    uint64_t ascii[2]; /* bitmap of the ASCII characters that occur */
    bool multi;        /* multi-byte characters occur */
    bool punctuation;  /* some of U+2000 to U+203F occur */
    bool whole;        /* no token starts or ends inside a character */
} token_trie_summary;

/* A token that closes a JSON string: `n` characters, a quote, a suffix. */
typedef struct token_trie_closer {
    uint32_t token;
    uint32_t n;
    str suffix;
    uint32_t common; /* length of the common prefix with the suffix of the previous closer */
} token_trie_closer;

/* A token that stays inside a JSON string and adds `n` characters. */
typedef struct token_trie_inside {
    uint32_t token;
    uint32_t n; /* an incomplete character counts */
} token_trie_inside;

typedef struct token_trie {
    token_trie_source source;
    str *texts;       /* [source.n], only while building */
    uint32_t words;   /* of a mask: 32 tokens each */
    uint32_t longest; /* bytes of the longest token */
    uint32_t n_nodes, nodes_room;
    token_trie_node *nodes; /* [n_nodes] */
    token_trie_summary
        tree[TRIE_TREES]; /* the whole tries; their nodes are the roots, which have no byte */
    uint32_t *tree_bits;  /* [TRIE_TREES][words], masks of their tokens */
    uint32_t *order;      /* [n_text], tokens sorted by trie, then by bytes */
    uint32_t n_text;
    token_trie_summary *summaries; /* [n_summaries], by node */
    uint32_t n_summaries, summaries_room;
    uint32_t *ends; /* [n_ends], tokens of kind TRIE_END */
    uint32_t n_ends;
    uint32_t *within;          /* [TRIE_SHORT + 1][words], masks: row k has the tokens that stay in
                                * a string and add at most k characters; row 0: any number */
    token_trie_inside *longer; /* [n_longer], of more than TRIE_SHORT characters, longest first */
    uint32_t n_longer;
    token_trie_closer *closers; /* [n_closers], by suffix */
    uint32_t n_closers;
} token_trie;

mote_status token_trie_new(token_trie **out, const token_trie_source *source, mote_error *err);
/* NULL is allowed. */
void token_trie_free(token_trie *v);
/* Memory in use, in bytes. */
uint64_t token_trie_bytes(const token_trie *v);

static inline void token_trie_allow(uint32_t *bits, uint32_t token)
{
    bits[token / 32] |= UINT32_C(1) << token % 32;
}

/* The summary of a node that has one. */
const token_trie_summary *token_trie_summary_of(const token_trie *v, uint32_t node);

#endif
