/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_int.h - data structures shared by the files of tok/.
 *
 * tok_merges answers: what is the rank of merging two tokens? It is a hash table with open
 * addressing, at most half full. A slot packs a used bit, both ids and the rank into 64 bits, so a
 * lookup costs one cache line. No entry is further than MERGES_PROBES slots from its home; a file
 * with crafted collisions is rejected. Most pairs do not merge: a bit filter with
 * MERGES_FILTER_BITS bits per slot rejects 15 of 16 of them before the table is read.
 */
#ifndef MOTE_TOK_TOK_INT_H
#define MOTE_TOK_TOK_INT_H

#include "base/err.h"
#include "tok/tok.h"
#include "tok/unicode.h"

enum {
    MERGES_BITS = 21, /* of an id and of a rank; three of them and a used bit fit 64 bits */
    MERGES_LIMIT = 1 << MERGES_BITS,
    MERGES_PROBES = 512,
    MERGES_FILTER_BITS = 8 /* per slot */
};

#define MERGES_NONE UINT32_MAX

typedef struct tok_merges {
    uint64_t *slots;  /* taken << 63 | left << 42 | right << 21 | rank */
    size_t n_slots;   /* a power of two */
    unsigned shift;   /* hash >> shift: slot number */
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

/* Bit number of a hash in the filter. */
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

/* ---- the tokenizer ---- */

enum {
    TOK_MAX_TOKEN = 1024,  /* bytes of one token; the longest of Qwen 3.5 has 128 */
    TOK_MAX_ADDED = 1024,  /* added tokens; Qwen 3.5 has 33 */
    TOK_MAX_TEXT = 1 << 28 /* bytes of one text; more than any context */
};

/* A token that is matched in the raw text before normalisation. */
typedef struct tok_added {
    uint32_t id;
    bool control;
} tok_added;

struct tok {
    uint32_t n_tokens;
    uint32_t longest;    /* bytes of the longest token */
    uint32_t *starts;    /* [n_tokens + 1], of each token's bytes in text */
    unsigned char *text; /* [starts[n_tokens]] */
    uint32_t byte_id[256];
    tok_merges merges;
    tok_classes classes;
    tok_added *added;       /* [n_added], by id */
    uint32_t *by_text;      /* [n_added], indices into added, sorted by text */
    uint32_t n_added;       /* also the allocated size */
    bool starts_added[256]; /* some added token starts with this byte */
    mote_token ends[3];
};

static inline str tok_text(const tok *t, uint32_t id)
{
    return (str){(const char *)t->text + t->starts[id], t->starts[id + 1] - t->starts[id]};
}

/* ---- added tokens (tok.c) ---- */

/* Sorts the added tokens by text; rejects duplicates. */
mote_status tok_added_sort(tok *t, mote_error *err);

/* Position of the first added token at or after `at`, the longest match there; n: none. */
size_t tok_added_find(const tok *t, const unsigned char *text, size_t n, size_t at, uint32_t *id);

/* ---- bpe.c, bpe_long.c: one word to token ids ---- */

enum { BPE_FEW = 128 }; /* longest word for bpe_merge_few */

typedef struct bpe_cached bpe_cached;

/* Output and working memory of one tok_encode call. */
typedef struct bpe {
    const tok *t;
    mote_token *ids; /* [room] */
    size_t room;
    size_t n;          /* ids so far; may exceed room */
    bpe_cached *cache; /* [cache_mask + 1], or NULL */
    size_t cache_mask;
    uint64_t *links; /* working memory of a merge, for links_room bytes of text */
    size_t links_room;
    uint32_t *parts;         /* ids of a long word that is not complete */
    bool (*hook)(void *ctx); /* see tok_hook; NULL: none */
    void *hook_ctx;
    size_t since_hook; /* bytes encoded since the last call */
} bpe;

/* text_bytes: length of the whole text; short texts get no cache. */
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

/* Counts encoded bytes and calls the hook when it is time. MOTE_E_CANCELED: it returned false. */
mote_status bpe_advance(bpe *b, size_t bytes, mote_error *err);
/* BPE of n <= BPE_FEW bytes into id[]; returns the number of ids. */
size_t bpe_merge_few(const tok *t, const unsigned char *word, size_t n, uint32_t id[BPE_FEW]);
/* bpe_word for n > BPE_FEW. */
mote_status bpe_word_long(bpe *b, const unsigned char *word, size_t n, mote_error *err);

/* ---- pretokenize.c ---- */

/* End of the word that starts at `at` < n. The text is well-formed UTF-8. */
size_t tok_word_end(const tok_classes *c, const unsigned char *text, size_t n, size_t at);

#endif
