/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_tokens.c - see recall.h.
 *
 * A message is spelt as bytes that hold what counts of it, lengths before texts; the key of
 * a conversation is a chain of hashes over them. An entry has its key and the spelling of its
 * message, both compared in full: a hit can only return tokens of the same realm for a text that
 * the client itself has sent.
 */
#include "sched/answer_tokens.h"

#include "base/mem.h"

#define XXH_INLINE_ALL
#include <pthread.h>
#include <xxhash.h>

enum { LEAST_BUCKETS = 64, MOST_BUCKETS = 65536, BYTES_PER_BUCKET = 1024 };

typedef struct entry entry;
struct entry {
    entry *next;            /* in its bucket */
    entry *older, *younger; /* by use */
    answer_key key;
    uint64_t bucket;
    size_t bytes; /* of all of it */
    size_t n_tokens, n_text;
    mote_token *tokens; /* behind the entry; then the spelling */
    char *text;
};

struct answer_tokens {
    pthread_mutex_t lock;
    entry **buckets; /* [mask + 1] */
    uint64_t mask;
    entry *youngest, *oldest;
    size_t bytes, most;
};

/* ---- spelling ---- */

static void put_size(strbuf *out, size_t n)
{
    strbuf_put(out, (str){(const char *)&n, sizeof n});
}

static void put_text(strbuf *out, str text)
{
    put_size(out, text.n);
    strbuf_put(out, text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static str trimmed(str text)
{
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    while (text.n > 0 && is_blank(*text.p)) {
        text.p++;
        text.n--;
    }
    return text;
}

/* What of an assistant's text is visible: thinking may come back inside of it. */
static str visible(str text)
{
    static const char end[] = "</think>";
    const size_t n = sizeof end - 1;
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, end, n) == 0)
            return trimmed((str){text.p + i + n, text.n - i - n});
    return trimmed(text);
}

static void spell_answer(strbuf *out, const chat_message *m)
{
    strbuf joined = {0};
    for (size_t i = 0; i < m->n_parts; i++)
        strbuf_put(&joined, m->parts[i].text);
    put_text(out, m->has_reasoning ? trimmed(strbuf_view(&joined)) : visible(strbuf_view(&joined)));
    for (size_t i = 0; i < m->n_calls; i++) {
        put_text(out, m->calls[i].name);
        joined.n = 0;
        if (m->calls[i].arguments != NULL)
            json_put_node(&joined, m->calls[i].arguments);
        put_text(out, strbuf_view(&joined));
    }
    out->failed |= joined.failed;
    strbuf_fini(&joined);
}

/* Pictures by their tokens, which are made from what they show. */
static void spell_shown(strbuf *out, const chat_media *media)
{
    for (size_t i = 0; i < media->n; i++) {
        size_t n;
        const mote_token *ids = mote_image_tokens(media->images[i], &n);
        put_text(out, (str){(const char *)ids, n * sizeof *ids});
    }
}

/* Only what is rendered counts; ids of calls, for one, are not. */
static void spell(strbuf *out, const chat_message *m)
{
    out->n = 0;
    strbuf_byte(out, (char)m->role);
    if (m->role == CHAT_ROLE_ASSISTANT) {
        spell_answer(out, m);
        return;
    }
    for (size_t i = 0; i < m->n_parts; i++) {
        strbuf_byte(out, (char)m->parts[i].kind);
        if (m->parts[i].media != NULL)
            spell_shown(out, m->parts[i].media);
        else
            put_text(out, m->parts[i].text);
    }
}

/* ---- keys ---- */

static answer_key chain(answer_key key, str spelling)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &key, sizeof key);
    XXH3_128bits_update(&state, spelling.p, spelling.n);
    const XXH128_hash_t h = XXH3_128bits_digest(&state);
    return (answer_key){key.ns, h.low64, h.high64};
}

static answer_key key_of_tools(uint64_t ns, const chat_request *request, strbuf *text)
{
    text->n = 0;
    put_size(text, request->n_tools);
    for (size_t i = 0; i < request->n_tools; i++)
        json_put_node(text, request->tools[i]);
    return chain((answer_key){ns, 0, 0}, strbuf_view(text));
}

answer_key answer_key_of(uint64_t ns, const chat_request *request)
{
    strbuf text = {0};
    answer_key key = key_of_tools(ns, request, &text);
    for (size_t i = 0; i < request->n_messages; i++) {
        spell(&text, &request->messages[i]);
        key = chain(key, strbuf_view(&text));
    }
    if (text.failed)
        key = (answer_key){0};
    strbuf_fini(&text);
    return key;
}

/* ---- entries; under the lock ---- */

static bool same_key(const answer_key *a, const answer_key *b)
{
    return a->ns == b->ns && a->a == b->a && a->b == b->b;
}

static entry **find(answer_tokens *r, const answer_key *key, str text, uint64_t bucket)
{
    entry **at = &r->buckets[bucket];
    while (*at != NULL &&
           !(same_key(&(*at)->key, key) && str_eq((str){(*at)->text, (*at)->n_text}, text)))
        at = &(*at)->next;
    return at;
}

static uint64_t bucket_of(const answer_tokens *r, const answer_key *key)
{
    return (key->a ^ key->b) & r->mask;
}

static void unlink_use(answer_tokens *r, entry *e)
{
    *(e->younger != NULL ? &e->younger->older : &r->youngest) = e->older;
    *(e->older != NULL ? &e->older->younger : &r->oldest) = e->younger;
}

static void link_use(answer_tokens *r, entry *e)
{
    e->younger = NULL;
    e->older = r->youngest;
    *(e->older != NULL ? &e->older->younger : &r->oldest) = e;
    r->youngest = e;
}

static void forget(answer_tokens *r, entry **at)
{
    entry *e = *at;
    *at = e->next;
    unlink_use(r, e);
    r->bytes -= e->bytes;
    mem_free(e);
}

static void forget_oldest(answer_tokens *r)
{
    entry **at = &r->buckets[r->oldest->bucket];
    while (*at != r->oldest)
        at = &(*at)->next;
    forget(r, at);
}

static entry *make_entry(answer_key key, str text, const chat_message *m)
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

static void keep(answer_tokens *r, entry *e)
{
    pthread_mutex_lock(&r->lock);
    e->bucket = bucket_of(r, &e->key);
    entry **at = find(r, &e->key, (str){e->text, e->n_text}, e->bucket);
    if (*at != NULL)
        forget(r, at);
    while (r->bytes + e->bytes > r->most)
        forget_oldest(r);
    e->next = r->buckets[e->bucket];
    r->buckets[e->bucket] = e;
    link_use(r, e);
    r->bytes += e->bytes;
    pthread_mutex_unlock(&r->lock);
}

void answer_tokens_put(answer_tokens *r, answer_key key, const chat_message *message)
{
    strbuf text = {0};
    spell(&text, message);
    const size_t empty = 1 + sizeof(size_t); /* a role and a text of no bytes */
    const size_t ids = message->n_tokens * sizeof *message->tokens;
    const bool fits = !text.failed && text.n <= r->most && ids <= r->most &&
                      sizeof(entry) + ids + text.n <= r->most;
    if (fits && text.n > empty && message->n_tokens > 0 && (key.a | key.b) != 0) {
        entry *e = make_entry(key, strbuf_view(&text), message);
        if (e != NULL)
            keep(r, e);
    }
    strbuf_fini(&text);
}

/* ---- filling ---- */

/* Copies of what was found, one after another. */
typedef struct found {
    chat_message *messages;
    mote_token *tokens; /* [room] */
    size_t n, room;
    size_t count;
} found;

/* Room for `more`; messages that were filled before follow their tokens. */
static bool make_room(found *f, size_t more, size_t upto)
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

static void fill_one(answer_tokens *r, found *f, size_t i, answer_key key, str text)
{
    pthread_mutex_lock(&r->lock);
    entry *e = *find(r, &key, text, bucket_of(r, &key));
    if (e != NULL && make_room(f, e->n_tokens, i)) {
        unlink_use(r, e);
        link_use(r, e);
        memcpy(f->tokens + f->n, e->tokens, e->n_tokens * sizeof *e->tokens);
        f->messages[i].tokens = f->tokens + f->n;
        f->messages[i].n_tokens = e->n_tokens;
        f->n += e->n_tokens;
        f->count++;
    }
    pthread_mutex_unlock(&r->lock);
}

size_t answer_tokens_fill(answer_tokens *r, uint64_t ns, const chat_request *request,
                          chat_message *messages, mote_token **memory)
{
    strbuf text = {0};
    found f = {.messages = messages};
    answer_key key = key_of_tools(ns, request, &text);
    for (size_t i = 0; i < request->n_messages && !text.failed; i++) {
        spell(&text, &request->messages[i]);
        if (request->messages[i].role == CHAT_ROLE_ASSISTANT && messages[i].tokens == NULL &&
            !text.failed)
            fill_one(r, &f, i, key, strbuf_view(&text));
        key = chain(key, strbuf_view(&text));
    }
    strbuf_fini(&text);
    *memory = f.tokens;
    return f.count;
}

/* ---- begin and end ---- */

mote_status answer_tokens_new(answer_tokens **out, size_t bytes, mote_error *err)
{
    *out = NULL;
    uint64_t n = LEAST_BUCKETS;
    while (n < MOST_BUCKETS && n * BYTES_PER_BUCKET < bytes)
        n *= 2;
    answer_tokens *r = mem_new(1, sizeof *r);
    entry **buckets = mem_new(n, sizeof(entry *));
    if (r == NULL || buckets == NULL || pthread_mutex_init(&r->lock, NULL) != 0) {
        mem_free(r);
        mem_free(buckets);
        return err_set(err, MOTE_E_MEMORY, "no memory to remember answers with");
    }
    r->buckets = buckets;
    r->mask = n - 1;
    r->most = bytes;
    *out = r;
    return MOTE_OK;
}

void answer_tokens_free(answer_tokens *r)
{
    if (r == NULL)
        return;
    while (r->oldest != NULL)
        forget_oldest(r);
    pthread_mutex_destroy(&r->lock);
    mem_free(r->buckets);
    mem_free(r);
}
