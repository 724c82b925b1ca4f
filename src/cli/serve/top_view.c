/* SPDX-License-Identifier: Apache-2.0 */
/* top_view.c - see top_view.h. */
#include "cli/serve/top_view.h"

#include "cli/serve/server_client.h"
#include "cli/term/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_STREAMS = 512, LINE_BYTES = 512, BAR = 24 };

typedef struct top_stream {
    str id, phase, dialect;
    double age, rate;
    uint64_t prompt, reused, prefilled, generated, position;
} top_stream;

const char *top_sort_name(top_sort sort)
{
    static const char *const names[] = {"age", "generated", "prompt"};
    return names[sort];
}

static const json_node *sample_member(const top_sample *r, const char *name)
{
    return r->doc != NULL ? json_node_get(json_doc_root(r->doc), name) : NULL;
}

/* ---- lines ---- */

typedef struct top_page {
    strbuf *out;
    unsigned columns, left; /* `left`: lines that still fit */
} top_page;

static void page_line(top_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Names in a reply are untrusted: control characters are escaped, long lines truncated. */
static void page_line(top_page *p, const char *format, ...)
{
    char text[LINE_BYTES], shown[4 * LINE_BYTES + 1];
    va_list arguments;
    if (p->left == 0)
        return;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t bytes = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    text_fit(shown, sizeof shown, text, bytes, p->columns < LINE_BYTES ? p->columns : LINE_BYTES);
    strbuf_text(p->out, shown);
    strbuf_byte(p->out, '\n');
    p->left--;
}

static void page_bar(char bar[3 * BAR + 1], uint64_t used, uint64_t total, bool utf8)
{
    const unsigned full = total > 0 ? (unsigned)((double)used / (double)total * BAR + 0.5) : 0;
    int n = 0;
    for (unsigned i = 0; i < BAR; i++)
        n += snprintf(bar + n, 3 * BAR + 1 - (size_t)n, "%s",
                      i < full ? (utf8 ? "\xE2\x96\x88" : "#") : (utf8 ? "\xE2\x96\x91" : "-"));
}

/* ---- the upper part ---- */

/* Growth of a total per second; negative: unknown. */
static double total_rate(const top_view *v, const char *name)
{
    const double seconds = v->now.at - v->before.at;
    if (v->before.doc == NULL || seconds <= 0)
        return -1;
    const double now = json_node_double(json_node_get(sample_member(&v->now, "totals"), name));
    const double then = json_node_double(json_node_get(sample_member(&v->before, "totals"), name));
    return now < then ? -1 : (now - then) / seconds;
}

static const char *rate_text(char buffer[TEXT_NUMBER_BYTES], double rate)
{
    return rate < 0 ? "-" : text_rate(buffer, rate);
}

static void draw_head(top_page *p, const top_view *v)
{
    const json_node *root = json_doc_root(v->now.doc);
    char up[TEXT_NUMBER_BYTES];
    const json_node *models = json_node_get(root, "models");
    const size_t n = json_node_size(models);
    const str name = json_node_text(json_node_get(root, "model"));
    char others[48] = "";
    if (n > 1)
        snprintf(others, sizeof others, " and %zu more", n - 1);
    const str version = json_node_text(json_node_get(root, "version"));
    const str isa = json_node_text(json_node_get(root, "isa"));
    text_seconds(up, json_node_double(json_node_get(root, "uptime")));
    page_line(p, "mote %.*s  %.*s%s  %.*s  %llu threads  up %s%s%s", STR_ARG(version),
              STR_ARG(name), others, STR_ARG(isa),
              (unsigned long long)client_number(root, "threads"), up,
              json_node_truth(json_node_get(root, "draining")) ? "  STOPPING" : "",
              v->paused ? "  PAUSED" : "");
}

static void draw_speeds(top_page *p, const top_view *v)
{
    char decode[TEXT_NUMBER_BYTES], prefill[TEXT_NUMBER_BYTES];
    const double rows = total_rate(v, "step_rows"), prompt = total_rate(v, "prompt_rows");
    const double drafted = total_rate(v, "draft_tokens"), taken = total_rate(v, "draft_accepted");
    const double steps = total_rate(v, "steps"), busy = total_rate(v, "step_seconds");
    const json_node *totals = sample_member(&v->now, "totals");
    const uint64_t prompts = client_number(totals, "prompt_tokens"),
                   reused = client_number(totals, "reused_tokens");
    char batch[32] = "-", engine[32] = "-", share[32] = "-";
    if (rows >= 0 && steps > 0)
        snprintf(batch, sizeof batch, "%.1f", rows / steps);
    if (busy >= 0)
        snprintf(engine, sizeof engine, "%.0f %%", 100 * (busy < 1 ? busy : 1));
    if (prompts > 0)
        snprintf(share, sizeof share, "%.0f %%", 100 * (double)reused / (double)prompts);
    page_line(
        p, "decode %s t/s   prefill %s t/s   batch %s   engine %s busy   reused %s of all prompts",
        rate_text(decode, rows < 0 ? rows : rows - prompt - (drafted - taken)),
        rate_text(prefill, prompt), batch, engine, share);
    if (drafted > 0)
        page_line(p, "drafts %s t/s, %.0f %% accepted", rate_text(prefill, drafted),
                  100 * taken / drafted);
}

static void draw_load(top_page *p, const top_view *v)
{
    const json_node *root = json_doc_root(v->now.doc), *totals = sample_member(&v->now, "totals");
    const uint64_t prefill = client_number(root, "prefill"), decode = client_number(root, "decode");
    const uint64_t all = client_number(root, "positions"),
                   left = client_number(root, "positions_free");
    const uint64_t used = all > left ? all - left : 0;
    char bar[3 * BAR + 1], has[TEXT_NUMBER_BYTES], of[TEXT_NUMBER_BYTES];
    page_bar(bar, prefill + decode, client_number(root, "parallel"), v->utf8);
    page_line(p, "slots    %s  %llu of %llu: %llu decode, %llu prefill; %llu queued", bar,
              (unsigned long long)(prefill + decode),
              (unsigned long long)client_number(root, "parallel"), (unsigned long long)decode,
              (unsigned long long)prefill, (unsigned long long)client_number(root, "queued"));
    page_bar(bar, used, all, v->utf8);
    page_line(p, "KV cache %s  %s of %s tokens, %llu idle sequences", bar, text_count(has, used),
              text_count(of, all), (unsigned long long)client_number(root, "kept"));
    page_line(p,
              "total    %llu completed, %llu aborted, %llu rejected   connections %llu   loop lag "
              "%.1f ms",
              (unsigned long long)client_number(totals, "answers"),
              (unsigned long long)client_number(totals, "cancelled"),
              (unsigned long long)client_number(totals, "refused"),
              (unsigned long long)client_number(root, "connections"),
              1000 * json_node_double(json_node_get(root, "loop_lag")));
}

static void draw_memory(top_page *p, const top_view *v)
{
    static const char *const kinds[] = {"weights", "kv_cache", "recurrent_state", "scratch",
                                        "vision"};
    const json_node *memory = sample_member(&v->now, "memory");
    char text[LINE_BYTES], size[TEXT_NUMBER_BYTES];
    int n = snprintf(text, sizeof text,
                     "memory   %s:", text_bytes(size, client_number(memory, "total")));
    const size_t n_kinds = sizeof kinds / sizeof *kinds - (client_number(memory, "vision") == 0);
    for (size_t i = 0; i < n_kinds; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %s %s", i > 0 ? "," : "", kinds[i],
                      text_bytes(size, client_number(memory, kinds[i])));
    if (client_number(memory, "limit") > 0)
        snprintf(text + n, sizeof text - (size_t)n, "; limit %s",
                 text_bytes(size, client_number(memory, "limit")));
    page_line(p, "%s", text);
}

/* One line per model, if there are several; the lines above are totals of all models. */
static void draw_models(top_page *p, const top_view *v)
{
    const json_node *models = sample_member(&v->now, "models");
    if (json_node_size(models) < 2)
        return;
    for (const json_node *m = json_node_first(models); m != NULL; m = json_node_next(m)) {
        const str name = json_node_text(json_node_get(m, "name"));
        char size[TEXT_NUMBER_BYTES];
        page_line(
            p, "model    %.*s: %llu decode, %llu prefill, %llu queued; %llu tokens generated   %s",
            STR_ARG(name), (unsigned long long)client_number(m, "decode"),
            (unsigned long long)client_number(m, "prefill"),
            (unsigned long long)client_number(m, "queued"),
            (unsigned long long)client_number(json_node_get(m, "totals"), "generated_tokens"),
            text_bytes(size, client_number(json_node_get(m, "memory"), "total")));
    }
}

/* Only with a vision encoder. */
static void draw_images(top_page *p, const top_view *v)
{
    const json_node *f = sample_member(&v->now, "images");
    char size[TEXT_NUMBER_BYTES];
    if (f == NULL)
        return;
    page_line(p,
              "images   %llu encoded, %llu from cache, %llu failed; %llu queued   cached %llu, %s",
              (unsigned long long)client_number(f, "encoded"),
              (unsigned long long)client_number(f, "cache_hits"),
              (unsigned long long)client_number(f, "failed"),
              (unsigned long long)client_number(f, "waiting"),
              (unsigned long long)client_number(f, "cached"),
              text_bytes(size, client_number(f, "bytes")));
}

/* ---- streams ---- */

/* The k-th stream with this id: a request can have several. */
static const json_node *sample_find_stream(const top_sample *before, str id, size_t k)
{
    for (const json_node *s = json_node_first(sample_member(before, "streams")); s != NULL;
         s = json_node_next(s))
        if (str_eq(json_node_text(json_node_get(s, "request_id")), id) && k-- == 0)
            return s;
    return NULL;
}

static double stream_rate(const top_view *v, const top_stream *s, size_t k)
{
    const json_node *then = sample_find_stream(&v->before, s->id, k);
    const double seconds = v->now.at - v->before.at;
    const uint64_t generated = then != NULL ? client_number(then, "generated") : 0;
    if (then == NULL || seconds <= 0 || s->generated < generated)
        return -1;
    return (double)(s->generated - generated) / seconds;
}

static size_t read_streams(const top_view *v, top_stream all[MAX_STREAMS])
{
    size_t n = 0;
    for (const json_node *s = json_node_first(sample_member(&v->now, "streams"));
         s != NULL && n < MAX_STREAMS; s = json_node_next(s)) {
        top_stream *t = &all[n];
        *t = (top_stream){.id = json_node_text(json_node_get(s, "request_id")),
                          .phase = json_node_text(json_node_get(s, "phase")),
                          .dialect = json_node_text(json_node_get(s, "dialect")),
                          .age = json_node_double(json_node_get(s, "age")),
                          .prompt = client_number(s, "prompt"),
                          .reused = client_number(s, "reused"),
                          .prefilled = client_number(s, "prefilled"),
                          .generated = client_number(s, "generated"),
                          .position = client_number(s, "position")};
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            k += str_eq(all[i].id, t->id);
        t->rate = stream_rate(v, t, k);
        n++;
    }
    return n;
}

static bool stream_before(const top_stream *a, const top_stream *b, top_sort sort)
{
    if (sort == TOP_BY_GENERATED)
        return a->generated > b->generated;
    return sort == TOP_BY_PROMPT ? a->prompt > b->prompt : a->age > b->age;
}

/* Stable, so that lines do not change places between samples. */
static void sort_streams(top_stream *all, size_t n, top_sort sort)
{
    for (size_t i = 1; i < n; i++) {
        const top_stream one = all[i];
        size_t at = i;
        for (; at > 0 && stream_before(&one, &all[at - 1], sort); at--)
            all[at] = all[at - 1];
        all[at] = one;
    }
}

static void draw_stream(top_page *p, const top_stream *s)
{
    char age[TEXT_NUMBER_BYTES], rate[TEXT_NUMBER_BYTES], phase[40];
    snprintf(phase, sizeof phase, "%.*s", (int)(s->phase.n < 20 ? s->phase.n : 20), s->phase.p);
    if (s->position > 0)
        snprintf(phase, sizeof phase, "queued %llu", (unsigned long long)s->position);
    else if (str_is(s->phase, "prefill") && s->prompt > 0)
        snprintf(phase, sizeof phase, "prefill %.0f%%",
                 100 * (double)s->prefilled / (double)s->prompt);
    page_line(
        p, "%-14.*s %-10.*s %-12s %8s %8llu %8llu %8llu %8s", (int)(s->id.n < 14 ? s->id.n : 14),
        s->id.p, (int)(s->dialect.n < 10 ? s->dialect.n : 10), s->dialect.p, phase,
        text_seconds(age, s->age), (unsigned long long)s->prompt, (unsigned long long)s->reused,
        (unsigned long long)s->generated, rate_text(rate, s->rate));
}

void top_draw(strbuf *out, const top_view *v)
{
    enum { FOOT = 2 };
    static top_stream streams[MAX_STREAMS];
    top_page p = {out, v->columns, v->rows};
    const size_t n = read_streams(v, streams);
    sort_streams(streams, n, v->sort);
    draw_head(&p, v);
    draw_speeds(&p, v);
    draw_load(&p, v);
    draw_memory(&p, v);
    draw_images(&p, v);
    draw_models(&p, v);
    page_line(&p, "%s", "");
    page_line(&p, "%-14s %-10s %-12s %8s %8s %8s %8s %8s", "REQUEST", "API", "PHASE", "AGE",
              "PROMPT", "REUSED", "GENERATED", "T/S");
    for (size_t i = 0; i < n && p.left > FOOT; i++)
        draw_stream(&p, &streams[i]);
    page_line(&p, "%s", "");
    page_line(&p, "q quit   p pause   s sort (by %s)", top_sort_name(v->sort));
}
