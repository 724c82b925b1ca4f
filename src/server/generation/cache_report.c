/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_report.c - what the prefix cache gave a prompt: `mote.cache`, and the counters of misses.
 *
 * The cache miss report (`mote.cache.miss`) shows where the prompt differs from an earlier prompt
 * of the same cache namespace: the message, the token, up to 80 bytes of both prompts, what the
 * difference costs, and what the client should change (cache_miss.h).
 */
#include "server/generation/cache_miss.h"
#include "server/generation/generation_int.h"

/* ---- cache miss ---- */

enum { SHOWN_BYTES = 80, BEFORE_BYTES = 40, BEFORE_TOKENS = 24 };

/* The part of the prompt with token `at`, and the index of its message. */
static miss_place miss_find_place(const chat_prompt *p, size_t at, uint32_t *index)
{
    for (size_t i = 0; i < p->n_marks; i++) {
        const chat_mark *m = &p->marks[i];
        *index = m->index;
        if (m->position <= at)
            continue;
        if (m->kind == CHAT_MARK_TOOLS)
            return MISS_IN_TOOLS;
        if (m->kind == CHAT_MARK_SYSTEM)
            return MISS_IN_SYSTEM;
        if (m->kind == CHAT_MARK_MESSAGE)
            return MISS_IN_MESSAGE;
    }
    return MISS_IN_PROMPT;
}

/* The text of the ids. An image prints as [image]. */
static void miss_text(strbuf *text, const mote_model *model, const mote_token *ids, size_t n)
{
    char piece[MOTE_PIECE_BYTES];
    mote_text_stream stream = {0};
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0)
            strbuf_put(text,
                       (str){piece, mote_text_next(model, &stream, ids[i], piece, sizeof piece)});
        else if (i == 0 || ids[i - 1] >= 0)
            strbuf_text(text, "[image]");
    }
}

static bool is_inside_character(const strbuf *text, size_t at)
{
    return at < text->n && ((unsigned char)text->p[at] & 0xC0) == 0x80;
}

/* The first or the last bytes of a text, in whole characters. */
static str text_head(const strbuf *text, size_t most)
{
    size_t n = text->n < most ? text->n : most;
    while (n > 0 && is_inside_character(text, n))
        n--;
    return (str){text->p, n};
}

static str text_tail(const strbuf *text, size_t most)
{
    size_t from = text->n < most ? 0 : text->n - most;
    while (is_inside_character(text, from))
        from++;
    return (str){text->p + from, text->n - from};
}

/* A tag opened before token `at` of the prompt, in the same message, and not closed. */
static bool miss_is_inside(const chat_prompt *p, size_t at, const mote_token *tags, chat_tag open,
                           chat_tag close)
{
    for (size_t i = at; i > 0; i--) {
        if (p->ids[i - 1] == tags[open])
            return true;
        if (p->ids[i - 1] == tags[close] || p->ids[i - 1] == tags[CHAT_TAG_IM_START])
            return false;
    }
    return false;
}

/* The difference with the texts it refers to. */
typedef struct miss_report {
    miss_difference d;
    miss_kind kind;
    uint32_t message;
    strbuf before, had, got;
} miss_report;

static void miss_report_fini(miss_report *r)
{
    strbuf_fini(&r->before);
    strbuf_fini(&r->had);
    strbuf_fini(&r->got);
}

/* The result must have a miss. */
static void miss_report_init(miss_report *r, const choice *c)
{
    const generation *w = c->of;
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_miss *miss = &c->result.miss;
    const mote_model *model = served_model_weights(w->request.served);
    const mote_token *tags = served_model_chat_context(w->request.served)->template.tags;
    const mote_token had_first = miss->had[0], got_first = p->ids[miss->at];
    const size_t rest = p->n - miss->at;
    const size_t before = miss->at < BEFORE_TOKENS ? miss->at : BEFORE_TOKENS;
    *r = (miss_report){0};
    miss_text(&r->before, model, p->ids + miss->at - before, before);
    miss_text(&r->had, model, miss->had, miss->n);
    miss_text(&r->got, model, p->ids + miss->at,
              rest < SCHED_MISS_TOKENS ? rest : SCHED_MISS_TOKENS);
    r->d = (miss_difference){
        .place = miss_find_place(p, miss->at, &r->message),
        .before = text_tail(&r->before, BEFORE_BYTES),
        .had = text_head(&r->had, SHOWN_BYTES),
        .got = text_head(&r->got, SHOWN_BYTES),
        .image = had_first < 0 || got_first < 0,
        .thinking = had_first == tags[CHAT_TAG_THINK] || got_first == tags[CHAT_TAG_THINK] ||
                    miss_is_inside(p, miss->at, tags, CHAT_TAG_THINK, CHAT_TAG_THINK_END),
        .call = miss_is_inside(p, miss->at, tags, CHAT_TAG_CALL, CHAT_TAG_CALL_END),
    };
    r->kind = miss_classify(&r->d);
}

/* What the difference costs: the tokens that would be reused without it, and their share of the
 * prefill time. */
static void miss_put_cost(const choice *c, strbuf *out)
{
    const sched_result *result = &c->result;
    const uint64_t prompt = c->of->prompts[c->prompt].n, had = result->miss.length;
    const uint64_t most = had < prompt ? had : prompt, reused = result->answer.reused_tokens;
    const uint64_t tokens = most > reused ? most - reused : 0;
    const uint64_t prefilled = result->answer.prefilled_tokens;
    const double each = prefilled > 0 ? choice_prefill_seconds(c) / (double)prefilled : 0;
    jw_key_uint(out, "tokens", tokens);
    jw_key_double(out, "seconds", (double)(int64_t)(1000 * each * (double)tokens + 0.5) / 1000);
}

static void miss_put(const choice *c, strbuf *out)
{
    const sched_miss *miss = &c->result.miss;
    miss_report r;
    if (miss->n == 0)
        return;
    miss_report_init(&r, c);
    jw_key(out, "miss");
    jw_open(out, '{');
    if (r.d.place == MISS_IN_SYSTEM || r.d.place == MISS_IN_MESSAGE)
        jw_key_uint(out, "message", r.message);
    jw_key_uint(out, "token", miss->at);
    jw_key_uint(out, "usable", miss->usable);
    miss_put_cost(c, out);
    jw_key_text(out, "kind", miss_kind_name(r.kind));
    jw_key_str(out, "before", r.d.before);
    jw_key_str(out, "had", r.d.had);
    jw_key_str(out, "got", r.d.got);
    jw_key_text(out, "advice", miss_advice(r.kind));
    jw_close(out, '}');
    out->failed |= r.before.failed || r.had.failed || r.got.failed;
    miss_report_fini(&r);
}

/* ---- the report ---- */

/* How the sampled tokens of earlier answers were found. */
static void answers_put(const answer_found *a, strbuf *out)
{
    if (a->by_id + a->by_text + a->unknown == 0)
        return;
    jw_key(out, "answers");
    jw_open(out, '{');
    jw_key_uint(out, "by_id", a->by_id);
    jw_key_uint(out, "by_text", a->by_text);
    jw_key_uint(out, "unknown", a->unknown);
    jw_close(out, '}');
}

void generation_put_cache(const generation *w, const choice *c, strbuf *out)
{
    static const char *const from[] = {"none", "live", "ram", "disk"};
    const usage u = generation_usage(w);
    jw_key(out, "cache");
    jw_open(out, '{');
    jw_key_uint(out, "prompt", u.prompt);
    jw_key_uint(out, "reused", u.cached);
    jw_key_uint(out, "prefilled", u.prefilled);
    jw_key_text(out, "from", from[c->result.reuse]);
    jw_key_uint(out, "compared", c->result.compared);
    answers_put(&w->request.answers, out);
    miss_put(c, out);
    jw_close(out, '}');
}

void generation_count_cache(const generation *w, const choice *c)
{
    miss_report r;
    served_model *m = w->request.served;
    if (c->index == 0)
        served_model_count_answers(m, &w->request.answers);
    if (c->index % w->request.n != 0 || w->request.no_reuse || c->result.started <= 0)
        return;
    if (c->result.miss.n > 0) {
        miss_report_init(&r, c);
        served_model_count_miss(m, (uint32_t)r.kind);
        miss_report_fini(&r);
    } else if (c->result.compared == 0 && c->result.reuse == SCHED_REUSE_NONE) {
        served_model_count_miss(m, MISS_NEW);
    }
}
