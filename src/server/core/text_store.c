/* SPDX-License-Identifier: Apache-2.0 */
/* text_store.c - see text_store.h. A list in order of age with linear search: entries are few. */
#include "server/core/text_store.h"

#include "base/mem.h"
#include "base/os.h"

#include <pthread.h>

typedef struct entry {
    struct entry *older, *newer;
    uint64_t ns;
    double since;
    char name[TEXT_STORE_NAME];
    size_t n_name;
    char *bytes; /* all texts, concatenated */
    size_t n[TEXT_STORE_TEXTS];
    size_t total;
} entry;

struct text_store {
    pthread_mutex_t lock;
    text_store_options options;
    entry *newest, *oldest;
};

mote_status text_store_new(text_store **out, const text_store_options *options, mote_error *err)
{
    *out = mem_new(1, sizeof **out);
    if (*out == NULL || pthread_mutex_init(&(*out)->lock, NULL) != 0) {
        mem_free(*out);
        *out = NULL;
        return err_set(err, MOTE_E_MEMORY, "out of memory: text store");
    }
    (*out)->options = *options;
    return MOTE_OK;
}

static void store_remove(text_store *s, entry *e)
{
    *(e->older != NULL ? &e->older->newer : &s->oldest) = e->newer;
    *(e->newer != NULL ? &e->newer->older : &s->newest) = e->older;
    mem_free(e->bytes);
    mem_free(e);
}

void text_store_free(text_store *s)
{
    if (s == NULL)
        return;
    while (s->oldest != NULL)
        store_remove(s, s->oldest);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static entry *store_find(text_store *s, uint64_t ns, str name)
{
    entry *e = s->newest;
    while (e != NULL && !(e->ns == ns && str_eq((str){e->name, e->n_name}, name)))
        e = e->older;
    return e != NULL && os_now() - e->since <= s->options.seconds ? e : NULL;
}

/* Removes expired entries, and the oldest ones of the namespace until it is within its limits. */
static void store_evict(text_store *s, uint64_t ns)
{
    size_t n = 0, bytes = 0;
    const double since = os_now() - s->options.seconds;
    for (const entry *e = s->oldest; e != NULL; e = e->newer) {
        n += e->ns == ns;
        bytes += e->ns == ns ? e->total : 0;
    }
    for (entry *e = s->oldest, *next; e != NULL; e = next) {
        const bool own = e->ns == ns;
        next = e->newer;
        if (e->since >= since && !(own && (n > s->options.entries || bytes > s->options.bytes)))
            continue;
        n -= own;
        bytes -= own ? e->total : 0;
        store_remove(s, e);
    }
}

static entry *store_entry_new(uint64_t ns, str name, const str texts[TEXT_STORE_TEXTS])
{
    entry *e = mem_new(1, sizeof *e);
    if (e == NULL)
        return NULL;
    for (size_t i = 0; i < TEXT_STORE_TEXTS; i++)
        e->total += e->n[i] = texts[i].n;
    e->bytes = mem_new(e->total, 1);
    if (e->bytes == NULL) {
        mem_free(e);
        return NULL;
    }
    size_t at = 0;
    for (size_t i = 0; i < TEXT_STORE_TEXTS; at += texts[i++].n)
        if (texts[i].n > 0)
            memcpy(e->bytes + at, texts[i].p, texts[i].n);
    e->ns = ns;
    e->since = os_now();
    e->n_name = name.n;
    memcpy(e->name, name.p, name.n);
    return e;
}

mote_status text_store_put(text_store *s, uint64_t ns, str name, const str texts[TEXT_STORE_TEXTS],
                           mote_error *err)
{
    if (name.n == 0 || name.n > TEXT_STORE_NAME)
        return err_set(err, MOTE_E_ARG, "a name must have 1 to %d bytes, got %zu", TEXT_STORE_NAME,
                       name.n);
    entry *e = store_entry_new(ns, name, texts);
    if (e == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: entry of the text store");
    if (e->total > s->options.bytes) {
        const size_t total = e->total;
        mem_free(e->bytes);
        mem_free(e);
        return err_set(err, MOTE_E_FULL, "text too large: %zu bytes, at most %zu", total,
                       s->options.bytes);
    }
    pthread_mutex_lock(&s->lock);
    entry *same = store_find(s, ns, name);
    if (same != NULL)
        store_remove(s, same);
    e->older = s->newest;
    *(s->newest != NULL ? &s->newest->newer : &s->oldest) = e;
    s->newest = e;
    store_evict(s, ns);
    pthread_mutex_unlock(&s->lock);
    return MOTE_OK;
}

static bool entry_copy(const entry *e, size_t which, strbuf *out)
{
    if (e == NULL)
        return false;
    const char *at = e->bytes;
    for (size_t i = 0; i < which; i++)
        at += e->n[i];
    strbuf_put(out, (str){at, e->n[which]});
    return true;
}

bool text_store_get(text_store *s, uint64_t ns, str name, size_t which, strbuf *out)
{
    pthread_mutex_lock(&s->lock);
    const bool found = entry_copy(store_find(s, ns, name), which, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool text_store_get_last(text_store *s, uint64_t ns, size_t which, strbuf *out)
{
    pthread_mutex_lock(&s->lock);
    const entry *e = s->newest;
    while (e != NULL && e->ns != ns)
        e = e->older;
    const bool found = entry_copy(e, which, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool text_store_drop(text_store *s, uint64_t ns, str name)
{
    pthread_mutex_lock(&s->lock);
    entry *e = store_find(s, ns, name);
    if (e != NULL)
        store_remove(s, e);
    pthread_mutex_unlock(&s->lock);
    return e != NULL;
}
