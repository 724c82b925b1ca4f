/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_tokens.c - see answer_tokens.h.
 *
 * The key of a conversation is a hash chain over the forms of its messages (message_form.h). An
 * entry also stores the form of its message, and a lookup compares it byte for byte. So a hit
 * returns tokens of the same cache namespace for a content that the client has sent; a hash
 * collision cannot return others.
 *
 * If a message was found by a call id, the chain continues with the stored form. So later answers
 * are found although the client changed an argument of an earlier call.
 */
#include "sched/answer_tokens.h"

#include "base/mem.h"
#include "sched/message_form.h"

#define XXH_INLINE_ALL
#include <pthread.h>
#include <xxhash.h>

enum { MIN_BUCKETS = 64, MAX_BUCKETS = 65536, BYTES_PER_BUCKET = 1024, MAX_IDS = 32 };

typedef struct entry entry;

/* A hash of a call id without its prefix: "call_" and "toolu_" name the same call. Or a hash of a
 * dialogue and the form of a message. */
typedef struct id_hash {
    uint64_t a, b;
} id_hash;

typedef struct id_link {
    struct id_link *next; /* in its bucket */
    entry *of;
    id_hash id;
} id_link;

struct entry {
    entry *next;          /* in its bucket */
    entry *older, *newer; /* LRU list */
    answer_key key;
    uint64_t bucket;
    size_t bytes; /* of the whole allocation */
    size_t n_ids, n_tokens, n_text;
    id_link *ids;       /* [n_ids], stored behind the entry */
    mote_token *tokens; /* [n_tokens], behind the ids */
    char *text;         /* [n_text]: the form of the message, behind the tokens */
};

struct answer_tokens {
    answer_file *file; /* NULL: none */
    pthread_mutex_t mutex;
    entry **buckets; /* [mask + 1], by conversation */
    id_link **by_id; /* [mask + 1] */
    uint64_t mask;
    entry *newest, *oldest;
    size_t bytes, max_bytes;
};

/* What an entry is made of. */
typedef struct answer {
    answer_key key;
    str text;
    const mote_token *tokens; /* [n_tokens] */
    size_t n_tokens;
    const id_hash *ids; /* [n_ids] */
    size_t n_ids;
} answer;

/* ---- keys ---- */

static XXH128_hash_t hash_append(uint64_t ns, uint64_t a, uint64_t b, str text)
{
    const uint64_t before[] = {ns, a, b};
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, before, sizeof before);
    XXH3_128bits_update(&state, text.p, text.n);
    return XXH3_128bits_digest(&state);
}

/* Next link of the hash chain: the key of the conversation with one more message, or with its tools.
 */
static answer_key key_append(answer_key key, str message, bool in_dialogue)
{
    const XXH128_hash_t h = hash_append(key.ns, key.a, key.b, message);
    answer_key next = {key.ns, h.low64, h.high64, {key.dialogue[0], key.dialogue[1]}};
    if (in_dialogue) {
        const XXH128_hash_t d = hash_append(key.ns, key.dialogue[0], key.dialogue[1], message);
        next.dialogue[0] = d.low64;
        next.dialogue[1] = d.high64;
    }
    return next;
}

static bool is_in_dialogue(const chat_message *m)
{
    return m->role != CHAT_ROLE_SYSTEM && m->role != CHAT_ROLE_DEVELOPER;
}

static id_hash dialogue_id(const answer_key *key, str form)
{
    const XXH128_hash_t h = hash_append(key->ns, key->dialogue[0], key->dialogue[1], form);
    return (id_hash){h.low64, ~h.high64};
}

/* First link of the hash chain: the tools of the request. */
static answer_key key_of_tools(uint64_t ns, const chat_request *request, strbuf *text)
{
    text->n = 0;
    strbuf_put(text, (str){(const char *)&request->n_tools, sizeof request->n_tools});
    for (size_t i = 0; i < request->n_tools; i++)
        json_put_node(text, request->tools[i]);
    return key_append((answer_key){.ns = ns}, strbuf_view(text), false);
}

answer_key answer_key_of(uint64_t ns, const chat_request *request)
{
    strbuf text = {0};
    answer_key key = key_of_tools(ns, request, &text);
    for (size_t i = 0; i < request->n_messages; i++) {
        message_form_of(&text, &request->messages[i]);
        key = key_append(key, strbuf_view(&text), is_in_dialogue(&request->messages[i]));
    }
    if (text.failed)
        key = (answer_key){0};
    strbuf_fini(&text);
    return key;
}

static id_hash id_hash_of(uint64_t ns, str id)
{
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] == '_') {
            id = (str){id.p + i + 1, id.n - i - 1};
            break;
        }
    const XXH128_hash_t h = XXH3_128bits_withSeed(id.p, id.n, ns);
    return (id_hash){h.low64, h.high64};
}

/* The ids of the message's calls; returns their number, at most MAX_IDS - 1. */
static size_t message_ids(uint64_t ns, const chat_message *m, id_hash ids[MAX_IDS])
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_calls && n < MAX_IDS - 1; i++)
        if (m->calls[i].id.n > 0)
            ids[n++] = id_hash_of(ns, m->calls[i].id);
    return n;
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

/* The entry of one of the ids, if its calls are those of the form; NULL: none. */
static entry *cache_find_id(const answer_tokens *cache, uint64_t ns, const id_hash *ids, size_t n,
                            str form)
{
    for (size_t i = 0; i < n; i++)
        for (const id_link *at = cache->by_id[ids[i].a & cache->mask]; at != NULL; at = at->next)
            if (at->id.a == ids[i].a && at->id.b == ids[i].b && at->of->key.ns == ns &&
                message_form_is_near((str){at->of->text, at->of->n_text}, form))
                return at->of;
    return NULL;
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

static void ids_link(answer_tokens *cache, entry *e)
{
    for (size_t i = 0; i < e->n_ids; i++) {
        id_link **bucket = &cache->by_id[e->ids[i].id.a & cache->mask];
        e->ids[i].next = *bucket;
        *bucket = &e->ids[i];
    }
}

static void ids_unlink(answer_tokens *cache, entry *e)
{
    for (size_t i = 0; i < e->n_ids; i++) {
        id_link **at = &cache->by_id[e->ids[i].id.a & cache->mask];
        while (*at != &e->ids[i])
            at = &(*at)->next;
        *at = e->ids[i].next;
    }
}

static void cache_remove(answer_tokens *cache, entry **at)
{
    entry *e = *at;
    *at = e->next;
    ids_unlink(cache, e);
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

/* Bytes of an entry; SIZE_MAX: larger than any cache. */
static size_t entry_bytes(const answer_tokens *cache, const answer *a)
{
    const size_t most = cache->max_bytes;
    if (a->text.n > most || a->n_tokens > most / sizeof *a->tokens)
        return SIZE_MAX;
    return sizeof(entry) + a->n_ids * sizeof(id_link) + a->n_tokens * sizeof *a->tokens + a->text.n;
}

static entry *entry_new(const answer *a, size_t bytes)
{
    entry *e = mem_new(1, bytes);
    if (e == NULL)
        return NULL;
    e->key = a->key;
    e->bytes = bytes;
    e->n_ids = a->n_ids;
    e->n_tokens = a->n_tokens;
    e->n_text = a->text.n;
    e->ids = (id_link *)(e + 1);
    e->tokens = (mote_token *)(e->ids + a->n_ids);
    e->text = (char *)(e->tokens + a->n_tokens);
    for (size_t i = 0; i < a->n_ids; i++)
        e->ids[i] = (id_link){NULL, e, a->ids[i]};
    memcpy(e->tokens, a->tokens, a->n_tokens * sizeof *a->tokens);
    memcpy(e->text, a->text.p, a->text.n);
    return e;
}

/* Replaces an equal entry. Without memory, or if it is too large, nothing is stored. */
static void cache_insert(answer_tokens *cache, const answer *a)
{
    const size_t bytes = entry_bytes(cache, a);
    if (bytes > cache->max_bytes || message_form_is_empty(a->text) || a->n_tokens == 0 ||
        (a->key.a | a->key.b) == 0)
        return;
    entry *e = entry_new(a, bytes);
    if (e == NULL)
        return;
    pthread_mutex_lock(&cache->mutex);
    e->bucket = cache_bucket(cache, &e->key);
    entry **at = cache_find(cache, &e->key, a->text, e->bucket);
    if (*at != NULL)
        cache_remove(cache, at);
    while (cache->bytes + e->bytes > cache->max_bytes)
        cache_evict_oldest(cache);
    e->next = cache->buckets[e->bucket];
    cache->buckets[e->bucket] = e;
    ids_link(cache, e);
    lru_link(cache, e);
    cache->bytes += e->bytes;
    pthread_mutex_unlock(&cache->mutex);
}

/* ---- the file ---- */

/* A record: this head, the ids, the tokens, the form. */
typedef struct record_head {
    answer_key key;
    uint64_t n_ids, n_tokens, n_text;
} record_head;

static void file_put(answer_tokens *cache, const answer *a)
{
    strbuf record = {0};
    const record_head head = {a->key, a->n_ids, a->n_tokens, a->text.n};
    if (cache->file == NULL)
        return;
    strbuf_put(&record, (str){(const char *)&head, sizeof head});
    strbuf_put(&record, (str){(const char *)a->ids, a->n_ids * sizeof *a->ids});
    strbuf_put(&record, (str){(const char *)a->tokens, a->n_tokens * sizeof *a->tokens});
    strbuf_put(&record, a->text);
    if (!record.failed)
        answer_file_append(cache->file, strbuf_view(&record));
    strbuf_fini(&record);
}

/* answer_file_fn */
static void file_found(void *with, str record)
{
    record_head head;
    id_hash ids[MAX_IDS];
    if (record.n < sizeof head)
        return;
    memcpy(&head, record.p, sizeof head);
    record.p += sizeof head;
    record.n -= sizeof head;
    if (head.n_ids > MAX_IDS || head.n_tokens > record.n || head.n_text > record.n ||
        record.n != head.n_ids * sizeof *ids + head.n_tokens * sizeof(mote_token) + head.n_text)
        return;
    memcpy(ids, record.p, head.n_ids * sizeof *ids);
    mote_token *tokens = mem_new((size_t)head.n_tokens, sizeof *tokens);
    if (tokens == NULL)
        return;
    const char *from = record.p + head.n_ids * sizeof *ids;
    memcpy(tokens, from, (size_t)head.n_tokens * sizeof *tokens);
    const answer a = {.key = head.key,
                      .text = {from + head.n_tokens * sizeof *tokens, (size_t)head.n_text},
                      .tokens = tokens,
                      .n_tokens = (size_t)head.n_tokens,
                      .ids = ids,
                      .n_ids = (size_t)head.n_ids};
    cache_insert(with, &a);
    mem_free(tokens);
}

void answer_tokens_put(answer_tokens *cache, answer_key key, const chat_message *message)
{
    strbuf text = {0};
    id_hash ids[MAX_IDS];
    size_t n_ids = message_ids(key.ns, message, ids);
    message_form_of(&text, message);
    ids[n_ids++] = dialogue_id(&key, strbuf_view(&text));
    const answer a = {.key = key,
                      .text = strbuf_view(&text),
                      .tokens = message->tokens,
                      .n_tokens = message->n_tokens,
                      .ids = ids,
                      .n_ids = n_ids};
    if (!text.failed) {
        cache_insert(cache, &a);
        file_put(cache, &a);
    }
    strbuf_fini(&text);
}

/* ---- lookup ---- */

/* Copies of the tokens found, in one array. */
typedef struct found {
    chat_message *messages;
    mote_token *tokens; /* [room] */
    size_t n, room;
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

/* Copies the tokens of message i from the cache, if it has them. form: of the message; if it was
 * found by an id, it becomes the stored one. */
static void fill_message(answer_tokens *cache, found *f, size_t i, answer_key key, strbuf *form,
                         answer_found *out)
{
    id_hash ids[MAX_IDS];
    const size_t n_ids = message_ids(key.ns, &f->messages[i], ids);
    pthread_mutex_lock(&cache->mutex);
    entry *by_id = cache_find_id(cache, key.ns, ids, n_ids, strbuf_view(form));
    entry *e = by_id != NULL
                   ? by_id
                   : *cache_find(cache, &key, strbuf_view(form), cache_bucket(cache, &key));
    const id_hash dialogue = dialogue_id(&key, strbuf_view(form));
    if (e == NULL)
        e = cache_find_id(cache, key.ns, &dialogue, 1, strbuf_view(form));
    if (e != NULL && found_reserve(f, e->n_tokens, i)) {
        lru_unlink(cache, e);
        lru_link(cache, e);
        memcpy(f->tokens + f->n, e->tokens, e->n_tokens * sizeof *e->tokens);
        f->messages[i].tokens = f->tokens + f->n;
        f->messages[i].n_tokens = e->n_tokens;
        f->n += e->n_tokens;
        form->n = 0;
        strbuf_put(form, (str){e->text, e->n_text});
        *(by_id != NULL ? &out->by_id : &out->by_text) += 1;
    } else {
        out->unknown++;
    }
    pthread_mutex_unlock(&cache->mutex);
}

void answer_tokens_fill(answer_tokens *cache, uint64_t ns, const chat_request *request,
                        chat_message *messages, answer_found *out)
{
    strbuf form = {0};
    found f = {.messages = messages};
    *out = (answer_found){0};
    if (cache->file != NULL)
        answer_file_read(cache->file, file_found, cache);
    answer_key key = key_of_tools(ns, request, &form);
    for (size_t i = 0; i < request->n_messages && !form.failed; i++) {
        message_form_of(&form, &request->messages[i]);
        if (request->messages[i].role == CHAT_ROLE_ASSISTANT && messages[i].tokens == NULL &&
            !form.failed)
            fill_message(cache, &f, i, key, &form, out);
        key = key_append(key, strbuf_view(&form), is_in_dialogue(&request->messages[i]));
    }
    if (!form.failed)
        out->key = key;
    out->memory = f.tokens;
    strbuf_fini(&form);
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
    id_link **by_id = mem_new(n, sizeof(id_link *));
    if (cache == NULL || buckets == NULL || by_id == NULL ||
        pthread_mutex_init(&cache->mutex, NULL) != 0) {
        mem_free(by_id);
        mem_free(buckets);
        mem_free(cache);
        return err_set(err, MOTE_E_MEMORY, "out of memory for the answer-token cache");
    }
    cache->buckets = buckets;
    cache->by_id = by_id;
    cache->mask = n - 1;
    cache->max_bytes = bytes;
    *out = cache;
    return MOTE_OK;
}

void answer_tokens_use_file(answer_tokens *cache, answer_file *file)
{
    cache->file = file;
}

void answer_tokens_free(answer_tokens *cache)
{
    if (cache == NULL)
        return;
    answer_file_close(cache->file);
    while (cache->oldest != NULL)
        cache_evict_oldest(cache);
    pthread_mutex_destroy(&cache->mutex);
    mem_free(cache->by_id);
    mem_free(cache->buckets);
    mem_free(cache);
}
