/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_tokens.c - see answer_tokens.h.
 *
 * A message is serialised to bytes: only what is rendered, with a length before each text. The key
 * of a conversation is a hash chain over its serialised messages. An entry also stores the
 * serialised message, and a lookup compares it byte for byte. So a hit returns tokens of the same
 * cache namespace for a text that the client has sent; a hash collision cannot return others.
 */
#include "sched/answer_tokens.h"

#include "base/mem.h"

#define XXH_INLINE_ALL
#include <pthread.h>
#include <xxhash.h>

enum { MIN_BUCKETS = 64, MAX_BUCKETS = 65536, BYTES_PER_BUCKET = 1024 };

typedef struct entry entry;
struct entry {
    entry *next;          /* in its bucket */
    entry *older, *newer; /* LRU list */
    answer_key key;
    uint64_t bucket;
    size_t bytes; /* of the whole allocation */
    size_t n_tokens, n_text;
    mote_token *tokens; /* [n_tokens], stored behind the entry */
    char *text;         /* [n_text]: the serialised message, behind the tokens */
};

struct answer_tokens {
    pthread_mutex_t mutex;
    entry **buckets; /* [mask + 1] */
    uint64_t mask;
    entry *newest, *oldest;
    size_t bytes, max_bytes;
};

/* ---- serialisation ---- */

static void serialise_size(strbuf *out, size_t n)
{
    strbuf_put(out, (str){(const char *)&n, sizeof n});
}

static void serialise_text(strbuf *out, str text)
{
    serialise_size(out, text.n);
    strbuf_put(out, text);
}

static bool is_white_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static str trim(str text)
{
    while (text.n > 0 && is_white_space(text.p[text.n - 1]))
        text.n--;
    while (text.n > 0 && is_white_space(*text.p)) {
        text.p++;
        text.n--;
    }
    return text;
}

/* The visible part of an assistant's text: the client may have sent the reasoning with it. */
static str visible_text(str text)
{
    static const char end[] = "</think>";
    const size_t n = sizeof end - 1;
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, end, n) == 0)
            return trim((str){text.p + i + n, text.n - i - n});
    return trim(text);
}

/* An assistant message: its text without reasoning and outer white space, then its tool calls. */
static void serialise_answer(strbuf *out, const chat_message *m)
{
    strbuf joined = {0};
    for (size_t i = 0; i < m->n_parts; i++)
        strbuf_put(&joined, m->parts[i].text);
    serialise_text(out, m->has_reasoning ? trim(strbuf_view(&joined))
                                         : visible_text(strbuf_view(&joined)));
    for (size_t i = 0; i < m->n_calls; i++) {
        serialise_text(out, m->calls[i].name);
        joined.n = 0;
        if (m->calls[i].arguments != NULL)
            json_put_node(&joined, m->calls[i].arguments);
        serialise_text(out, strbuf_view(&joined));
    }
    out->failed |= joined.failed;
    strbuf_fini(&joined);
}

/* Images by their token ids, which are derived from the content. */
static void serialise_images(strbuf *out, const chat_media *media)
{
    for (size_t i = 0; i < media->n; i++) {
        size_t n;
        const mote_token *ids = mote_image_tokens(media->images[i], &n);
        serialise_text(out, (str){(const char *)ids, n * sizeof *ids});
    }
}

/* Replaces `out` with the parts of a message that the chat template renders. Ids of tool calls are
 * not among them. */
static void serialise_message(strbuf *out, const chat_message *m)
{
    out->n = 0;
    strbuf_byte(out, (char)m->role);
    if (m->role == CHAT_ROLE_ASSISTANT) {
        serialise_answer(out, m);
        return;
    }
    for (size_t i = 0; i < m->n_parts; i++) {
        strbuf_byte(out, (char)m->parts[i].kind);
        if (m->parts[i].media != NULL)
            serialise_images(out, m->parts[i].media);
        else
            serialise_text(out, m->parts[i].text);
    }
}

/* ---- keys ---- */

/* Next link of the hash chain: the key of the conversation with one more message. */
static answer_key key_append(answer_key key, str message)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &key, sizeof key);
    XXH3_128bits_update(&state, message.p, message.n);
    const XXH128_hash_t h = XXH3_128bits_digest(&state);
    return (answer_key){key.ns, h.low64, h.high64};
}

/* First link of the hash chain: the tools of the request. */
static answer_key key_of_tools(uint64_t ns, const chat_request *request, strbuf *text)
{
    text->n = 0;
    serialise_size(text, request->n_tools);
    for (size_t i = 0; i < request->n_tools; i++)
        json_put_node(text, request->tools[i]);
    return key_append((answer_key){ns, 0, 0}, strbuf_view(text));
}

answer_key answer_key_of(uint64_t ns, const chat_request *request)
{
    strbuf text = {0};
    answer_key key = key_of_tools(ns, request, &text);
    for (size_t i = 0; i < request->n_messages; i++) {
        serialise_message(&text, &request->messages[i]);
        key = key_append(key, strbuf_view(&text));
    }
    if (text.failed)
        key = (answer_key){0};
    strbuf_fini(&text);
    return key;
}

/* ---- entries; under the mutex ---- */

static bool keys_equal(const answer_key *a, const answer_key *b)
{
    return a->ns == b->ns && a->a == b->a && a->b == b->b;
}

/* Under the mutex. The pointer to the entry; it is NULL at the end of the bucket if there is none.
 */
static entry **cache_find(answer_tokens *cache, const answer_key *key, str text, uint64_t bucket)
{
    entry **at = &cache->buckets[bucket];
    while (*at != NULL &&
           !(keys_equal(&(*at)->key, key) && str_eq((str){(*at)->text, (*at)->n_text}, text)))
        at = &(*at)->next;
    return at;
}

static uint64_t cache_bucket(const answer_tokens *cache, const answer_key *key)
{
    return (key->a ^ key->b) & cache->mask;
}

static void lru_unlink(answer_tokens *cache, entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &cache->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &cache->oldest) = e->newer;
}

static void lru_link(answer_tokens *cache, entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    *(e->older != NULL ? &e->older->newer : &cache->oldest) = e;
    cache->newest = e;
}

static void cache_remove(answer_tokens *cache, entry **at)
{
    entry *e = *at;
    *at = e->next;
    lru_unlink(cache, e);
    cache->bytes -= e->bytes;
    mem_free(e);
}

static void cache_evict_oldest(answer_tokens *cache)
{
    entry **at = &cache->buckets[cache->oldest->bucket];
    while (*at != cache->oldest)
        at = &(*at)->next;
    cache_remove(cache, at);
}

static entry *entry_new(answer_key key, str text, const chat_message *m)
{
    const size_t ids = m->n_tokens * sizeof *m->tokens;
    entry *e = mem_new(1, sizeof *e + ids + text.n);
    if (e == NULL)
        return NULL;
    e->key = key;
    e->bytes = sizeof *e + ids + text.n;
    e->n_tokens = m->n_tokens;
    e->n_text = text.n;
    e->tokens = (mote_token *)(e + 1);
    e->text = (char *)(e->tokens + m->n_tokens);
    memcpy(e->tokens, m->tokens, ids);
    memcpy(e->text, text.p, text.n);
    return e;
}

/* Takes ownership of `e`, which must fit in max_bytes. Replaces an equal entry. */
static void cache_insert(answer_tokens *cache, entry *e)
{
    pthread_mutex_lock(&cache->mutex);
    e->bucket = cache_bucket(cache, &e->key);
    entry **at = cache_find(cache, &e->key, (str){e->text, e->n_text}, e->bucket);
    if (*at != NULL)
        cache_remove(cache, at);
    while (cache->bytes + e->bytes > cache->max_bytes)
        cache_evict_oldest(cache);
    e->next = cache->buckets[e->bucket];
    cache->buckets[e->bucket] = e;
    lru_link(cache, e);
    cache->bytes += e->bytes;
    pthread_mutex_unlock(&cache->mutex);
}

void answer_tokens_put(answer_tokens *cache, answer_key key, const chat_message *message)
{
    strbuf text = {0};
    serialise_message(&text, message);
    const size_t empty = 1 + sizeof(size_t); /* a role and an empty text */
    const size_t ids = message->n_tokens * sizeof *message->tokens;
    const bool fits = !text.failed && text.n <= cache->max_bytes && ids <= cache->max_bytes &&
                      sizeof(entry) + ids + text.n <= cache->max_bytes;
    if (fits && text.n > empty && message->n_tokens > 0 && (key.a | key.b) != 0) {
        entry *e = entry_new(key, strbuf_view(&text), message);
        if (e != NULL)
            cache_insert(cache, e);
    }
    strbuf_fini(&text);
}

/* ---- lookup ---- */

/* Copies of the tokens found, in one array. */
typedef struct found {
    chat_message *messages;
    mote_token *tokens; /* [room] */
    size_t n, room;
    size_t n_messages;
} found;

/* Makes room for `more` tokens. If the array moves, pointers of the first `upto` messages follow.
 */
static bool found_reserve(found *f, size_t more, size_t upto)
{
    if (more <= f->room - f->n)
        return true;
    const size_t room = 2 * (f->n + more);
    mote_token *tokens = mem_new(room, sizeof *tokens);
    if (tokens == NULL)
        return false;
    if (f->n > 0)
        memcpy(tokens, f->tokens, f->n * sizeof *tokens);
    for (size_t i = 0; i < upto; i++) {
        const mote_token *old = f->messages[i].tokens;
        if (old != NULL && f->tokens != NULL && old >= f->tokens && old < f->tokens + f->n)
            f->messages[i].tokens = tokens + (old - f->tokens);
    }
    mem_free(f->tokens);
    f->tokens = tokens;
    f->room = room;
    return true;
}

/* Copies the tokens of message i from the cache, if it has them. */
static void fill_message(answer_tokens *cache, found *f, size_t i, answer_key key, str text)
{
    pthread_mutex_lock(&cache->mutex);
    entry *e = *cache_find(cache, &key, text, cache_bucket(cache, &key));
    if (e != NULL && found_reserve(f, e->n_tokens, i)) {
        lru_unlink(cache, e);
        lru_link(cache, e);
        memcpy(f->tokens + f->n, e->tokens, e->n_tokens * sizeof *e->tokens);
        f->messages[i].tokens = f->tokens + f->n;
        f->messages[i].n_tokens = e->n_tokens;
        f->n += e->n_tokens;
        f->n_messages++;
    }
    pthread_mutex_unlock(&cache->mutex);
}

size_t answer_tokens_fill(answer_tokens *cache, uint64_t ns, const chat_request *request,
                          chat_message *messages, mote_token **memory)
{
    strbuf text = {0};
    found f = {.messages = messages};
    answer_key key = key_of_tools(ns, request, &text);
    for (size_t i = 0; i < request->n_messages && !text.failed; i++) {
        serialise_message(&text, &request->messages[i]);
        if (request->messages[i].role == CHAT_ROLE_ASSISTANT && messages[i].tokens == NULL &&
            !text.failed)
            fill_message(cache, &f, i, key, strbuf_view(&text));
        key = key_append(key, strbuf_view(&text));
    }
    strbuf_fini(&text);
    *memory = f.tokens;
    return f.n_messages;
}

/* ---- create and free ---- */

mote_status answer_tokens_new(answer_tokens **out, size_t bytes, mote_error *err)
{
    *out = NULL;
    uint64_t n = MIN_BUCKETS;
    while (n < MAX_BUCKETS && n * BYTES_PER_BUCKET < bytes)
        n *= 2;
    answer_tokens *cache = mem_new(1, sizeof *cache);
    entry **buckets = mem_new(n, sizeof(entry *));
    if (cache == NULL || buckets == NULL || pthread_mutex_init(&cache->mutex, NULL) != 0) {
        mem_free(cache);
        mem_free(buckets);
        return err_set(err, MOTE_E_MEMORY, "out of memory for the answer-token cache");
    }
    cache->buckets = buckets;
    cache->mask = n - 1;
    cache->max_bytes = bytes;
    *out = cache;
    return MOTE_OK;
}

void answer_tokens_free(answer_tokens *cache)
{
    if (cache == NULL)
        return;
    while (cache->oldest != NULL)
        cache_evict_oldest(cache);
    pthread_mutex_destroy(&cache->mutex);
    mem_free(cache->buckets);
    mem_free(cache);
}
