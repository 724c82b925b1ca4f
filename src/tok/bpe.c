/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe.c - byte-level BPE: repeatedly merges the adjacent pair of lowest rank, the leftmost on ties.
 *
 * Three implementations with the same result:
 *
 *   cached   short words that occurred before in this text. The ids of a word depend only on its
 *            bytes, so the cache is exact.
 *   few      up to 128 bytes: the ranks of all pairs in an array, searched for each merge.
 *   long     longer words: bpe_long.c.
 */
#include "tok/tok_int.h"

#include "base/mem.h"

enum {
    CACHED_BYTES = 15,   /* longest word in the cache */
    CACHED_IDS = 4,      /* most ids of one */
    CACHE_FROM = 2048,   /* shortest text that gets a cache, in bytes */
    CACHE_SLOTS = 32768, /* at most 1 MB */
    BYTES_PER_SLOT = 16  /* of text */
};

/* Key: the bytes of the word, zero padding, and the length in the last byte (0: free slot). */
struct bpe_cached {
    uint64_t low, high;
    uint32_t ids[CACHED_IDS]; /* UINT32_MAX after the last */
};

mote_status bpe_init(bpe *b, const tok *t, size_t text_bytes, mote_error *err)
{
    b->t = t;
    if (text_bytes < CACHE_FROM)
        return MOTE_OK;
    size_t slots = 1;
    while (slots < CACHE_SLOTS && slots * BYTES_PER_SLOT < text_bytes)
        slots *= 2;
    b->cache = mem_new(slots, sizeof *b->cache);
    b->cache_mask = slots - 1;
    if (b->cache == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: encoding %zu bytes of text", text_bytes);
    return MOTE_OK;
}

void bpe_fini(bpe *b)
{
    mem_free(b->cache);
    mem_free(b->links);
    mem_free(b->parts);
    b->cache = NULL;
    b->links = NULL;
    b->parts = NULL;
}

/* ---- few ---- */

static size_t bpe_lowest_rank(const uint32_t *rank, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (rank[i] < rank[best])
            best = i;
    return best;
}

size_t bpe_merge_few(const tok *t, const unsigned char *word, size_t n, uint32_t id[BPE_FEW])
{
    const tok_merges *m = &t->merges;
    uint32_t rank[BPE_FEW]; /* rank[i]: of merging i with i + 1 */
    for (size_t i = 0; i < n; i++)
        id[i] = t->byte_id[word[i]];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = merges_rank(m, id[i], id[i + 1]);
    while (n > 1) {
        size_t i = bpe_lowest_rank(rank, n - 1);
        if (rank[i] == MERGES_NONE)
            break;
        id[i] = m->result[rank[i]];
        n--;
        memmove(id + i + 1, id + i + 2, (n - i - 1) * sizeof *id);
        if (i + 1 < n) {
            memmove(rank + i + 1, rank + i + 2, (n - i - 2) * sizeof *rank);
            rank[i] = merges_rank(m, id[i], id[i + 1]);
        }
        if (i > 0)
            rank[i - 1] = merges_rank(m, id[i - 1], id[i]);
    }
    return n;
}

/* ---- cached ---- */

static uint64_t cache_low_bytes(uint64_t word, size_t n)
{
    return n >= 8 ? word : word & (((uint64_t)1 << 8 * n) - 1);
}

/* Bytes of the word (at most 15), zero-padded, and its length in the last byte. `readable`: bytes
 * that may be read from `word` on. */
static void cache_load_key(const unsigned char *word, size_t n, size_t readable, uint64_t key[2])
{
    if (readable >= 16) {
        memcpy(key, word, 16);
        key[0] = cache_low_bytes(key[0], n);
        key[1] = n > 8 ? cache_low_bytes(key[1], n - 8) : 0;
    } else {
        key[0] = key[1] = 0;
        memcpy(key, word, n);
    }
    key[1] |= (uint64_t)n << 56;
}

static bpe_cached *cache_slot(const bpe *b, const uint64_t key[2])
{
    uint64_t hash = (key[0] * 0x9E3779B97F4A7C15u) ^ (key[1] * 0xC2B2AE3D27D4EB4Fu);
    return &b->cache[(hash ^ hash >> 32) * 0x9E3779B97F4A7C15u >> 40 & b->cache_mask];
}

static bool cache_take(bpe *b, const bpe_cached *slot, const uint64_t key[2])
{
    if (slot->low != key[0] || slot->high != key[1])
        return false;
    for (int i = 0; i < CACHED_IDS && slot->ids[i] != UINT32_MAX; i++)
        bpe_put(b, slot->ids[i]);
    return true;
}

static void cache_put(bpe_cached *slot, const uint64_t key[2], const uint32_t *ids, size_t n)
{
    if (n > CACHED_IDS)
        return;
    slot->low = key[0];
    slot->high = key[1];
    for (size_t i = 0; i < CACHED_IDS; i++)
        slot->ids[i] = i < n ? ids[i] : UINT32_MAX;
}

mote_status bpe_advance(bpe *b, size_t bytes, mote_error *err)
{
    enum { HOOK_BYTES = 65536 };
    b->since_hook += bytes;
    if (b->hook == NULL || b->since_hook < HOOK_BYTES)
        return MOTE_OK;
    b->since_hook = 0;
    return b->hook(b->hook_ctx) ? MOTE_OK : err_set(err, MOTE_E_CANCELED, "canceled");
}

mote_status bpe_word(bpe *b, const unsigned char *word, size_t n, size_t readable, mote_error *err)
{
    if (n > BPE_FEW)
        return bpe_word_long(b, word, n, err);
    TRY(bpe_advance(b, n, err));
    bpe_cached *slot = NULL;
    uint64_t key[2];
    if (b->cache != NULL && n > 1 && n <= CACHED_BYTES) {
        cache_load_key(word, n, readable, key);
        slot = cache_slot(b, key);
        if (cache_take(b, slot, key))
            return MOTE_OK;
    }
    uint32_t id[BPE_FEW];
    size_t left = bpe_merge_few(b->t, word, n, id);
    for (size_t i = 0; i < left; i++)
        bpe_put(b, id[i]);
    if (slot != NULL)
        cache_put(slot, key, id, left);
    return MOTE_OK;
}
