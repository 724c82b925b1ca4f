/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe_long.c - BPE of a long word, exact, with working memory that does not depend on its length.
 *
 * A linked list of symbols and a heap of ranks merge n bytes in O(n log n), but take 32 bytes of
 * memory per byte. So a word is merged in windows, and the windows are joined.
 *
 * Why this is exact. Let left and right be two texts, T the last token of BPE(left) and Q the first
 * of BPE(right). BPE(left + right) = BPE(left) + BPE(right) if and only if BPE(T + Q) = T, Q:
 *
 *   Before the first merge across the seam, both sides evolve as they do alone. The merges inside T
 *   involve no symbol outside T, because T's boundary is final, and the same holds for Q. The next
 *   merge is always the one with the lowest (rank, position), so the merges inside T, inside Q and
 *   across the seam occur in the same order with or without the text around T and Q.
 *
 * For the same reason consecutive tokens of an encoding are the encoding of their text. If the seam
 * of two windows does not hold, tokens on both sides of it are merged again as one text, and more
 * of them until both seams of that text hold.
 *
 * The last KEEP_BYTES of the word can be merged again. How far a byte can change tokens before it
 * is a property of the merges; with those of Qwen 3.5 it is tens of bytes. If it is ever further
 * than KEEP_BYTES, the word is encoded again in one window.
 */
#include "tok/tok_int.h"

#include "base/mem.h"

enum {
    WINDOW_BYTES = 1024,
    KEEP_BYTES = 32768,
    MOST_PARTS = 2 * KEEP_BYTES + WINDOW_BYTES, /* ids of the end of the word; a token has a byte */
    FIRST_RETRY = 4                             /* tokens on each side of a seam */
};

/* ---- merging ---- */

/*
 * A text as a linked list. Symbol i starts at byte i. A merge keeps the left symbol, so symbol 0
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

enum { LINKS_PER_BYTE = 4 }; /* 64-bit words: two for the heap, two for the other arrays */

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
    uint32_t *p = (uint32_t *)(b->links + 2 * n);
    *c = (chain){p, p + n, p + 2 * n, p + 3 * n, b->links, 0};
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

static void chain_fill(const tok *t, chain *c, const unsigned char *text, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->id[i] = t->byte_id[text[i]];
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

static void chain_merge(const tok_merges *m, chain *c, uint32_t n)
{
    while (c->n_heap > 0) {
        uint64_t top = heap_pop(c);
        uint32_t i = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (c->rank[i] != rank)
            continue;
        uint32_t gone = c->next[i];
        c->id[i] = m->result[rank];
        c->rank[gone] = MERGES_NONE;
        c->next[i] = c->next[gone];
        if (c->next[i] < n)
            c->prev[c->next[i]] = i;
        chain_pair_changed(m, c, i, n);
        if (i > 0)
            chain_pair_changed(m, c, c->prev[i], n);
    }
}

/* BPE of n >= 1 bytes into ids[] (at most n); the result is *n_ids. */
static mote_status bpe_merge(bpe *b, const unsigned char *text, size_t n, uint32_t *ids,
                             size_t *n_ids, mote_error *err)
{
    chain c = {0};
    *n_ids = 0;
    if (n <= BPE_FEW) {
        uint32_t few[BPE_FEW];
        *n_ids = bpe_merge_few(b->t, text, n, few);
        memcpy(ids, few, *n_ids * sizeof *ids);
        return MOTE_OK;
    }
    TRY(chain_init(b, &c, n, err));
    chain_fill(b->t, &c, text, (uint32_t)n);
    chain_merge(&b->t->merges, &c, (uint32_t)n);
    for (uint32_t i = 0; i < n; i = c.next[i])
        ids[(*n_ids)++] = c.id[i];
    return MOTE_OK;
}

/* ---- windows ---- */

typedef struct long_word {
    bpe *b;
    const unsigned char *text; /* [at] is the end of the encoded part */
    size_t at;
    uint32_t *left; /* the last tokens of the encoded part; the others are passed on */
    size_t n_left, left_bytes;
    uint32_t before; /* the last token passed on */
    bool passed;     /* there is one */
    uint32_t *right; /* tokens of the next window */
    size_t n_right;
    uint32_t *middle; /* tokens of the text merged again at the seam */
    size_t n_middle;
} long_word;

static size_t tokens_bytes(const tok *t, const uint32_t *ids, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += tok_text(t, ids[i]).n;
    return bytes;
}

/* Is BPE of the text of both tokens these two tokens? */
static mote_status bpe_seam_holds(bpe *b, uint32_t first, uint32_t second, bool *holds,
                                  mote_error *err)
{
    unsigned char text[2 * TOK_MAX_TOKEN];
    uint32_t ids[2 * TOK_MAX_TOKEN];
    size_t n;
    const str a = tok_text(b->t, first), z = tok_text(b->t, second);
    memcpy(text, a.p, a.n);
    memcpy(text + a.n, z.p, z.n);
    TRY(bpe_merge(b, text, a.n + z.n, ids, &n, err));
    *holds = n == 2 && ids[0] == first && ids[1] == second;
    return MOTE_OK;
}

/* Checks the seams around the middle, which replaces n_left and n_right tokens of the sides.
 * Without a middle there is one seam. */
static mote_status word_check_seams(long_word *w, size_t n_left, size_t n_right, bool *left_holds,
                                    bool *right_holds, mote_error *err)
{
    const uint32_t *first = w->n_middle > 0 ? w->middle : w->right + n_right;
    *left_holds = *right_holds = true;
    if (n_left < w->n_left || w->passed)
        TRY(bpe_seam_holds(w->b, n_left < w->n_left ? w->left[w->n_left - n_left - 1] : w->before,
                           *first, left_holds, err));
    if (w->n_middle > 0 && n_right < w->n_right)
        TRY(bpe_seam_holds(w->b, w->middle[w->n_middle - 1], w->right[n_right], right_holds, err));
    return MOTE_OK;
}

static size_t word_more(size_t n, size_t most)
{
    const size_t more = n > 0 ? 4 * n : FIRST_RETRY;
    return more < most ? more : most;
}

/* Finds tokens of both sides that have to be merged again. *found is false if KEEP_BYTES do not
 * suffice. */
static mote_status word_find_middle(long_word *w, size_t *n_left, size_t *n_right, bool *found,
                                    mote_error *err)
{
    const tok *t = w->b->t;
    bool left_holds, right_holds;
    *n_left = *n_right = w->n_middle = 0;
    *found = true;
    for (;;) {
        TRY(word_check_seams(w, *n_left, *n_right, &left_holds, &right_holds, err));
        if (left_holds && right_holds)
            return MOTE_OK;
        if (!left_holds && *n_left == w->n_left && w->n_middle > 0) {
            *found = false;
            return MOTE_OK;
        }
        if (!left_holds)
            *n_left = word_more(*n_left, w->n_left);
        if (!right_holds || w->n_middle == 0)
            *n_right = word_more(*n_right, w->n_right);
        const size_t before = tokens_bytes(t, w->left + w->n_left - *n_left, *n_left);
        const size_t after = tokens_bytes(t, w->right, *n_right);
        TRY(bpe_merge(w->b, w->text + w->at - before, before + after, w->middle, &w->n_middle,
                      err));
    }
}

static void word_pass_on(long_word *w, size_t keep_bytes)
{
    size_t n = 0;
    while (w->left_bytes > keep_bytes) {
        bpe_put(w->b, w->left[n]);
        w->left_bytes -= tok_text(w->b->t, w->left[n++]).n;
    }
    if (n == 0)
        return;
    w->before = w->left[n - 1];
    w->passed = true;
    w->n_left -= n;
    memmove(w->left, w->left + n, w->n_left * sizeof *w->left);
}

/* Appends the next `bytes` of the word. *found as in word_find_middle. */
static mote_status word_add_window(long_word *w, size_t bytes, bool *found, mote_error *err)
{
    size_t n_left, n_right;
    TRY(bpe_merge(w->b, w->text + w->at, bytes, w->right, &w->n_right, err));
    TRY(word_find_middle(w, &n_left, &n_right, found, err));
    if (!*found)
        return MOTE_OK;
    w->n_left -= n_left;
    memcpy(w->left + w->n_left, w->middle, w->n_middle * sizeof *w->left);
    w->n_left += w->n_middle;
    memcpy(w->left + w->n_left, w->right + n_right, (w->n_right - n_right) * sizeof *w->left);
    w->n_left += w->n_right - n_right;
    w->left_bytes += bytes;
    w->at += bytes;
    if (w->left_bytes > 2 * KEEP_BYTES)
        word_pass_on(w, KEEP_BYTES);
    return MOTE_OK;
}

static mote_status bpe_word_in_one(bpe *b, const unsigned char *word, size_t n, mote_error *err)
{
    uint32_t *ids = mem_new(n, sizeof *ids);
    size_t n_ids = 0;
    if (ids == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: encoding a word of %zu bytes", n);
    const mote_status status = bpe_merge(b, word, n, ids, &n_ids, err);
    for (size_t i = 0; i < n_ids && status == MOTE_OK; i++)
        bpe_put(b, ids[i]);
    mem_free(ids);
    return status;
}

mote_status bpe_word_long(bpe *b, const unsigned char *word, size_t n, mote_error *err)
{
    if (b->parts == NULL)
        b->parts = mem_new(2 * MOST_PARTS + WINDOW_BYTES, sizeof *b->parts);
    if (b->parts == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: encoding a word of %zu bytes", n);
    long_word w = {.b = b,
                   .text = word,
                   .left = b->parts,
                   .middle = b->parts + MOST_PARTS,
                   .right = b->parts + 2 * MOST_PARTS};
    const size_t n_before = b->n;
    bool found = true;
    while (w.at < n && found) {
        const size_t bytes = n - w.at < WINDOW_BYTES ? n - w.at : WINDOW_BYTES;
        TRY(bpe_advance(b, bytes, err));
        TRY(word_add_window(&w, bytes, &found, err));
    }
    if (found) {
        word_pass_on(&w, 0);
        return MOTE_OK;
    }
    b->n = n_before;
    return bpe_word_in_one(b, word, n, err);
}
