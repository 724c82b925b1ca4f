/* SPDX-License-Identifier: Apache-2.0 */
/* model_pulls.c - implements model_pulls.h. */
#include "server/models/model_pulls.h"

#include "base/mem.h"
#include "server/core/limits.h"
#include "server/http/event_loop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1 << 20 };

/* A process. It ends in one of two ways: the last client leaves, or the last event has come. */
typedef struct model_pull {
    model_pulls *owner;
    struct model_pull *next;
    strbuf request;             /* equal requests share a pull */
    event_watch *watch;         /* NULL: the process is not needed any more */
    strbuf input;               /* events up to an incomplete line */
    model_pull_client *clients; /* in the order in which they came */
    json_doc *last;             /* "done" or "error"; NULL: none */
    bool over;                  /* no further events; joined no more */
    bool scanning;              /* the registry is scanned on a worker thread */
} model_pull;

struct model_pulls {
    model_pulls_options options;
    model_pull *first;
    unsigned n;
};

mote_status model_pulls_new(model_pulls **out, const model_pulls_options *options, mote_error *err)
{
    *out = mem_new(1, sizeof **out);
    if (*out == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the list of pulls");
    (*out)->options = *options;
    return MOTE_OK;
}

static void pull_free(model_pull *p)
{
    model_pull **link = &p->owner->first;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    p->owner->n--;
    event_loop_unwatch(p->watch);
    strbuf_fini(&p->request);
    strbuf_fini(&p->input);
    json_doc_free(p->last);
    mem_free(p);
}

void model_pulls_free(model_pulls *p)
{
    while (p != NULL && p->first != NULL)
        pull_free(p->first);
    mem_free(p);
}

mote_status model_pulls_request(model_pulls *p, const char *name, strbuf *out, mote_error *err)
{
    return p->options.source.request(p->options.source.with, name, out, err);
}

/* ---- clients ---- */

void model_pulls_leave(model_pull_client *c)
{
    model_pull *p = c->pull;
    if (p == NULL)
        return;
    model_pull_client **link = &p->clients;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    c->pull = NULL;
    if (p->clients == NULL && !p->scanning)
        pull_free(p);
}

/* The last event: every client leaves, then the pull is freed. */
static void pull_finish(model_pull *p)
{
    p->over = p->scanning = true; /* model_pulls_leave() must not free it */
    for (model_pull_client *c; (c = p->clients) != NULL;) {
        model_pulls_leave(c);
        c->event(c->with, p->last != NULL ? json_doc_root(p->last) : NULL, true);
    }
    pull_free(p);
}

void model_pulls_cut(model_pulls *p)
{
    for (model_pull *at = p->first, *next; at != NULL; at = next) {
        next = at->next;
        if (!at->scanning)
            pull_finish(at);
    }
}

/* ---- events ---- */

/* Worker thread. */
static void pull_scan(void *with)
{
    const model_pull *p = with;
    model_registry_rescan(p->owner->options.models);
}

static void pull_scanned(void *with)
{
    pull_finish(with);
}

/* No further events. A pulled model is in the registry before its clients get the event. */
static void pull_end(model_pull *p)
{
    event_loop_unwatch(p->watch);
    p->watch = NULL;
    p->over = true;
    const json_node *last = p->last != NULL ? json_doc_root(p->last) : NULL;
    p->scanning = str_is(json_node_text(json_node_get(last, "event")), "done") &&
                  event_loop_work(p->owner->options.loop, 0, pull_scan, pull_scanned, p);
    if (!p->scanning)
        pull_finish(p);
}

/* Passes an event on. Takes the document. */
static void pull_deliver(model_pull *p, json_doc *doc)
{
    const json_node *event = json_doc_root(doc);
    const str kind = json_node_text(json_node_get(event, "event"));
    if (str_is(kind, "done") || str_is(kind, "error")) {
        json_doc_free(p->last);
        p->last = doc;
        return;
    }
    for (model_pull_client *c = p->clients, *next; c != NULL; c = next) {
        next = c->next;
        c->event(c->with, event, false);
    }
    json_doc_free(doc);
}

static void pull_take_lines(model_pull *p)
{
    size_t used = 0;
    const char *newline;
    while (used < p->input.n &&
           (newline = memchr(p->input.p + used, '\n', p->input.n - used)) != NULL) {
        const str line = {p->input.p + used, (size_t)(newline - p->input.p) - used};
        json_doc *doc = NULL;
        used += line.n + 1;
        if (json_doc_read(&doc, line, NULL) == MOTE_OK)
            pull_deliver(p, doc);
    }
    if (used > 0) {
        memmove(p->input.p, p->input.p + used, p->input.n - used);
        p->input.n -= used;
    }
}

/* One read per call: the loop calls again if there is more. */
static void pull_on_readable(void *with, int fd)
{
    model_pull *p = with;
    char chunk[16384];
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        strbuf_put(&p->input, (str){chunk, (size_t)n});
    pull_take_lines(p);
    if (n <= 0 || p->input.failed || p->input.n > LINE_MAX_BYTES)
        pull_end(p);
}

/* ---- start ---- */

static model_pull *pulls_find(const model_pulls *p, str request)
{
    for (model_pull *at = p->first; at != NULL; at = at->next)
        if (!at->over && str_eq(strbuf_view(&at->request), request))
            return at;
    return NULL;
}

static mote_status pulls_start(model_pulls *p, str request, model_pull **out, mote_error *err)
{
    int fd;
    if (p->n >= p->options.most)
        return err_set(err, MOTE_E_FULL,
                       "%u models are being pulled, the maximum (--limit %s=N); try again later",
                       p->n, limit_rows[LIMIT_PULLS].name);
    model_pull *at = mem_new(1, sizeof *at);
    if (at == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a pull");
    at->owner = p;
    at->next = p->first;
    p->first = at;
    p->n++;
    strbuf_put(&at->request, request);
    mote_status status = strbuf_check(&at->request, err);
    if (status == MOTE_OK)
        status = p->options.source.start(p->options.source.with, request, &fd, err);
    if (status == MOTE_OK) {
        at->watch = event_loop_watch(p->options.loop, fd, pull_on_readable, at);
        if (at->watch == NULL)
            status = err_set(err, MOTE_E_IO, "cannot read the events of mote-pull");
    }
    if (status != MOTE_OK)
        pull_free(at);
    *out = at;
    return status;
}

mote_status model_pulls_join(model_pulls *p, str request, model_pull_client *c, mote_error *err)
{
    model_pull *pull = pulls_find(p, request);
    if (pull == NULL)
        TRY(pulls_start(p, request, &pull, err));
    model_pull_client **end = &pull->clients;
    while (*end != NULL)
        end = &(*end)->next;
    *end = c;
    c->next = NULL;
    c->pull = pull;
    return MOTE_OK;
}
