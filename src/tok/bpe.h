/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.h - a word to token ids by merging. */
#ifndef MOTE_TOK_BPE_H
#define MOTE_TOK_BPE_H

#include "tok/parts.h"

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

#endif
