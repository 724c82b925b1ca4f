/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocab.c - loads the vocabulary and the merges from GGUF metadata.
 *
 * The file writes each byte of a token as a printable character (the GPT-2 byte alphabet); added
 * tokens are plain text. The loader converts tokens to bytes in one block. A merge is written as
 * two tokens with a space between; the loader converts it to a pair of ids with a temporary hash
 * index.
 *
 * The file is untrusted: a wrong type, count, character or reference is an error that names the
 * token or merge.
 */
#include "tok/tok_int.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>

enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5 };

enum {
    N_ALPHABET = 324, /* code points of the byte alphabet are below this */
    NOT_A_BYTE = 0xFFFF,
    MAX_WRITTEN = 2 * TOK_MAX_TOKEN, /* bytes of a token in the file */
    HASH_SLACK = 8,                  /* readable bytes required after hashed text */
    INDEX_PROBES = 512
};

typedef struct reader {
    tok *t;
    const gguf_kv *tokens, *types, *merges;
    uint16_t byte_of[N_ALPHABET]; /* code point to byte, or NOT_A_BYTE */
    uint64_t *index;              /* [index_mask + 1]: normal tokens by their bytes */
    size_t index_mask;
} reader;

/* ---- the alphabet ---- */

/* Printable Latin-1 characters represent themselves; the other 68 bytes start at U+0100. */
static void vocab_make_alphabet(reader *r)
{
    unsigned next = 256;
    memset(r->byte_of, 0xFF, sizeof r->byte_of);
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        r->byte_of[printable ? b : next++] = (uint16_t)b;
    }
}

/* Converts text of the byte alphabet to bytes. If `space` is not NULL, the text must contain one
 * space; *space is the number of bytes before it. False: invalid character. */
static bool vocab_to_bytes(const reader *r, str text, unsigned char *out, size_t *n, size_t *space)
{
    const unsigned char *p = (const unsigned char *)text.p, *end = p + text.n;
    size_t used = 0;
    bool wanted = space != NULL;
    while (p < end) {
        unsigned c = *p++;
        if (c >= 0x80) { /* characters of the alphabet have at most two bytes */
            if (c < 0xC2 || c > 0xC5 || p == end || (*p & 0xC0) != 0x80)
                return false;
            c = (c & 0x1F) << 6 | (*p++ & 0x3Fu);
        }
        unsigned byte = c < N_ALPHABET ? r->byte_of[c] : NOT_A_BYTE;
        if (byte != NOT_A_BYTE) {
            out[used++] = (unsigned char)byte;
        } else if (c == ' ' && wanted) {
            *space = used;
            wanted = false;
        } else {
            return false;
        }
    }
    *n = used;
    return !wanted;
}

static bool vocab_is_utf8(str text)
{
    const unsigned char *p = (const unsigned char *)text.p;
    int bytes;
    for (size_t at = 0; at < text.n; at += (size_t)bytes)
        if ((bytes = utf8_check(p + at, text.n - at)) <= 0)
            return false;
    return true;
}

/* ---- the index ---- */

/*
 * A slot holds the upper 43 bits of a hash and id + 1; 0 is free. A second token with an equal hash
 * is rejected, so a hash identifies a token: a lookup costs one cache line and no comparison. That
 * line is rarely cached, so tokens and merges are processed in batches of BATCH, and the lines of
 * the whole batch are prefetched first.
 */
enum { INDEX_ID_BITS = MERGES_BITS, BATCH = 32 };

/* Reads up to HASH_SLACK bytes after the text; they do not affect the result. */
static uint64_t index_hash(str text)
{
    const char *p = text.p;
    size_t n = text.n;
    uint64_t h = (n + 1) * 0x9E3779B97F4A7C15u, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xA0761D6478BD642Fu;
        h ^= h >> 32;
    }
    memcpy(&word, p, 8);
    word &= ((uint64_t)1 << 8 * n) - 1;
    h = (h ^ word) * 0xE7037ED1A0B428DBu;
    return h ^ h >> 29;
}

/* The slot with this hash, or the free slot for it; NULL after INDEX_PROBES. */
static uint64_t *index_find(const reader *r, uint64_t hash)
{
    size_t at = (size_t)hash & r->index_mask;
    for (int probe = 0; probe < INDEX_PROBES; probe++, at = (at + 1) & r->index_mask)
        if (r->index[at] == 0 || (r->index[at] ^ hash) >> INDEX_ID_BITS == 0)
            return &r->index[at];
    return NULL;
}

static mote_status index_add(reader *r, uint32_t id, uint64_t hash, mote_error *err)
{
    uint64_t *slot = index_find(r, hash);
    if (slot == NULL)
        return err_set(err, MOTE_E_FORMAT, "too many hash collisions in the vocabulary");
    if (*slot != 0)
        return err_set(err, MOTE_E_FORMAT, "token %u is a duplicate", id);
    *slot = hash >> INDEX_ID_BITS << INDEX_ID_BITS | (id + 1);
    return MOTE_OK;
}

static bool index_get(const reader *r, uint64_t hash, uint32_t *id)
{
    const uint64_t *slot = index_find(r, hash);
    if (slot == NULL || *slot == 0)
        return false;
    *id = ((uint32_t)*slot & (MERGES_LIMIT - 1)) - 1;
    return true;
}

static uint64_t index_hash_prefetch(const reader *r, str text)
{
    uint64_t hash = index_hash(text);
    __builtin_prefetch(&r->index[hash & r->index_mask]);
    return hash;
}

/* ---- tokens ---- */

/* Counts tokens and added tokens; checks every type. */
static mote_status vocab_count_tokens(reader *r, mote_error *err)
{
    tok *t = r->t;
    for (uint32_t id = 0; id < r->types->count; id++) {
        int64_t type = 0;
        gguf_int_at(r->types, id, &type);
        if (type == TYPE_CONTROL || type == TYPE_USER_DEFINED)
            t->n_added++;
        else if (type != TYPE_NORMAL && type != TYPE_UNUSED)
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "token %u has type %" PRId64
                           "; supported: 1 (normal), 3 (control), 4 (user-defined), 5 (unused)",
                           id, type);
        if (type != TYPE_UNUSED)
            t->n_tokens = id + 1;
    }
    if (t->n_added > TOK_MAX_ADDED)
        return err_set(err, MOTE_E_UNSUPPORTED, "%u added tokens; at most %d", t->n_added,
                       TOK_MAX_ADDED);
    return MOTE_OK;
}

/* The converter gives every token of the form <|...|> the type control. The tokenizer of the model
 * lists six of them as not special: they are shown, like <think>. */
static bool vocab_is_special(str text)
{
    static const char *const shown[] = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                                        "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (str_is(text, shown[i]))
            return false;
    return true;
}

/* Appends the bytes of one token. */
static mote_status vocab_add_token(tok *t, const reader *r, uint32_t id, int64_t type, str text,
                                   mote_error *err)
{
    unsigned char *out = t->text + t->starts[id];
    size_t n = text.n;
    if (text.n == 0 || text.n > MAX_WRITTEN)
        return err_set(err, MOTE_E_FORMAT, "token %u has %zu bytes; expected 1 to %d", id, text.n,
                       MAX_WRITTEN);
    if (type == TYPE_NORMAL) {
        if (!vocab_to_bytes(r, text, out, &n, NULL))
            return err_set(err, MOTE_E_FORMAT,
                           "token %u contains characters outside the byte alphabet", id);
    } else {
        if (!vocab_is_utf8(text))
            return err_set(err, MOTE_E_FORMAT, "added token %u is not valid UTF-8", id);
        memcpy(out, text.p, n);
        t->added[t->n_added++] = (tok_added){id, type == TYPE_CONTROL && vocab_is_special(text)};
    }
    if (n > TOK_MAX_TOKEN)
        return err_set(err, MOTE_E_FORMAT, "token %u has %zu bytes; at most %d", id, n,
                       TOK_MAX_TOKEN);
    t->starts[id + 1] = t->starts[id] + (uint32_t)n;
    if (n > t->longest)
        t->longest = (uint32_t)n;
    return MOTE_OK;
}

static mote_status vocab_read_tokens(reader *r, mote_error *err)
{
    tok *t = r->t;
    gguf_str_walk walk = {0};
    str text;
    t->n_added = 0; /* counted again below */
    for (uint32_t id = 0; id < t->n_tokens && gguf_next_str(r->tokens, &walk, &text); id++) {
        int64_t type = TYPE_UNUSED;
        gguf_int_at(r->types, id, &type);
        t->starts[id + 1] = t->starts[id];
        if (type != TYPE_UNUSED)
            TRY(vocab_add_token(t, r, id, type, text, err));
    }
    return tok_added_sort(t, err);
}

/* Indexes the normal tokens. Merges and single bytes never produce an added token. */
static mote_status vocab_index_tokens(reader *r, mote_error *err)
{
    tok *t = r->t;
    uint32_t ids[BATCH], n_added = 0;
    uint64_t hashes[BATCH];
    for (uint32_t next = 0; next < t->n_tokens;) {
        uint32_t n = 0;
        for (; n < BATCH && next < t->n_tokens; next++) {
            str text = tok_text(t, next);
            bool added = n_added < t->n_added && t->added[n_added].id == next;
            n_added += added;
            if (added || text.n == 0)
                continue;
            ids[n] = next;
            hashes[n++] = index_hash_prefetch(r, text);
        }
        for (uint32_t i = 0; i < n; i++)
            TRY(index_add(r, ids[i], hashes[i], err));
    }
    for (unsigned b = 0; b < 256; b++) {
        const char byte[1 + HASH_SLACK] = {(char)b};
        if (!index_get(r, index_hash((str){byte, 1}), &t->byte_id[b]))
            return err_set(err, MOTE_E_FORMAT, "no token for byte 0x%02X", b);
    }
    return MOTE_OK;
}

/* ---- merges ---- */

/* A merge while it is read. */
typedef struct merge {
    str text;
    uint64_t left_hash, right_hash;
    uint32_t left, right;
} merge;

static mote_status merge_not_tokens(const merge *one, uint32_t rank, mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "merge %u '%.*s' is not a pair of tokens", rank,
                   STR_ARG(one->text));
}

/* False in the id range of the added tokens: a merge must not produce one, or plain text could
 * become a control token. */
static bool merge_may_produce(const tok *t, uint32_t id)
{
    bool among = t->n_added > 0 && id >= t->added[0].id && id <= t->added[t->n_added - 1].id;
    return id < t->n_tokens && !among;
}

/*
 * Parses a merge and finds its result. Vocabularies list tokens in the order of the merges, so the
 * token after the last result is tried first.
 */
static mote_status merge_parse(reader *r, uint32_t rank, merge *one, mote_error *err)
{
    tok_merges *m = &r->t->merges;
    char bytes[2 * MAX_WRITTEN + HASH_SLACK];
    size_t n, n_left;
    if (one->text.n > 2 * MAX_WRITTEN ||
        !vocab_to_bytes(r, one->text, (unsigned char *)bytes, &n, &n_left))
        return merge_not_tokens(one, rank, err);
    one->left_hash = index_hash_prefetch(r, (str){bytes, n_left});
    one->right_hash = index_hash_prefetch(r, (str){bytes + n_left, n - n_left});
    str whole = {bytes, n};
    uint32_t result = rank > 0 ? m->result[rank - 1] + 1 : 0;
    if ((!merge_may_produce(r->t, result) || !str_eq(tok_text(r->t, result), whole)) &&
        !index_get(r, index_hash(whole), &result))
        return err_set(err, MOTE_E_FORMAT, "merge %u '%.*s': the result is not a token", rank,
                       STR_ARG(one->text));
    m->result[rank] = result;
    return MOTE_OK;
}

static mote_status merge_add(tok_merges *m, const merge *one, uint32_t rank, mote_error *err)
{
    uint64_t key = merges_key(one->left, one->right), hash = merges_hash(key);
    size_t at = (size_t)(hash >> m->shift), bit = merges_bit(m, hash);
    m->filter[bit / 64] |= (uint64_t)1 << bit % 64;
    for (int probe = 0; probe < MERGES_PROBES; probe++, at = (at + 1) & (m->n_slots - 1)) {
        if (m->slots[at] == 0) {
            m->slots[at] = key << MERGES_BITS | rank;
            return MOTE_OK;
        }
        if (m->slots[at] >> MERGES_BITS == key)
            return err_set(err, MOTE_E_FORMAT, "merge %u '%.*s' is a duplicate", rank,
                           STR_ARG(one->text));
    }
    return err_set(err, MOTE_E_FORMAT, "too many hash collisions in the merges");
}

/* Works in batches, so that the random accesses to the tables can be prefetched. */
static mote_status vocab_read_merges(reader *r, mote_error *err)
{
    tok_merges *m = &r->t->merges;
    gguf_str_walk walk = {0};
    for (uint32_t rank = 0; rank < m->n;) {
        merge some[BATCH];
        uint32_t n = 0;
        for (; n < BATCH && gguf_next_str(r->merges, &walk, &some[n].text); n++)
            TRY(merge_parse(r, rank + n, &some[n], err));
        for (uint32_t i = 0; i < n; i++) {
            if (!index_get(r, some[i].left_hash, &some[i].left) ||
                !index_get(r, some[i].right_hash, &some[i].right))
                return merge_not_tokens(&some[i], rank + i, err);
            uint64_t hash = merges_hash(merges_key(some[i].left, some[i].right));
            __builtin_prefetch(&m->slots[hash >> m->shift]);
            __builtin_prefetch(&m->filter[merges_bit(m, hash) / 64]);
        }
        for (uint32_t i = 0; i < n; i++)
            TRY(merge_add(m, &some[i], rank + i, err));
        rank += n;
    }
    return MOTE_OK;
}

/* ---- loading ---- */

static mote_status vocab_find_array(const gguf *g, const char *key, bool strings,
                                    const gguf_kv **out, mote_error *err)
{
    int64_t first;
    *out = gguf_find(g, key);
    if (*out == NULL)
        return err_set(err, MOTE_E_FORMAT, "%s is missing", key);
    bool fits =
        strings ? (*out)->type == GGUF_STRING : (*out)->count == 0 || gguf_int_at(*out, 0, &first);
    if (!(*out)->is_array || !fits)
        return err_set(err, MOTE_E_FORMAT, "%s is not an array of %s", key,
                       strings ? "strings" : "integers");
    if ((*out)->count >= MERGES_LIMIT)
        return err_set(err, MOTE_E_UNSUPPORTED, "%s has %" PRIu64 " entries; at most %d", key,
                       (*out)->count, MERGES_LIMIT - 1);
    return MOTE_OK;
}

static mote_status vocab_find_metadata(reader *r, const gguf *g, mote_error *err)
{
    str model, pre;
    TRY(gguf_get_str(g, "tokenizer.ggml.model", &model, NULL, err));
    TRY(gguf_get_str(g, "tokenizer.ggml.pre", &pre, NULL, err));
    if (!str_is(model, "gpt2") || !str_is(pre, "qwen35"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tokenizer '%.*s' with pre-tokenizer '%.*s' is not supported; supported: "
                       "gpt2 with qwen35",
                       STR_ARG(model), STR_ARG(pre));
    TRY(vocab_find_array(g, "tokenizer.ggml.tokens", true, &r->tokens, err));
    TRY(vocab_find_array(g, "tokenizer.ggml.token_type", false, &r->types, err));
    TRY(vocab_find_array(g, "tokenizer.ggml.merges", true, &r->merges, err));
    if (r->tokens->count != r->types->count)
        return err_set(err, MOTE_E_FORMAT, "%" PRIu64 " tokens but %" PRIu64 " token types",
                       r->tokens->count, r->types->count);
    return MOTE_OK;
}

/* Smallest power of two >= 2 * n, so that the table is at most half full. */
static size_t vocab_table_size(uint64_t n)
{
    size_t size = 64;
    while (size < 2 * n)
        size *= 2;
    return size;
}

static mote_status vocab_allocate(reader *r, mote_error *err)
{
    tok *t = r->t;
    tok_merges *m = &t->merges;
    size_t index_size = vocab_table_size(t->n_tokens);
    r->index_mask = index_size - 1;
    m->n = (uint32_t)r->merges->count;
    m->n_slots = vocab_table_size(m->n);
    m->shift = (unsigned)__builtin_clzll(m->n_slots) + 1;
    bool all =
        (r->index = mem_new(index_size, sizeof *r->index)) != NULL &&
        (m->slots = mem_new(m->n_slots, sizeof *m->slots)) != NULL &&
        (m->filter = mem_new(m->n_slots / 64, MERGES_FILTER_BITS * sizeof *m->filter)) != NULL &&
        (m->result = mem_new(m->n, sizeof *m->result)) != NULL &&
        (t->starts = mem_new((size_t)t->n_tokens + 1, sizeof *t->starts)) != NULL &&
        (t->text = mem_new(r->tokens->n_bytes + HASH_SLACK, 1)) != NULL &&
        (t->added = mem_new(t->n_added, sizeof *t->added)) != NULL &&
        (t->by_text = mem_new(t->n_added, sizeof *t->by_text)) != NULL;
    if (!all)
        return err_set(err, MOTE_E_MEMORY, "out of memory: vocabulary of %u tokens", t->n_tokens);
    return tok_classes_init(&t->classes, err);
}

/* Frees the difference between the size in the file and the decoded size. */
static mote_status vocab_shrink_text(tok *t, mote_error *err)
{
    size_t n = t->starts[t->n_tokens];
    unsigned char *text = mem_resize(t->text, n, n, 1);
    if (text == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes of tokens", n);
    t->text = text;
    return MOTE_OK;
}

/* The tokens that end a generation. */
static mote_status vocab_find_ends(tok *t, const gguf *g, mote_error *err)
{
    uint32_t eos = 0;
    bool found;
    TRY(gguf_get_u32(g, "tokenizer.ggml.eos_token_id", &eos, &found, err));
    if (found && eos >= t->n_tokens)
        return err_set(err, MOTE_E_FORMAT,
                       "tokenizer.ggml.eos_token_id is %u; the vocabulary has %u tokens", eos,
                       t->n_tokens);
    t->ends[0] = tok_find_added(t, "<|im_end|>");
    t->ends[1] = tok_find_added(t, "<|endoftext|>");
    t->ends[2] = found ? (mote_token)eos : -1;
    return MOTE_OK;
}

static mote_status vocab_read(reader *r, const gguf *g, mote_error *err)
{
    TRY(vocab_find_metadata(r, g, err));
    TRY(vocab_count_tokens(r, err));
    TRY(vocab_allocate(r, err));
    vocab_make_alphabet(r);
    TRY(vocab_read_tokens(r, err));
    TRY(vocab_index_tokens(r, err));
    TRY(vocab_shrink_text(r->t, err));
    TRY(vocab_read_merges(r, err));
    return vocab_find_ends(r->t, g, err);
}

mote_status tok_new(tok **out, const gguf *g, mote_error *err)
{
    *out = NULL;
    reader r = {.t = mem_new(1, sizeof *r.t)};
    if (r.t == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: tokenizer");
    mote_status status = vocab_read(&r, g, err);
    mem_free(r.index);
    if (status == MOTE_OK)
        *out = r.t;
    else
        tok_free(r.t);
    return status;
}

void tok_free(tok *t)
{
    if (t == NULL)
        return;
    tok_classes_fini(&t->classes);
    mem_free(t->by_text);
    mem_free(t->added);
    mem_free(t->text);
    mem_free(t->starts);
    mem_free(t->merges.result);
    mem_free(t->merges.filter);
    mem_free(t->merges.slots);
    mem_free(t);
}

uint32_t tok_n_tokens(const tok *t)
{
    return t->n_tokens;
}

uint64_t tok_private_bytes(const tok *t)
{
    const tok_merges *m = &t->merges;
    return sizeof *t + (uint64_t)m->n_slots * sizeof *m->slots +
           (uint64_t)m->n_slots * MERGES_FILTER_BITS / 8 + (uint64_t)m->n * sizeof *m->result +
           ((uint64_t)t->n_tokens + 1) * sizeof *t->starts + t->starts[t->n_tokens] +
           (uint64_t)t->n_added * (sizeof *t->added + sizeof *t->by_text) +
           (uint64_t)t->classes.n_blocks * CLASS_BLOCK;
}

bool tok_is_end(const tok *t, mote_token id)
{
    return id >= 0 && (id == t->ends[0] || id == t->ends[1] || id == t->ends[2]);
}
