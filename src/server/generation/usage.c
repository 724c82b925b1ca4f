/* SPDX-License-Identifier: Apache-2.0 */
/* generation_print.c - what choices gather, and the figures that replies end with. */
#include "base/mem.h"
#include "base/os.h"
#include "server/generation/generation_int.h"
#include "server/core/context.h"
#include "server/core/log.h"

#include <stdio.h>

/* ---- gathering ---- */

static void free_calls(choice_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        strbuf_fini(&calls[i].name);
        strbuf_fini(&calls[i].arguments);
    }
}

void choice_fini(choice *c)
{
    strbuf_fini(&c->content);
    strbuf_fini(&c->reasoning);
    strbuf_fini(&c->token_bytes);
    free_calls(c->calls, c->n_calls);
    free_calls(c->lost, c->n_lost);
    free_calls(&c->open, 1);
    mem_free(c->calls);
    mem_free(c->lost);
    mem_free(c->tokens);
    mem_free(c->own);
}

void choice_add_token(choice *c, const chat_event *event)
{
    if (c->n_tokens == c->room_tokens) {
        const size_t room = c->room_tokens > 0 ? 2 * c->room_tokens : 16;
        choice_token *moved = mem_resize(c->tokens, c->room_tokens, room, sizeof *moved);
        if (moved == NULL) {
            c->token_bytes.failed = true; /* where the end of the answer will find it */
            return;
        }
        c->tokens = moved;
        c->room_tokens = room;
    }
    choice_token *t = &c->tokens[c->n_tokens++];
    t->choice = *event->choice;
    t->from = c->token_bytes.n;
    t->n = event->text.n;
    t->content = c->content.n;
    strbuf_put(&c->token_bytes, event->text);
}

/* The open call goes to one of the lists. */
static void keep_call(choice *c, choice_call **list, size_t *n)
{
    choice_call *calls = mem_resize(*list, *n, *n + 1, sizeof *calls);
    if (calls == NULL) {
        c->content.failed = true;
        return;
    }
    *list = calls;
    calls[(*n)++] = c->open;
    c->open = (choice_call){0};
}

bool choice_add_call(choice *c, const chat_event *event, const char *prefix)
{
    if (event->kind == CHAT_EVENT_CALL_START) {
        generation_random_id(c->open.id, sizeof c->open.id, prefix);
        strbuf_put(&c->open.name, event->name);
    } else if (event->kind == CHAT_EVENT_CALL_ARGUMENTS) {
        strbuf_put(&c->open.arguments, event->text);
    }
    c->content.failed |= c->open.name.failed || c->open.arguments.failed;
    if (event->kind == CHAT_EVENT_CALL_END)
        keep_call(c, &c->calls, &c->n_calls);
    else if (event->kind == CHAT_EVENT_CALL_CANCEL)
        keep_call(c, &c->lost, &c->n_lost);
    return !c->content.failed;
}

str generation_token_text(const choice *c, const choice_token *t)
{
    return t->n > 0 ? (str){c->token_bytes.p + t->from, t->n} : (str){"", 0};
}

/* ---- why it ended ---- */

stop_cause choice_cause(const choice *c)
{
    const mote_answer *a = &c->result.answer;
    const request *asked = &c->of->request;
    switch (a->finish) {
    case MOTE_FINISH_STOP: return STOP_EOS;
    case MOTE_FINISH_TOOL_CALLS: return STOP_CALLS;
    case MOTE_FINISH_STOP_TEXT: return STOP_TEXT;
    case MOTE_FINISH_LOOP: return STOP_LOOP;
    default: break;
    }
    if (asked->seconds > 0 && c->result.ended >= asked->seconds)
        return STOP_DEADLINE;
    const uint32_t most = asked->answer.max_tokens > 0 ? asked->answer.max_tokens : 32768;
    return a->answer_tokens >= most ? STOP_MAX_TOKENS : STOP_CONTEXT;
}

const char *stop_cause_name(stop_cause cause)
{
    static const char *const names[] = {"eos",     "stop",     "tool_calls", "max_tokens",
                                        "context", "deadline", "loop"};
    return names[cause];
}

const char *generation_stop_text(const choice *c)
{
    const uint32_t i = c->result.answer.stop;
    return c->cause == STOP_TEXT && i < c->answer.n_stop ? c->answer.stop[i] : NULL;
}

/* ---- ids ---- */

void generation_random_id(char *out, size_t room, const char *prefix)
{
    unsigned char bits[16] = {0};
    size_t n = (size_t)snprintf(out, room, "%s", prefix);
    os_random(bits, sizeof bits);
    for (size_t i = 0; i < sizeof bits && n + 2 < room; i++, n += 2)
        snprintf(out + n, room - n, "%02x", bits[i]);
}

const char *generation_fingerprint(const generation *w)
{
    return served_model_fingerprint(w->request.served);
}

/* ---- figures ---- */

usage generation_usage(const generation *w)
{
    usage u = {0};
    for (size_t i = 0; i < w->n_prompts; i++)
        u.prompt += w->prompts[i].n;
    for (size_t i = 0; i < w->n_answers; i++) {
        const mote_answer *a = &w->choices[i].result.answer;
        if (w->choices[i].kind != SCHED_ANSWER)
            continue;
        u.out += a->answer_tokens;
        u.think += a->think_tokens;
        if (i % w->request.n == 0)
            u.cached += a->reused_tokens;
    }
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

static double rounded(double x)
{
    return (double)(int64_t)(x * 1000 + 0.5) / 1000;
}

static void put_pace(strbuf *out, const char *what, uint64_t n, double seconds)
{
    char key[40];
    snprintf(key, sizeof key, "%s_n", what);
    jw_key_uint(out, key, n);
    snprintf(key, sizeof key, "%s_ms", what);
    jw_key_double(out, key, rounded(1000 * seconds));
    snprintf(key, sizeof key, "%s_per_token_ms", what);
    jw_key_double(out, key, n > 0 ? rounded(1000 * seconds / (double)n) : 0);
    snprintf(key, sizeof key, "%s_per_second", what);
    jw_key_double(out, key, seconds > 0 ? rounded((double)n / seconds) : 0);
}

static double since(double from, double to)
{
    return to > from ? to - from : 0;
}

void generation_put_timings(const generation *w, strbuf *out)
{
    const sched_result *r = &w->choices[0].result;
    const usage u = generation_usage(w);
    jw_key(out, "timings");
    jw_open(out, '{');
    jw_key_uint(out, "cache_n", u.cached);
    put_pace(out, "prompt", u.prompt - u.cached, since(r->started, r->prefilled));
    put_pace(out, "predicted", u.out, since(r->prefilled, r->ended));
    jw_close(out, '}');
}

static void put_sampling(const choice *c, strbuf *out)
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

static void put_thinking(const generation *w, const mote_answer *a, strbuf *out)
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

static void put_cache(const generation *w, const choice *c, strbuf *out)
{
    static const char *const from[] = {"none", "live", "ram"};
    const usage u = generation_usage(w);
    jw_key(out, "cache");
    jw_open(out, '{');
    jw_key_uint(out, "prompt", u.prompt);
    jw_key_uint(out, "reused", u.cached);
    jw_key_uint(out, "prefilled", u.prompt - u.cached);
    jw_key_text(out, "from", from[c->result.reuse]);
    generation_put_miss(c, out);
    jw_close(out, '}');
}

/* The size each was seen in, so that places in it can be told in pixels. */
static void put_images(const generation *w, strbuf *out)
{
    jw_key(out, "images");
    jw_open(out, '[');
    for (size_t i = 0; i < w->request.n_shown; i++) {
        const vision_result *seen = w->request.shown[i].seen;
        jw_open(out, '{');
        jw_key_uint(out, "w", seen->width);
        jw_key_uint(out, "h", seen->height);
        jw_key_uint(out, "tokens", seen->tokens);
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

static void put_ms(const generation *w, const sched_result *r, strbuf *out)
{
    jw_key(out, "ms");
    jw_open(out, '{');
    jw_key_int(out, "queue", (int64_t)(1000 * since(r->load_wait, r->started) + 0.5));
    jw_key_int(out, "load", (int64_t)(1000 * r->load_wait + 0.5));
    jw_key_int(out, "prefill", (int64_t)(1000 * since(r->started, r->prefilled) + 0.5));
    jw_key_int(out, "first_token", (int64_t)(1000 * r->first_token + 0.5));
    jw_key_int(out, "total", (int64_t)(1000 * since(w->began, os_now()) + 0.5));
    jw_close(out, '}');
}

static void put_warnings(const generation *w, strbuf *out)
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

static void put_answer(const generation *w, const choice *c, strbuf *out)
{
    const mote_answer *a = &c->result.answer;
    jw_key_text(out, "preset", a->preset);
    put_sampling(c, out);
    put_thinking(w, a, out);
    put_cache(w, c, out);
    jw_key(out, "loop");
    jw_open(out, '{');
    jw_key_uint(out, "detected", a->loops_detected);
    jw_key_uint(out, "recovered", a->loops_recovered);
    jw_close(out, '}');
    jw_key(out, "stop");
    jw_open(out, '{');
    jw_key_text(out, "cause", stop_cause_name(c->cause));
    jw_close(out, '}');
    if (c->answer.format == MOTE_FORMAT_TEXT)
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
        put_answer(w, c, &mote);
    if (w->request.n_shown > 0)
        put_images(w, &mote);
    put_ms(w, &c->result, &mote);
    put_warnings(w, &mote);
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

/* ---- those at work ---- */

/* One choice speaks for all in times. */
void generation_note(const generation *w)
{
    if (w->x == NULL || w->n_choices == 0)
        return;
    const usage u = generation_usage(w);
    const choice *c = &w->choices[0];
    const bool several = model_registry_count(w->ctx->models) > 1;
    const double writing = c->result.answer.seconds_decode;
    exchange_note(w->x, &(log_stats){
                            .model = several ? served_model_name(w->request.served) : NULL,
                            .prompt = u.prompt,
                            .cached = u.cached,
                            .out = u.out,
                            .think = u.think,
                            .queue = c->result.started,
                            .first_token = c->result.first_token,
                            .rate = writing > 0 ? (double)u.out / writing : 0,
                            .stop = stop_cause_name(c->cause),
                        });
}

generation *generation_find(server_context *s, str id, uint64_t ns)
{
    generation *w = s->generations;
    while (w != NULL && !(w->request.ns == ns && str_is(id, w->id)))
        w = w->next;
    return w;
}

void generation_end_thinking(generation *w)
{
    for (size_t i = 0; i < w->n_choices; i++)
        if (w->choices[i].submitted && !w->choices[i].over)
            sched_end_thinking(served_model_sched(w->request.served), w->choices[i].job);
}
