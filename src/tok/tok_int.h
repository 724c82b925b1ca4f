/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merges.h - which two tokens become one, and how early.
 *
 * The inner loop of encoding asks for the rank of a pair. A pair, its rank and a
 * mark that the slot is taken fit into 64 bits, so an answer costs one cache line.
 * Open addressing, at most half full; no entry lies further than MERGES_PROBES
 * from its home, so a file that is made to collide is refused and an
 * unsuccessful search ends.
 *
 * Most answers are "none". The filter has a bit for each hash of three bits more
 * than the table knows, set if some merge has it: an eighth of the size, and 15
 * of 16 pairs that do not merge end there.
 */
#ifndef MOTE_TOK_TOK_INT_H
#define MOTE_TOK_TOK_INT_H

#include "base/err.h"
#include "tok/tok.h"
#include "tok/unicode.h"

enum {
    MERGES_BITS = 21, /* of an id and of a rank: 63 bits for the three */
    MERGES_LIMIT = 1 << MERGES_BITS,
    MERGES_PROBES = 512,
    MERGES_FILTER_BITS = 8 /* for each slot */
};

#define MERGES_NONE UINT32_MAX

typedef struct tok_merges {
    uint64_t *slots;  /* taken << 63 | left << 42 | right << 21 | rank */
    size_t n_slots;   /* a power of two */
    unsigned shift;   /* of a hash, for a number of a slot */
    uint64_t *filter; /* [n_slots * MERGES_FILTER_BITS / 64] */
    uint32_t *result; /* [n], by rank */
    uint32_t n;
} tok_merges;

static inline uint64_t merges_key(uint32_t left, uint32_t right)
{
    return (uint64_t)1 << 42 | (uint64_t)left << 21 | right;
}

static inline uint64_t merges_hash(uint64_t key)
{
    return key * 0x9E3779B97F4A7C15u;
}

/* The bit of a hash in the filter. */
static inline size_t merges_bit(const tok_merges *m, uint64_t hash)
{
    return (size_t)(hash >> (m->shift - 3));
}

/* The rank of merging left and right, or MERGES_NONE. */
static inline uint32_t merges_rank(const tok_merges *m, uint32_t left, uint32_t right)
{
    uint64_t key = merges_key(left, right), hash = merges_hash(key);
    size_t bit = merges_bit(m, hash);
    if ((m->filter[bit / 64] >> bit % 64 & 1) == 0)
        return MERGES_NONE;
    size_t at = (size_t)(hash >> m->shift);
    for (int probe = 0; probe < MERGES_PROBES; probe++) {
        uint64_t slot = m->slots[at];
        if (slot >> MERGES_BITS == key)
            return (uint32_t)slot & (MERGES_LIMIT - 1);
        if (slot == 0)
            return MERGES_NONE;
        at = (at + 1) & (m->n_slots - 1);
    }
    return MERGES_NONE;
}

/* ---- what a tok is made of; for the files of this folder only. ---- */

enum {
    TOK_MAX_TOKEN = 1024,  /* bytes of one token; the longest of Qwen 3.5 has 128 */
    TOK_MAX_ADDED = 1024,  /* added tokens; Qwen 3.5 has 33 */
    TOK_MAX_TEXT = 1 << 28 /* bytes of one text: far beyond any context */
};

/* Tokens that are found in the raw text before anything else is done to it. */
typedef struct tok_added {
    uint32_t id;
    bool control;
} tok_added;

struct tok {
    uint32_t n_tokens;
    uint32_t *starts;    /* [n_tokens + 1], of each token's bytes in text */
    unsigned char *text; /* [starts[n_tokens]] */
    uint32_t byte_id[256];
    tok_merges merges;
    tok_classes classes;
    tok_added *added;       /* [n_added], by id */
    uint32_t *by_text;      /* [n_added], numbers of added tokens in the order of their bytes */
    uint32_t n_added;       /* room for this many is held */
    bool starts_added[256]; /* some added token begins with this byte */
    mote_token ends[3];
};

static inline str tok_text(const tok *t, uint32_t id)
{
    return (str){(const char *)t->text + t->starts[id], t->starts[id + 1] - t->starts[id]};
}

/* ---- added.c ---- */

/* Sorts the added tokens by their text and refuses equal ones. */
mote_status tok_added_sort(tok *t, mote_error *err);

/* The first place at or after `at` where an added token stands, the longest one there. Returns n
 * if there is none. */
size_t tok_added_find(const tok *t, const unsigned char *text, size_t n, size_t at, uint32_t *id);

/* ---- a word to token ids by merging. ---- */

typedef struct bpe_cached bpe_cached;

/* One call of tok_encode: where ids go and what working memory it has. */
typedef struct bpe {
    const tok *t;
    mote_token *ids; /* [room] */
    size_t room;
    size_t n;          /* ids found so far; may pass room */
    bpe_cached *cache; /* [cache_mask + 1], or NULL */
    size_t cache_mask;
    uint32_t *links; /* of long words, see bpe.c */
    size_t links_room;
} bpe;

/* `text_bytes` tells how much is to come, so that short texts pay for no cache. */
mote_status bpe_init(bpe *b, const tok *t, size_t text_bytes, mote_error *err);
void bpe_fini(bpe *b);

static inline void bpe_put(bpe *b, uint32_t id)
{
    if (b->n < b->room)
        b->ids[b->n] = (mote_token)id;
    b->n++;
}

/* Appends the ids of the n >= 1 bytes at `word`; `readable` >= n bytes may be read there. */
mote_status bpe_word(bpe *b, const unsigned char *word, size_t n, size_t readable, mote_error *err);

/* ---- cuts normalised text into the words that merges never cross. ---- */

/* Where the word that begins at `at` < n ends. The text is well-formed UTF-8. */
size_t tok_word_end(const tok_classes *c, const unsigned char *text, size_t n, size_t at);

#endif
