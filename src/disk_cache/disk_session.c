/* SPDX-License-Identifier: Apache-2.0 */
/* disk_session.c - see disk_session.h. */
#include "disk_cache/disk_session.h"

#include "base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

enum { PAGE = MOTE_PAGE_POSITIONS, CHUNK = MOTE_STATE_POSITIONS, MAX_STATES = 256 };
_Static_assert((int)PAGE == 2 * (int)CHUNK && (int)PAGE < (int)DISK_TOKENS,
               "a half page ends at a state");

uint64_t disk_adapters(const mote_lora_use *loras, size_t n)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++) {
        mote_lora_info info;
        mote_lora_describe(loras[i].lora, &info);
        const float scale = loras[i].scale == 0 ? 1 : loras[i].scale;
        hash = XXH3_64bits_withSeed(&info.fingerprint, sizeof info.fingerprint, hash);
        hash = XXH3_64bits_withSeed(&scale, sizeof scale, hash);
    }
    return hash;
}

void disk_scope_init(disk_scope *scope, const mote_engine *engine, bool drafts, uint64_t ns,
                     uint64_t adapter)
{
    mote_model_info info;
    *scope = (disk_scope){.ns = ns};
    _Static_assert(sizeof scope->binding == MOTE_IDENTITY_BYTES, "both are 128-bit hashes");
    unsigned char identity[MOTE_IDENTITY_BYTES];
    mote_engine_identity(engine, identity);
    memcpy(&scope->binding, identity, sizeof identity);
    if (adapter != 0) {
        const uint64_t both[] = {scope->binding.word[0], scope->binding.word[1], adapter};
        const XXH128_hash_t hash = XXH3_128bits(both, sizeof both);
        scope->binding = (disk_key){{hash.low64, hash.high64}};
    }
    mote_model_describe(mote_engine_model(engine), &info);
    scope->ahead = drafts && info.draft_head;
    snprintf(scope->label, sizeof scope->label, "%.*s", DISK_LABEL - 1, info.name);
}

/* ---- keys ---- */

/* Keys at growing positions. */
typedef struct key_chain {
    XXH3_state_t hash;
    const disk_scope *scope;
    const mote_token *tokens; /* [n] */
    size_t n, at;
} key_chain;

static void chain_begin(key_chain *k, const disk_scope *scope, const mote_token *tokens, size_t n)
{
    k->scope = scope;
    k->tokens = tokens;
    k->n = n;
    k->at = 0;
    XXH3_128bits_reset(&k->hash);
    XXH3_128bits_update(&k->hash, &scope->binding, sizeof scope->binding);
    XXH3_128bits_update(&k->hash, &scope->ns, sizeof scope->ns);
}

static void chain_advance(key_chain *k, size_t to)
{
    XXH3_128bits_update(&k->hash, k->tokens + k->at, (to - k->at) * sizeof *k->tokens);
    k->at = to;
}

static disk_key chain_digest(const XXH3_state_t *hash, disk_kind kind)
{
    const XXH128_hash_t h = XXH3_128bits_digest(hash);
    return (disk_key){{h.low64 ^ (uint64_t)kind * UINT64_C(0x9e3779b97f4a7c15), h.high64}};
}

/* The key of a record that ends at the position of the chain. Pages need `ahead` more tokens. */
static disk_key chain_key(const key_chain *k, disk_kind kind)
{
    if (kind != DISK_PAGE || k->scope->ahead == 0)
        return chain_digest(&k->hash, kind);
    XXH3_state_t more;
    XXH3_copyState(&more, &k->hash);
    XXH3_128bits_update(&more, k->tokens + k->at, k->scope->ahead * sizeof *k->tokens);
    return chain_digest(&more, kind);
}

size_t disk_session_find(disk_cache *c, const disk_scope *scope, const mote_token *tokens, size_t n,
                         size_t most)
{
    key_chain k;
    size_t found = 0;
    chain_begin(&k, scope, tokens, n);
    for (size_t at = CHUNK; at <= most && at + scope->ahead <= n; at += CHUNK) {
        chain_advance(&k, at);
        const bool has_page = at % PAGE == 0 && disk_cache_has(c, chain_key(&k, DISK_PAGE));
        if ((has_page || disk_cache_has(c, chain_key(&k, DISK_HALF))) &&
            disk_cache_has(c, chain_key(&k, DISK_STATE)))
            found = at;
        if (at % PAGE == 0 && !has_page)
            break;
    }
    return found;
}

size_t disk_session_find_more(disk_cache *c, const disk_scope *scope, const mote_token *tokens,
                              size_t n, size_t most, size_t have)
{
    if (most < have + DISK_MIN_GAIN)
        return 0;
    const size_t at = disk_session_find(c, scope, tokens, n, most);
    return at >= have + DISK_MIN_GAIN && (at - have) * DISK_MIN_GAIN >= at ? at : 0;
}

/* ---- the first difference ---- */

enum { NEXT_PAGES = 8, LENGTH_PAGES = 16 };

/* Tokens of the page; those after it that its key depends on are not counted. */
static size_t head_own_tokens(const disk_head *head)
{
    return head->kind == DISK_PAGE ? PAGE : CHUNK;
}

/* The page after `parent`, which ends at position `from`, that shares most of the tokens [n] there.
 * Returns the number of shared ones. False: there is no page. */
static bool next_page_nearest(disk_cache *c, const disk_scope *scope, disk_key parent, size_t from,
                              const mote_token *tokens, size_t n, disk_head *head, size_t *most)
{
    disk_item pages[NEXT_PAGES];
    const size_t n_pages =
        disk_cache_next_pages(c, parent, scope->binding, scope->ns, pages, NEXT_PAGES);
    bool found = false;
    for (size_t i = 0; i < n_pages; i++) {
        disk_head one;
        mote_error ignored;
        size_t same = 0;
        if (disk_cache_read_head(c, pages[i].key, pages[i].kind, &one, &ignored) != MOTE_OK ||
            one.position != from + head_own_tokens(&one)) /* a half page with all rows */
            continue;
        while (same < one.n_tokens && same < n && one.tokens[same] == tokens[same])
            same++;
        if (!found || same > *most || (same == *most && one.n_tokens > head->n_tokens)) {
            *head = one;
            *most = same;
            found = true;
        }
    }
    return found;
}

/* Position of the last page after this one. */
static size_t pages_end(disk_cache *c, const disk_scope *scope, const disk_head *head)
{
    disk_item next = {.key = head->key, .position = head->position};
    for (size_t i = 0; i < LENGTH_PAGES; i++)
        if (disk_cache_next_pages(c, next.key, scope->binding, scope->ns, &next, 1) == 0)
            break;
    return (size_t)next.position;
}

static void difference_add(disk_difference *out, const disk_head *head, size_t from, size_t n)
{
    while (from < n && out->n < DISK_SHOWN_TOKENS)
        out->had[out->n++] = head->tokens[from++];
}

/* Copies the tokens of the page from number `same` on, and those of pages after it. */
static void difference_fill(disk_difference *out, disk_cache *c, const disk_scope *scope,
                            disk_head *head, size_t same)
{
    size_t most = 0;
    out->at = (size_t)head->position - head_own_tokens(head) + same;
    out->length = pages_end(c, scope, head);
    difference_add(out, head, same, head_own_tokens(head));
    while (out->n < DISK_SHOWN_TOKENS && head->kind == DISK_PAGE) {
        const mote_token ahead = head->tokens[PAGE];
        const bool has_ahead = head->n_tokens > PAGE;
        if (!next_page_nearest(c, scope, head->key, (size_t)head->position, &ahead, has_ahead, head,
                               &most)) {
            difference_add(out, head, PAGE, head->n_tokens);
            break;
        }
        difference_add(out, head, 0, head_own_tokens(head));
    }
}

void disk_session_differs(disk_cache *c, const disk_scope *scope, const mote_token *tokens,
                          size_t n, size_t least, disk_difference *out)
{
    disk_key parent = {{0, 0}};
    size_t from = 0, same = 0;
    disk_head head;
    key_chain k;
    *out = (disk_difference){0};
    chain_begin(&k, scope, tokens, n);
    for (size_t at = PAGE; at + scope->ahead <= n; at += PAGE) {
        chain_advance(&k, at);
        if (!disk_cache_has(c, chain_key(&k, DISK_PAGE)))
            break;
        parent = chain_key(&k, DISK_PAGE);
        from = at;
    }
    if (from + PAGE + scope->ahead > least &&
        next_page_nearest(c, scope, parent, from, tokens + from, n - from, &head, &same) &&
        same < head.n_tokens && from + same < n && from + same >= least)
        difference_fill(out, c, scope, &head, same);
}

/* ---- drop ---- */

/* Keys of the records that may end at one position. */
typedef struct position_keys {
    disk_key page, half, state;
} position_keys;

static size_t drop_one(disk_cache *c, disk_key key)
{
    mote_error ignored;
    return disk_cache_has(c, key) && disk_cache_remove(c, key, &ignored) == MOTE_OK;
}

size_t disk_session_drop(disk_cache *c, const disk_scope *scope, const mote_token *tokens, size_t n,
                         size_t from)
{
    const size_t room = n / CHUNK;
    size_t dropped = 0, used = 0;
    position_keys *keys = mem_new(room + 1, sizeof *keys);
    key_chain k;
    if (keys == NULL)
        return 0;
    chain_begin(&k, scope, tokens, n);
    for (size_t at = 1; at <= n; at++) {
        chain_advance(&k, at);
        if (at % CHUNK != 0) {
            dropped += at > from && drop_one(c, chain_key(&k, DISK_END));
            continue;
        }
        keys[used] =
            (position_keys){.half = chain_key(&k, DISK_HALF), .state = chain_key(&k, DISK_STATE)};
        if (at % PAGE == 0 && at + scope->ahead <= n)
            keys[used].page = chain_key(&k, DISK_PAGE);
        used++;
    }
    for (size_t i = used; i > 0 && i * CHUNK > from; i--) {
        dropped += drop_one(c, keys[i - 1].state);
        dropped += drop_one(c, keys[i - 1].half);
        if (disk_key_is_zero(keys[i - 1].page))
            continue;
        if (disk_cache_has_children(c, keys[i - 1].page))
            break; /* what comes before is shared too */
        dropped += drop_one(c, keys[i - 1].page);
    }
    mem_free(keys);
    return dropped;
}

/* ---- parts ---- */

void disk_parts_fini(disk_parts *p)
{
    mem_free(p->parts);
    *p = (disk_parts){0};
}

static mote_status parts_init(disk_parts *p, size_t room, mote_error *err)
{
    p->n = 0;
    p->parts = mem_new(room, sizeof *p->parts);
    return p->parts != NULL ? MOTE_OK
                            : err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
}

/* The head of the record that ends at the position of the chain. */
static disk_head chain_head(const key_chain *k, disk_kind kind, disk_key parent, size_t bytes)
{
    const disk_scope *scope = k->scope;
    const size_t own = kind == DISK_PAGE ? PAGE : CHUNK;
    const size_t from = k->at - own;
    disk_head head = {.kind = kind,
                      .key = chain_key(k, kind),
                      .parent = parent,
                      .binding = scope->binding,
                      .ns = scope->ns,
                      .position = k->at,
                      .payload_bytes = bytes,
                      .n_tokens = (uint32_t)(own + (kind == DISK_PAGE ? scope->ahead : 0))};
    memcpy(head.tokens, k->tokens + from, head.n_tokens * sizeof *head.tokens);
    memcpy(head.label, scope->label, sizeof head.label);
    return head;
}

static void parts_add(disk_parts *p, const disk_head *head, const mote_block *block, size_t rows)
{
    p->parts[p->n++] = (disk_part){.head = *head, .data = block->data, .rows = rows};
}

/* The blocks of a session: pages, then states. NULL: out of memory. */
static mote_block *session_blocks(const mote_session *session, size_t *n_pages, size_t *n_states)
{
    const size_t n = mote_session_blocks(session, NULL, 0);
    mote_block *blocks = mem_new(n + 1, sizeof *blocks);
    if (blocks == NULL)
        return NULL;
    mote_session_blocks(session, blocks, n);
    *n_pages = 0;
    while (*n_pages < n && blocks[*n_pages].kind == MOTE_BLOCK_PAGE)
        ++*n_pages;
    *n_states = n - *n_pages;
    return blocks;
}

bool disk_session_end_head(disk_head *out, const disk_scope *scope, const mote_token *tokens,
                           size_t n, size_t bytes)
{
    const size_t from = n / CHUNK * CHUNK;
    key_chain k;
    if (n == from || from == 0)
        return false;
    for (size_t i = from; i < n; i++)
        if (tokens[i] < 0)
            return false;
    chain_begin(&k, scope, tokens, n);
    chain_advance(&k, from);
    const disk_key state = chain_key(&k, DISK_STATE);
    chain_advance(&k, n);
    *out = (disk_head){.kind = DISK_END,
                       .key = chain_key(&k, DISK_END),
                       .parent = state,
                       .binding = scope->binding,
                       .ns = scope->ns,
                       .position = n,
                       .payload_bytes = bytes,
                       .n_tokens = (uint32_t)(n - from)};
    memcpy(out->tokens, tokens + from, out->n_tokens * sizeof *out->tokens);
    memcpy(out->label, scope->label, sizeof out->label);
    return true;
}

uint64_t disk_end_state(const disk_head *end)
{
    return end->position - end->n_tokens;
}

/* ---- restore ---- */

/* The kind of the last page of a session that ends at the position of the chain. */
static disk_kind last_page_kind(disk_cache *c, const key_chain *k)
{
    return k->at % PAGE == 0 && disk_cache_has(c, chain_key(k, DISK_PAGE)) ? DISK_PAGE : DISK_HALF;
}

static void restore_fill(disk_parts *p, disk_cache *c, key_chain *k, const mote_block *blocks,
                         size_t n_pages)
{
    const mote_block *state = &blocks[n_pages];
    const size_t end = (size_t)state->position;
    disk_key parent = {{0, 0}};
    for (size_t i = 0; i < n_pages; i++) {
        const bool is_last = i + 1 == n_pages;
        chain_advance(k, is_last ? end : (i + 1) * PAGE);
        const disk_kind kind = is_last ? last_page_kind(c, k) : DISK_PAGE;
        const disk_head head = chain_head(k, kind, parent, blocks[i].bytes);
        parts_add(p, &head, &blocks[i], 0);
        parent = head.key;
    }
    const disk_head head = chain_head(k, DISK_STATE, parent, state->bytes);
    parts_add(p, &head, state, 0);
}

mote_status disk_session_restore_parts(disk_parts *p, disk_cache *c, const disk_scope *scope,
                                       const mote_session *session, const mote_token *tokens,
                                       size_t n, mote_error *err)
{
    size_t n_pages, n_states;
    key_chain k;
    *p = (disk_parts){0};
    mote_block *blocks = session_blocks(session, &n_pages, &n_states);
    if (blocks == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    const mote_status status = parts_init(p, n_pages + 1, err);
    chain_begin(&k, scope, tokens, n);
    if (status == MOTE_OK)
        restore_fill(p, c, &k, blocks, n_pages);
    mem_free(blocks);
    return status;
}

/* ---- save ---- */

/* Removes states that are not wanted, or do not fit into the cap together with their pages. Returns
 * the number that is left. */
static size_t save_choose_states(mote_block *states, size_t n, const disk_states *which,
                                 uint64_t page_bytes, uint64_t cap)
{
    size_t left = 0;
    uint64_t last = 0, bytes = 0;
    for (size_t i = 0; i < n && left < MAX_STATES; i++) {
        const uint64_t at = states[i].position;
        const uint64_t more = disk_record_bytes(states[i].bytes, true);
        const uint64_t pages = (at + PAGE - 1) / PAGE * disk_record_bytes(page_bytes, true);
        const bool middle = at > which->head && at < which->tail;
        const uint64_t apart = middle ? (uint64_t)DISK_MIDDLE_APART : which->apart;
        const bool wanted = (at >= last + apart && at <= which->most) || at == which->also;
        if (!wanted || bytes + more + pages > cap / 10 * 9)
            continue;
        states[left++] = states[i];
        bytes += more;
        last = at;
    }
    return left;
}

/* Adds the record unless it exists. Returns its key. */
static disk_key save_add(disk_parts *p, disk_cache *c, const key_chain *k, disk_kind kind,
                         disk_key parent, const mote_block *block, uint64_t chain)
{
    const disk_head head = chain_head(k, kind, parent, block->bytes);
    if (!disk_cache_keep(c, head.key, chain))
        parts_add(p, &head, block, kind == DISK_HALF ? (k->at - 1) % PAGE + 1 : 0);
    return head.key;
}

static void save_fill(disk_parts *p, disk_cache *c, key_chain *k, const mote_block *blocks,
                      const mote_block *states, size_t n_states, uint64_t chain)
{
    const size_t end = n_states > 0 ? (size_t)states[n_states - 1].position : 0;
    disk_key parent = {{0, 0}};
    disk_parts late = {.parts = p->parts + (end + PAGE - 1) / PAGE + n_states};
    size_t next = 0;
    for (size_t at = CHUNK; at <= end; at += CHUNK) {
        const mote_block *page = &blocks[(at - 1) / PAGE];
        const bool has_state = next < n_states && states[next].position == at;
        disk_key holder = {{0, 0}};
        chain_advance(k, at);
        if (at % PAGE == 0 && at + k->scope->ahead <= k->n)
            holder = parent = save_add(p, c, k, DISK_PAGE, parent, page, chain);
        else if (has_state)
            holder = save_add(p, c, k, DISK_HALF, parent, page, chain);
        if (has_state)
            save_add(&late, c, k, DISK_STATE, holder, &states[next++], chain);
    }
    /* States last: a state without its pages is of no use. */
    memmove(p->parts + p->n, late.parts, late.n * sizeof *late.parts);
    p->n += late.n;
}

mote_status disk_session_save_parts(disk_parts *p, disk_cache *c, const disk_scope *scope,
                                    const mote_session *session, const disk_states *which,
                                    uint64_t chain, mote_error *err)
{
    size_t n_pages, n_states;
    *p = (disk_parts){0};
    mote_block *blocks = session_blocks(session, &n_pages, &n_states);
    if (blocks == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    const size_t length = (size_t)mote_session_length(session);
    mote_block *states = blocks + n_pages;
    n_states = save_choose_states(states, n_states, which, n_pages > 0 ? blocks[0].bytes : 0,
                                  disk_cache_cap(c));
    const mote_status status = parts_init(p, n_pages + 2 * n_states + 2, err);
    if (status == MOTE_OK && n_states > 0) {
        key_chain k;
        chain_begin(&k, scope, mote_session_tokens(session), length);
        save_fill(p, c, &k, blocks, states, n_states, chain);
    }
    mem_free(blocks);
    return status;
}
