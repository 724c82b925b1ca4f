/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe.c - byte-level BPE: repeatedly merges the adjacent pair of lowest rank, the leftmost on ties.
 *
 * Three implementations with the same result:
 *
 *   cached   short words that occurred before in this text. The ids of a word depend only on its
 *            bytes, so the cache is exact.
 *   few      up to 128 bytes: the ranks of all pairs in an array, searched for each merge.
 *   many     longer words: a linked list of symbols and a heap of ranks; O(n log n) instead of
 *            O(n^2).
 */
#include "tok/tok_int.h"

#include "base/mem.h"

enum {
    FEW = 128,           /* longest word for the array search */
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
    b->cache = NULL;
    b->links = NULL;
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

/* Encodes a word of n bytes into id[]; returns the number of ids. */
static size_t bpe_merge_few(const tok *t, const unsigned char *word, size_t n, uint32_t id[FEW])
{
    const tok_merges *m = &t->merges;
    uint32_t rank[FEW]; /* rank[i]: of merging i with i + 1 */
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

/* ---- many ---- */

/*
 * The word as a linked list. Symbol i starts at byte i. A merge keeps the left symbol, so symbol 0
 * stays the head. A heap entry is rank << 32 | i: the minimum is the next pair to merge, leftmost
 * on ties. An entry is stale if the pair at i has another rank now.
 */
typedef struct chain {
    uint32_t *id;
    uint32_t *next; /* n: none */
    uint32_t *prev;
    uint32_t *rank; /* of the pair (i, next[i]); MERGES_NONE also for removed symbols */
    uint64_t *heap; /* [2 * n]: n - 1 pairs; a merge removes one and adds two */
    size_t n_heap;
} chain;

enum { LINKS_PER_BYTE = 8 }; /* 32-bit words: four for the heap, four for the other arrays */

static mote_status chain_init(bpe *b, chain *c, size_t n, mote_error *err)
{
    if (b->links_room < n) {
        mem_free(b->links);
        b->links_room = 0;
        b->links = mem_new(n, LINKS_PER_BYTE * sizeof *b->links);
        if (b->links == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory: encoding a word of %zu bytes", n);
        b->links_room = n;
    }
    uint32_t *p = b->links;
    *c = (chain){p + 4 * n, p + 5 * n, p + 6 * n, p + 7 * n, (uint64_t *)p, 0};
    return MOTE_OK;
}

static void heap_sift_down(uint64_t *heap, size_t n, size_t at)
{
    uint64_t entry = heap[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

static uint64_t heap_pop(chain *c)
{
    uint64_t top = c->heap[0];
    c->heap[0] = c->heap[--c->n_heap];
    if (c->n_heap > 1)
        heap_sift_down(c->heap, c->n_heap, 0);
    return top;
}

static void heap_push(chain *c, uint64_t entry)
{
    size_t at = c->n_heap++;
    for (; at > 0 && c->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = entry;
}

/* Updates the rank of the pair at i and pushes it on the heap. */
static void chain_pair_changed(const tok_merges *m, chain *c, uint32_t i, uint32_t n)
{
    c->rank[i] = c->next[i] < n ? merges_rank(m, c->id[i], c->id[c->next[i]]) : MERGES_NONE;
    if (c->rank[i] != MERGES_NONE)
        heap_push(c, (uint64_t)c->rank[i] << 32 | i);
}

static void chain_fill(const tok *t, chain *c, const unsigned char *word, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->id[i] = t->byte_id[word[i]];
        c->next[i] = i + 1;
        c->prev[i] = i - 1; /* unused for i = 0 */
        c->rank[i] = MERGES_NONE;
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        c->rank[i] = merges_rank(&t->merges, c->id[i], c->id[i + 1]);
        if (c->rank[i] != MERGES_NONE)
            c->heap[c->n_heap++] = (uint64_t)c->rank[i] << 32 | i;
    }
    for (size_t at = c->n_heap / 2; at-- > 0;)
        heap_sift_down(c->heap, c->n_heap, at);
}

static mote_status bpe_word_many(bpe *b, const unsigned char *word, uint32_t n, mote_error *err)
{
    const tok_merges *m = &b->t->merges;
    chain c = {0};
    TRY(chain_init(b, &c, n, err));
    chain_fill(b->t, &c, word, n);
    while (c.n_heap > 0) {
        uint64_t top = heap_pop(&c);
        uint32_t i = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (c.rank[i] != rank)
            continue;
        uint32_t gone = c.next[i];
        c.id[i] = m->result[rank];
        c.rank[gone] = MERGES_NONE;
        c.next[i] = c.next[gone];
        if (c.next[i] < n)
            c.prev[c.next[i]] = i;
        chain_pair_changed(m, &c, i, n);
        if (i > 0)
            chain_pair_changed(m, &c, c.prev[i], n);
    }
    for (uint32_t i = 0; i < n; i = c.next[i])
        bpe_put(b, c.id[i]);
    return MOTE_OK;
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

mote_status bpe_word(bpe *b, const unsigned char *word, size_t n, size_t readable, mote_error *err)
{
    if (n > FEW)
        return bpe_word_many(b, word, (uint32_t)n, err);
    bpe_cached *slot = NULL;
    uint64_t key[2];
    if (b->cache != NULL && n > 1 && n <= CACHED_BYTES) {
        cache_load_key(word, n, readable, key);
        slot = cache_slot(b, key);
        if (cache_take(b, slot, key))
            return MOTE_OK;
    }
    uint32_t id[FEW];
    size_t left = bpe_merge_few(b->t, word, n, id);
    for (size_t i = 0; i < left; i++)
        bpe_put(b, id[i]);
    if (slot != NULL)
        cache_put(slot, key, id, left);
    return MOTE_OK;
}
