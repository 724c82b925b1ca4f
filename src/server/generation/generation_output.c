/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_output.c - what choices collect, and the framing of streams.
 *
 * choice_add_*() store content tokens and tool calls. generation_send*() write events and SSE
 * comments to the exchange. If the output buffer ran out of memory they only set send_failed;
 * generation.c aborts the connection.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/generation/generation_int.h"

#include <stdio.h>

/* ---- choices ---- */

static void choice_free_calls(choice_call *calls, size_t n)
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
    choice_free_calls(c->calls, c->n_calls);
    choice_free_calls(c->lost, c->n_lost);
    choice_free_calls(&c->open, 1);
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
            c->token_bytes.failed = true; /* choice_on_finished() fails the request */
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

/* Moves the open call to `calls` or `lost`. */
static void choice_keep_call(choice *c, choice_call **list, size_t *n)
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
        choice_keep_call(c, &c->calls, &c->n_calls);
    else if (event->kind == CHAT_EVENT_CALL_CANCEL)
        choice_keep_call(c, &c->lost, &c->n_lost);
    return !c->content.failed;
}

str generation_token_text(const choice *c, const choice_token *t)
{
    return t->n > 0 ? (str){c->token_bytes.p + t->from, t->n} : (str){"", 0};
}

/* ---- stop cause ---- */

stop_cause choice_cause(const choice *c)
{
    const mote_answer *a = &c->result.answer;
    const request *r = &c->of->request;
    switch (a->finish) {
    case MOTE_FINISH_STOP: return STOP_EOS;
    case MOTE_FINISH_TOOL_CALLS: return STOP_CALLS;
    case MOTE_FINISH_STOP_TEXT: return STOP_TEXT;
    case MOTE_FINISH_LOOP: return STOP_LOOP;
    default: break;
    }
    if (r->seconds > 0 && c->result.ended >= r->seconds)
        return STOP_DEADLINE;
    const uint32_t most = r->answer.max_tokens > 0 ? r->answer.max_tokens : 32768;
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

/* ---- stream ---- */

static void output_send(generation *w)
{
    exchange *x = w->x;
    w->last_sent = os_now();
    if (x == NULL || w->over || w->send_failed) {
        w->out.n = 0;
        return;
    }
    if (w->out.failed)
        w->send_failed = true;
    else
        exchange_write(x, strbuf_view(&w->out));
    w->out.n = 0;
}

void generation_send(generation *w)
{
    output_send(w);
    w->last_event = w->last_sent;
}

void generation_send_sse(generation *w, const char *event_name)
{
    strbuf_text(&w->out, "\n\n");
    if (event_name != NULL) { /* insert the two prefixes before the data */
        char line[96];
        const int n = snprintf(line, sizeof line, "event: %s\ndata: ", event_name);
        const size_t body = w->out.n;
        if (strbuf_reserve(&w->out, (size_t)n)) {
            memmove(w->out.p + n, w->out.p, body);
            memcpy(w->out.p, line, (size_t)n);
            w->out.n += (size_t)n;
        }
    } else if (strbuf_reserve(&w->out, 6)) {
        memmove(w->out.p + 6, w->out.p, w->out.n);
        memcpy(w->out.p, "data: ", 6);
        w->out.n += 6;
    }
    generation_send(w);
}

void generation_send_comment(generation *w, const char *text)
{
    strbuf_text(&w->out, ": ");
    strbuf_text(&w->out, text);
    strbuf_text(&w->out, "\n\n");
    output_send(w);
}

void generation_send_status(generation *w, const sched_job_status *status)
{
    char line[96];
    if (status->phase == SCHED_QUEUED)
        snprintf(line, sizeof line, ": queue %u\n\n", (unsigned)status->position);
    else
        snprintf(line, sizeof line, ": prefill %llu/%llu %.1f\n\n",
                 (unsigned long long)status->done, (unsigned long long)status->total, status->eta);
    strbuf_text(&w->out, status->phase == SCHED_DECODE ? ": decode\n\n" : line);
    output_send(w);
}
