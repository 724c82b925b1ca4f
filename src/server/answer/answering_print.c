/* SPDX-License-Identifier: Apache-2.0 */
/* answering_print.c - what choices gather, and the figures that replies end with. */
#include "base/mem.h"
#include "base/os.h"
#include "server/answer/answering_int.h"
#include "server/api.h"
#include "server/door/log.h"

#include <stdio.h>
#include <sys/random.h>

/* ---- gathering ---- */

static void free_calls(made_call *calls, size_t n)
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
        told_token *moved = mem_resize(c->tokens, c->room_tokens, room, sizeof *moved);
        if (moved == NULL) {
            c->token_bytes.failed = true; /* where the end of the answer will find it */
            return;
        }
        c->tokens = moved;
        c->room_tokens = room;
    }
    told_token *t = &c->tokens[c->n_tokens++];
    t->choice = *event->choice;
    t->from = c->token_bytes.n;
    t->n = event->text.n;
    t->content = c->content.n;
    strbuf_put(&c->token_bytes, event->text);
}

/* The open call goes to one of the lists. */
static void keep_call(choice *c, made_call **list, size_t *n)
{
    made_call *calls = mem_resize(*list, *n, *n + 1, sizeof *calls);
    if (calls == NULL) {
        c->content.failed = true;
        return;
    }
    *list = calls;
    calls[(*n)++] = c->open;
    c->open = (made_call){0};
}

bool choice_add_call(choice *c, const chat_event *event, const char *prefix)
{
    if (event->kind == CHAT_EVENT_CALL_START) {
        answering_random_id(c->open.id, sizeof c->open.id, prefix);
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

str answering_token_text(const choice *c, const told_token *t)
{
    return t->n > 0 ? (str){c->token_bytes.p + t->from, t->n} : (str){"", 0};
}

/* ---- why it ended ---- */

stop_cause choice_cause(const choice *c)
{
    const mote_answer *a = &c->result.answer;
    const ask *asked = &c->of->ask;
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

const char *answering_stop_text(const choice *c)
{
    const uint32_t i = c->result.answer.stop;
    return c->cause == STOP_TEXT && i < c->answer.n_stop ? c->answer.stop[i] : NULL;
}

/* ---- ids ---- */

bool answering_random(void *out, size_t bytes)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes;
}

void answering_random_id(char *out, size_t room, const char *prefix)
{
    unsigned char bits[16] = {0};
    size_t n = (size_t)snprintf(out, room, "%s", prefix);
    answering_random(bits, sizeof bits);
    for (size_t i = 0; i < sizeof bits && n + 2 < room; i++, n += 2)
        snprintf(out + n, room - n, "%02x", bits[i]);
}

const char *answering_fingerprint(const answering *w)
{
    return served_fingerprint(w->ask.served);
}

/* ---- figures ---- */

usage answering_usage(const answering *w)
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
        if (i % w->ask.n == 0)
            u.cached += a->reused_tokens;
    }
    return u;
}

void answering_put_openai_usage(const answering *w, strbuf *out)
{
    const usage u = answering_usage(w);
    jp_key(out, "usage");
    jp_open(out, '{');
    jp_key_uint(out, "prompt_tokens", u.prompt);
    jp_key_uint(out, "completion_tokens", u.out);
    jp_key_uint(out, "total_tokens", u.prompt + u.out);
    jp_key(out, "prompt_tokens_details");
    jp_open(out, '{');
    jp_key_uint(out, "cached_tokens", u.cached);
    jp_close(out, '}');
    jp_key(out, "completion_tokens_details");
    jp_open(out, '{');
    jp_key_uint(out, "reasoning_tokens", u.think);
    jp_close(out, '}');
    jp_close(out, '}');
}

static double rounded(double x)
{
    return (double)(int64_t)(x * 1000 + 0.5) / 1000;
}

static void put_pace(strbuf *out, const char *what, uint64_t n, double seconds)
{
    char key[40];
    snprintf(key, sizeof key, "%s_n", what);
    jp_key_uint(out, key, n);
    snprintf(key, sizeof key, "%s_ms", what);
    jp_key_double(out, key, rounded(1000 * seconds));
    snprintf(key, sizeof key, "%s_per_token_ms", what);
    jp_key_double(out, key, n > 0 ? rounded(1000 * seconds / (double)n) : 0);
    snprintf(key, sizeof key, "%s_per_second", what);
    jp_key_double(out, key, seconds > 0 ? rounded((double)n / seconds) : 0);
}

static double since(double from, double to)
{
    return to > from ? to - from : 0;
}

void answering_put_timings(const answering *w, strbuf *out)
{
    const sched_result *r = &w->choices[0].result;
    const usage u = answering_usage(w);
    jp_key(out, "timings");
    jp_open(out, '{');
    jp_key_uint(out, "cache_n", u.cached);
    put_pace(out, "prompt", u.prompt - u.cached, since(r->started, r->read));
    put_pace(out, "predicted", u.out, since(r->read, r->ended));
    jp_close(out, '}');
}

static void put_sampling(const choice *c, strbuf *out)
{
    const mote_sampling *s = &c->result.answer.sampling;
    jp_key(out, "sampling");
    jp_open(out, '{');
    jp_key_float(out, "temperature", s->temperature);
    jp_key_float(out, "top_p", s->top_p);
    jp_key_uint(out, "top_k", s->top_k);
    jp_key_float(out, "min_p", s->min_p);
    jp_key_float(out, "presence_penalty", s->presence);
    jp_key_float(out, "frequency_penalty", s->frequency);
    jp_key_float(out, "repetition_penalty", s->repetition > 0 ? s->repetition : 1);
    jp_key_int(out, "seed", (int64_t)c->answer.sampling.seed);
    jp_close(out, '}');
}

static void put_thinking(const answering *w, const mote_answer *a, strbuf *out)
{
    jp_key(out, "thinking");
    jp_open(out, '{');
    jp_key_text(out, "mode", a->thinking ? "on" : "off");
    jp_key_uint(out, "budget", a->think_budget);
    jp_key_uint(out, "used", a->think_tokens);
    if (a->thinking)
        jp_key_text(out, "ended", mote_think_end_name(a->think_end));
    jp_key_text(out, "source", w->ask.think.source != NULL ? w->ask.think.source : "default");
    jp_close(out, '}');
}

static void put_cache(const answering *w, const choice *c, strbuf *out)
{
    static const char *const from[] = {"none", "live", "ram"};
    const usage u = answering_usage(w);
    jp_key(out, "cache");
    jp_open(out, '{');
    jp_key_uint(out, "prompt", u.prompt);
    jp_key_uint(out, "reused", u.cached);
    jp_key_uint(out, "prefilled", u.prompt - u.cached);
    jp_key_text(out, "from", from[c->result.reuse]);
    answering_put_miss(c, out);
    jp_close(out, '}');
}

/* The size each was seen in, so that places in it can be told in pixels. */
static void put_images(const answering *w, strbuf *out)
{
    jp_key(out, "images");
    jp_open(out, '[');
    for (size_t i = 0; i < w->ask.n_shown; i++) {
        const sight_seen *seen = w->ask.shown[i].seen;
        jp_open(out, '{');
        jp_key_uint(out, "w", seen->width);
        jp_key_uint(out, "h", seen->height);
        jp_key_uint(out, "tokens", seen->tokens);
        jp_close(out, '}');
    }
    jp_close(out, ']');
}

static void put_ms(const answering *w, const sched_result *r, strbuf *out)
{
    jp_key(out, "ms");
    jp_open(out, '{');
    jp_key_int(out, "queue", (int64_t)(1000 * since(r->load, r->started) + 0.5));
    jp_key_int(out, "load", (int64_t)(1000 * r->load + 0.5));
    jp_key_int(out, "prefill", (int64_t)(1000 * since(r->started, r->read) + 0.5));
    jp_key_int(out, "first_token", (int64_t)(1000 * r->first_token + 0.5));
    jp_key_int(out, "total", (int64_t)(1000 * since(w->began, os_now()) + 0.5));
    jp_close(out, '}');
}

static void put_warnings(const answering *w, strbuf *out)
{
    jp_key(out, "warnings");
    jp_open(out, '[');
    for (size_t i = 0; i < w->ask.n_warnings; i++) {
        jp_open(out, '{');
        jp_key_text(out, "code", w->ask.warnings[i].code);
        jp_key_text(out, "at", w->ask.warnings[i].at);
        jp_close(out, '}');
    }
    jp_close(out, ']');
}

static void put_answer(const answering *w, const choice *c, strbuf *out)
{
    const mote_answer *a = &c->result.answer;
    jp_key_text(out, "preset", a->preset);
    put_sampling(c, out);
    put_thinking(w, a, out);
    put_cache(w, c, out);
    jp_key(out, "loop");
    jp_open(out, '{');
    jp_key_uint(out, "detected", a->loops_found);
    jp_key_uint(out, "recovered", a->loops_left);
    jp_close(out, '}');
    jp_key(out, "stop");
    jp_open(out, '{');
    jp_key_text(out, "cause", stop_cause_name(c->cause));
    jp_close(out, '}');
    if (c->answer.format == MOTE_FORMAT_TEXT)
        return;
    jp_key(out, "schema");
    jp_open(out, '{');
    jp_key_bool(out, "enforced", true);
    jp_key_bool(out, "valid", c->cause == STOP_EOS);
    jp_close(out, '}');
}

void answering_put_mote(const answering *w, strbuf *out)
{
    strbuf mote = {0};
    const choice *c = &w->choices[0];
    if (w->ask.no_ext)
        return;
    jp_open(&mote, '{');
    jp_key_text(&mote, "request_id", w->request_id);
    jp_key_text(&mote, "model", served_name(w->ask.served));
    if (c->kind == SCHED_ANSWER && c->job != NULL)
        put_answer(w, c, &mote);
    if (w->ask.n_shown > 0)
        put_images(w, &mote);
    put_ms(w, &c->result, &mote);
    put_warnings(w, &mote);
    jp_close(&mote, '}');
    jp_key(out, "mote");
    jp_raw(out, strbuf_view(&mote));
    out->failed |= mote.failed;
    if (!mote.failed)
        api_remember(server_api(w->server), w->request_id, w->ask.realm, strbuf_view(&mote));
    strbuf_fini(&mote);
}

/* ---- those at work ---- */

/* One choice speaks for all in times. */
void answering_note(const answering *w)
{
    if (w->x == NULL || w->n_choices == 0)
        return;
    const usage u = answering_usage(w);
    const choice *c = &w->choices[0];
    const bool several = server_n_models(w->server) > 1;
    const double writing = c->result.answer.seconds_writing;
    exchange_note(w->x, &(log_figures){
                            .model = several ? served_name(w->ask.served) : NULL,
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

answering *answering_find(server *s, str id, uint64_t realm)
{
    answering *w = *api_at_work(server_api(s));
    while (w != NULL && !(w->ask.realm == realm && str_is(id, w->id)))
        w = w->next;
    return w;
}

void answering_end_thinking(answering *w)
{
    for (size_t i = 0; i < w->n_choices; i++)
        if (w->choices[i].submitted && !w->choices[i].over)
            sched_end_thinking(served_sched(w->ask.served), w->choices[i].job);
}
