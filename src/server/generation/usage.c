/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c - token counts and times of a generation: `usage`, `timings`, the `mote` object and the
 * request log. cache_report.c prints `mote.cache`.
 */
#include "base/os.h"
#include "server/core/log.h"
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
double choice_prefill_seconds(const choice *c)
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

/* ---- the `mote` object ---- */

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
    jw_key_int(out, "restore", (int64_t)(1000 * r->restore_wait + 0.5));
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
    generation_put_cache(w, c, out);
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
    jw_key_text(&mote, "model", request_model_name(&w->request));
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
