/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c - token counts and times of a generation: `usage`, `timings`, the `mote` object and the
 * request log.
 *
 * The cache miss report (`mote.cache.miss`) shows where the prompt differs from an earlier prompt
 * of the same cache namespace: the message, the token, up to 80 bytes of both prompts, and what the
 * client should change (cache_miss.h).
 */
#include "base/os.h"
#include "server/core/log.h"
#include "server/generation/cache_miss.h"
#include "server/generation/generation_int.h"

#include <stdio.h>

/* ---- usage and timings ---- */

usage generation_usage(const generation *w)
{
    usage u = {0};
    uint64_t left_out = 0;
    for (size_t i = 0; i < w->n_prompts; i++)
        u.prompt += w->prompts[i].n;
    for (size_t i = 0; i < w->n_answers; i++) {
        const mote_answer *a = &w->choices[i].result.answer;
        if (w->choices[i].kind != SCHED_ANSWER)
            continue;
        u.out += a->answer_tokens;
        u.think += a->think_tokens;
        u.drafted += a->drafted_tokens;
        u.accepted += a->accepted_tokens;
        if (i % w->request.n == 0) {
            u.cached += a->reused_tokens;
            left_out += a->prompt_tokens - a->reused_tokens - a->prefilled_tokens;
        }
    }
    u.prefilled = u.prompt - u.cached - left_out;
    return u;
}

void generation_put_openai_usage(const generation *w, strbuf *out)
{
    const usage u = generation_usage(w);
    jw_key(out, "usage");
    jw_open(out, '{');
    jw_key_uint(out, "prompt_tokens", u.prompt);
    jw_key_uint(out, "completion_tokens", u.out);
    jw_key_uint(out, "total_tokens", u.prompt + u.out);
    jw_key(out, "prompt_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "cached_tokens", u.cached);
    jw_close(out, '}');
    jw_key(out, "completion_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "reasoning_tokens", u.think);
    jw_close(out, '}');
    jw_close(out, '}');
}

static double round_to_thousandths(double x)
{
    return (double)(int64_t)(x * 1000 + 0.5) / 1000;
}

static void timings_put(strbuf *out, const char *what, uint64_t n, double seconds)
{
    char key[40];
    snprintf(key, sizeof key, "%s_n", what);
    jw_key_uint(out, key, n);
    snprintf(key, sizeof key, "%s_ms", what);
    jw_key_double(out, key, round_to_thousandths(1000 * seconds));
    snprintf(key, sizeof key, "%s_per_token_ms", what);
    jw_key_double(out, key, n > 0 ? round_to_thousandths(1000 * seconds / (double)n) : 0);
    snprintf(key, sizeof key, "%s_per_second", what);
    jw_key_double(out, key, seconds > 0 ? round_to_thousandths((double)n / seconds) : 0);
}

static double seconds_between(double from, double to)
{
    return to > from ? to - from : 0;
}

/* Without decode, as for scores, a result has only the times of the scheduler. */
static double choice_prefill_seconds(const choice *c)
{
    return c->kind == SCHED_ANSWER ? c->result.answer.seconds_prefill
                                   : seconds_between(c->result.started, c->result.prefilled);
}

void generation_put_timings(const generation *w, strbuf *out)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    jw_key(out, "timings");
    jw_open(out, '{');
    jw_key_uint(out, "cache_n", u.cached);
    timings_put(out, "prompt", u.prefilled, choice_prefill_seconds(c));
    timings_put(out, "predicted", u.out, c->result.answer.seconds_decode);
    if (u.drafted > 0) {
        jw_key_uint(out, "draft_n", u.drafted);
        jw_key_uint(out, "draft_n_accepted", u.accepted);
    }
    jw_close(out, '}');
}

static void mote_put_sampling(const choice *c, strbuf *out)
{
    const mote_sampling *s = &c->result.answer.sampling;
    jw_key(out, "sampling");
    jw_open(out, '{');
    jw_key_float(out, "temperature", s->temperature);
    jw_key_float(out, "top_p", s->top_p);
    jw_key_uint(out, "top_k", s->top_k);
    jw_key_float(out, "min_p", s->min_p);
    jw_key_float(out, "presence_penalty", s->presence);
    jw_key_float(out, "frequency_penalty", s->frequency);
    jw_key_float(out, "repetition_penalty", s->repetition > 0 ? s->repetition : 1);
    jw_key_int(out, "seed", (int64_t)c->answer.sampling.seed);
    jw_close(out, '}');
}

static void mote_put_thinking(const generation *w, const mote_answer *a, strbuf *out)
{
    jw_key(out, "thinking");
    jw_open(out, '{');
    jw_key_text(out, "mode", a->thinking ? "on" : "off");
    jw_key_uint(out, "budget", a->think_budget);
    jw_key_uint(out, "used", a->think_tokens);
    if (a->thinking)
        jw_key_text(out, "ended", mote_think_end_name(a->think_end));
    jw_key_text(out, "source",
                w->request.think.source != NULL ? w->request.think.source : "default");
    jw_close(out, '}');
}

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

static void miss_put(const choice *c, strbuf *out)
{
    const generation *w = c->of;
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_miss *miss = &c->result.miss;
    const mote_model *model = served_model_weights(w->request.served);
    const mote_token *tags = served_model_chat_context(w->request.served)->template.tags;
    if (miss->n == 0)
        return;
    const mote_token had_first = miss->had[0], got_first = p->ids[miss->at];
    const size_t rest = p->n - miss->at;
    const size_t before = miss->at < BEFORE_TOKENS ? miss->at : BEFORE_TOKENS;
    uint32_t message = 0;
    strbuf earlier = {0}, had = {0}, got = {0};
    miss_text(&earlier, model, p->ids + miss->at - before, before);
    miss_text(&had, model, miss->had, miss->n);
    miss_text(&got, model, p->ids + miss->at, rest < SCHED_MISS_TOKENS ? rest : SCHED_MISS_TOKENS);
    const miss_difference d = {
        .place = miss_find_place(p, miss->at, &message),
        .before = text_tail(&earlier, BEFORE_BYTES),
        .had = text_head(&had, SHOWN_BYTES),
        .got = text_head(&got, SHOWN_BYTES),
        .image = had_first < 0 || got_first < 0,
        .thinking = had_first == tags[CHAT_TAG_THINK] || got_first == tags[CHAT_TAG_THINK] ||
                    miss_is_inside(p, miss->at, tags, CHAT_TAG_THINK, CHAT_TAG_THINK_END),
        .call = miss_is_inside(p, miss->at, tags, CHAT_TAG_CALL, CHAT_TAG_CALL_END),
    };
    const miss_kind kind = miss_classify(&d);
    jw_key(out, "miss");
    jw_open(out, '{');
    if (d.place == MISS_IN_SYSTEM || d.place == MISS_IN_MESSAGE)
        jw_key_uint(out, "message", message);
    jw_key_uint(out, "token", miss->at);
    jw_key_uint(out, "usable", miss->usable);
    jw_key_text(out, "kind", miss_kind_name(kind));
    jw_key_str(out, "before", d.before);
    jw_key_str(out, "had", d.had);
    jw_key_str(out, "got", d.got);
    jw_key_text(out, "advice", miss_advice(kind));
    jw_close(out, '}');
    out->failed |= earlier.failed || had.failed || got.failed;
    strbuf_fini(&earlier);
    strbuf_fini(&had);
    strbuf_fini(&got);
}

/* ---- the `mote` object ---- */

static void mote_put_cache(const generation *w, const choice *c, strbuf *out)
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
    miss_put(c, out);
    jw_close(out, '}');
}

/* The size after resizing: coordinates in answers refer to it. */
static void mote_put_images(const generation *w, strbuf *out)
{
    jw_key(out, "images");
    jw_open(out, '[');
    for (size_t i = 0; i < w->request.n_media; i++) {
        const vision_result *result = w->request.media[i].result;
        jw_open(out, '{');
        jw_key_uint(out, "w", result->width);
        jw_key_uint(out, "h", result->height);
        jw_key_uint(out, "tokens", result->tokens);
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

static void mote_put_ms(const generation *w, const choice *c, strbuf *out)
{
    const sched_result *r = &c->result;
    jw_key(out, "ms");
    jw_open(out, '{');
    jw_key_int(out, "queue", (int64_t)(1000 * seconds_between(r->load_wait, r->started) + 0.5));
    jw_key_int(out, "load", (int64_t)(1000 * (r->load_wait + w->load_seconds) + 0.5));
    jw_key_int(out, "prefill", (int64_t)(1000 * choice_prefill_seconds(c) + 0.5));
    jw_key_int(out, "first_token", (int64_t)(1000 * r->first_token + 0.5));
    jw_key_int(out, "total", (int64_t)(1000 * seconds_between(w->began, os_now()) + 0.5));
    jw_close(out, '}');
}

static void mote_put_warnings(const generation *w, strbuf *out)
{
    jw_key(out, "warnings");
    jw_open(out, '[');
    for (size_t i = 0; i < w->request.n_warnings; i++) {
        jw_open(out, '{');
        jw_key_text(out, "code", w->request.warnings[i].code);
        jw_key_text(out, "at", w->request.warnings[i].at);
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

static void mote_put_answer(const generation *w, const choice *c, strbuf *out)
{
    const mote_answer *a = &c->result.answer;
    jw_key_text(out, "preset", a->preset);
    mote_put_sampling(c, out);
    mote_put_thinking(w, a, out);
    mote_put_cache(w, c, out);
    jw_key(out, "spec");
    jw_open(out, '{');
    jw_key_uint(out, "drafted", a->drafted_tokens);
    jw_key_uint(out, "accepted", a->accepted_tokens);
    jw_close(out, '}');
    jw_key(out, "loop");
    jw_open(out, '{');
    jw_key_uint(out, "detected", a->loops_detected);
    jw_key_uint(out, "recovered", a->loops_recovered);
    jw_close(out, '}');
    jw_key(out, "stop");
    jw_open(out, '{');
    jw_key_text(out, "cause", stop_cause_name(c->cause));
    jw_close(out, '}');
    if (c->answer.format == MOTE_FORMAT_TEXT || c->cause == STOP_CALLS) /* calls instead of text */
        return;
    jw_key(out, "schema");
    jw_open(out, '{');
    jw_key_bool(out, "enforced", true);
    jw_key_bool(out, "valid", c->cause == STOP_EOS);
    jw_close(out, '}');
}

void generation_put_mote(const generation *w, strbuf *out)
{
    strbuf mote = {0};
    const choice *c = &w->choices[0];
    if (w->request.no_ext)
        return;
    jw_open(&mote, '{');
    jw_key_text(&mote, "request_id", w->request_id);
    jw_key_text(&mote, "model", served_model_name(w->request.served));
    if (c->kind == SCHED_ANSWER && c->job != NULL)
        mote_put_answer(w, c, &mote);
    if (w->request.n_media > 0)
        mote_put_images(w, &mote);
    mote_put_ms(w, c, &mote);
    mote_put_warnings(w, &mote);
    jw_close(&mote, '}');
    jw_key(out, "mote");
    jw_raw(out, strbuf_view(&mote));
    out->failed |= mote.failed;
    if (!mote.failed) {
        const str texts[TEXT_STORE_TEXTS] = {strbuf_view(&mote)};
        text_store_put(w->ctx->reports, w->request.ns, str_of(w->request_id), texts, NULL);
    }
    strbuf_fini(&mote);
}

/* ---- request log ---- */

/* The times are those of the first choice. */
void generation_log(const generation *w)
{
    if (w->x == NULL || w->n_choices == 0)
        return;
    const usage u = generation_usage(w);
    const choice *c = &w->choices[0];
    const double decode_seconds = c->result.answer.seconds_decode;
    log_stats stats = {
        .prompt = u.prompt,
        .cached = u.cached,
        .out = u.out,
        .think = u.think,
        .queue = c->result.started,
        .first_token = c->result.first_token,
        .rate = decode_seconds > 0 ? (double)u.out / decode_seconds : 0,
        .stop = stop_cause_name(c->cause),
    };
    if (w->ctx->several_models)
        snprintf(stats.model, sizeof stats.model, "%s", served_model_name(w->request.served));
    exchange_note(w->x, &stats);
}
