/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_events.c - from the tokens of a turn to the caller's events.
 *
 * Path: tokens, parser, stop strings, event function. Content and its token events pass the stop
 * strings together, so that a token event always comes directly before its content.
 */
#include "base/mem.h"
#include "chat/turn/turn_int.h"

enum { FIRST_ROOM = 32 };

/* ---- stop strings ---- */

/* Index of the first stop string that is complete at `at`; s->n: none. */
static size_t stops_match_at(const chat_stops *s, size_t at)
{
    size_t i = 0;
    for (; i < s->n; i++) {
        const size_t n = strlen(s->strings[i]);
        if (s->held.n - at >= n && memcmp(s->held.p + at, s->strings[i], n) == 0)
            break;
    }
    return i;
}

/* Whether the text from `at` to the end is a proper prefix of a stop string. */
static bool stops_begin_at(const chat_stops *s, size_t at)
{
    const size_t left = s->held.n - at;
    for (size_t i = 0; i < s->n; i++)
        if (left < strlen(s->strings[i]) && memcmp(s->held.p + at, s->strings[i], left) == 0)
            return true;
    return false;
}

void chat_stops_add(chat_stops *s, str piece, size_t *certain)
{
    *certain = 0;
    if (s->hit)
        return;
    strbuf_put(&s->held, piece);
    for (; *certain < s->held.n; ++*certain) {
        const size_t which = stops_match_at(s, *certain);
        if (which < s->n) {
            s->hit = true;
            s->which = (uint32_t)which;
            return;
        }
        if (stops_begin_at(s, *certain))
            return;
    }
}

void chat_stops_take(chat_stops *s, size_t bytes)
{
    s->held.n -= bytes;
    if (bytes > 0 && s->held.n > 0)
        memmove(s->held.p, s->held.p + bytes, s->held.n);
}

/* ---- events ---- */

static void turn_deliver(const chat_turn *t, const chat_event *event)
{
    if (t->options.event != NULL)
        t->options.event(t->options.with, event);
}

void turn_warn(chat_turn *t, chat_warning warning, str text)
{
    t->result.warnings++;
    turn_deliver(t, &(chat_event){.kind = CHAT_EVENT_WARNING, .warning = warning, .text = text});
}

/* ---- logprobs ---- */

/* Drops the choices of tokens with sent events, once they fill half of the array. */
static void turn_drop_choices(chat_turn *t)
{
    size_t needed = chat_parser_settled(t->parser);
    if (t->first_waiting < t->n_waiting)
        needed = t->waiting[t->first_waiting].token;
    const size_t gone = t->options.n_prompt + needed - t->choice_from;
    if (gone == 0 || gone < t->choices_room / 2)
        return;
    const size_t left = t->n - t->choice_from - gone;
    memmove(t->choices, t->choices + gone, left * sizeof *t->choices);
    t->choice_from += gone;
}

mote_status turn_keep_choice(chat_turn *t, mote_token token, const mote_choice *choice,
                             mote_error *err)
{
    if (!t->options.logprobs)
        return MOTE_OK;
    turn_drop_choices(t);
    const size_t at = t->n - t->choice_from;
    if (at == t->choices_room) {
        const size_t room = t->choices_room * 2 + FIRST_ROOM;
        mote_choice *grown = mem_resize(t->choices, t->choices_room, room, sizeof *grown);
        if (grown == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory: logprobs");
        t->choices = grown;
        t->choices_room = room;
    }
    t->choices[at] = choice != NULL ? *choice : (mote_choice){.token = token};
    return MOTE_OK;
}

static void turn_emit_token(const chat_turn *t, size_t token)
{
    const size_t at = t->options.n_prompt + token;
    chat_event event = {
        .kind = CHAT_EVENT_TOKEN, .token = token, .choice = &t->choices[at - t->choice_from]};
    event.text.p = mote_token_bytes(t->chat_ctx->model, t->tokens[at], &event.text.n);
    turn_deliver(t, &event);
}

/* Queues the token event until its content has passed the stop strings. */
static void turn_hold_token(chat_turn *t, size_t token)
{
    if (t->first_waiting == t->n_waiting)
        t->first_waiting = t->n_waiting = 0;
    if (t->n_waiting == t->waiting_room) {
        const size_t room = t->waiting_room * 2 + FIRST_ROOM;
        turn_waiting *grown = mem_resize(t->waiting, t->waiting_room, room, sizeof *grown);
        if (grown == NULL) {
            t->waiting_failed = true;
            return;
        }
        t->waiting = grown;
        t->waiting_room = room;
    }
    t->waiting[t->n_waiting++] = (turn_waiting){token, t->content_in};
}

/* ---- content ---- */

/* Sends the token events that are due; returns how many of `bytes` come before the next one. */
static size_t turn_next_content(chat_turn *t, size_t bytes)
{
    while (t->first_waiting < t->n_waiting) {
        const turn_waiting *first = &t->waiting[t->first_waiting];
        if (first->content > t->content_out) {
            const size_t before = first->content - t->content_out;
            return before < bytes ? before : bytes;
        }
        turn_emit_token(t, first->token);
        t->first_waiting++;
    }
    return bytes;
}

static void turn_emit_content(chat_turn *t, size_t bytes)
{
    const char *from = t->stops.held.p;
    size_t done = 0;
    while (done < bytes) {
        const size_t now = turn_next_content(t, bytes - done);
        turn_deliver(t, &(chat_event){.kind = CHAT_EVENT_CONTENT, .text = {from + done, now}});
        done += now;
        t->content_out += now;
    }
    chat_stops_take(&t->stops, bytes);
}

static void turn_on_content(chat_turn *t, const chat_event *event)
{
    size_t certain;
    chat_stops_add(&t->stops, event->text, &certain);
    t->content_in += event->text.n;
    turn_emit_content(t, certain);
}

void turn_on_event(void *with, const chat_event *event)
{
    chat_turn *t = with;
    if (t->stops.hit)
        return;
    if (event->kind == CHAT_EVENT_CONTENT && t->stops.n > 0) {
        turn_on_content(t, event);
    } else if (event->kind == CHAT_EVENT_TOKEN && t->stops.n > 0) {
        turn_hold_token(t, event->token);
    } else if (event->kind == CHAT_EVENT_TOKEN) {
        turn_emit_token(t, event->token);
    } else {
        if (event->kind != CHAT_EVENT_REASONING)
            turn_emit_content(t, t->stops.held.n);
        t->result.warnings += event->kind == CHAT_EVENT_WARNING;
        turn_deliver(t, event);
    }
}

/* ---- flush and finish ---- */

static mote_status turn_check_memory(const chat_turn *t, mote_error *err)
{
    if (t->waiting_failed)
        return err_set(err, MOTE_E_MEMORY, "out of memory: logprobs");
    return strbuf_check(&t->stops.held, err);
}

mote_status turn_flush(chat_turn *t, size_t end, mote_error *err)
{
    while (t->delivered < end && !t->stops.hit)
        TRY(chat_parser_token(t->parser, t->tokens[t->delivered++], err));
    return turn_check_memory(t, err);
}

mote_status turn_finish(chat_turn *t, mote_finish finish, mote_error *err)
{
    mote_answer *r = &t->result;
    TRY(turn_flush(t, t->n, err));
    if (t->stops.hit)
        finish = MOTE_FINISH_STOP_TEXT;
    TRY(chat_parser_end(t->parser, finish != MOTE_FINISH_STOP && finish != MOTE_FINISH_TOOL_CALLS,
                        err));
    if (t->stops.hit) /* the text held back by the parser may contain one */
        finish = MOTE_FINISH_STOP_TEXT;
    r->calls = chat_parser_calls(t->parser);
    if (finish == MOTE_FINISH_STOP && r->calls > 0)
        finish = MOTE_FINISH_TOOL_CALLS;
    r->finish = finish;
    r->stop = t->stops.which;
    r->answer_tokens = t->n - t->options.n_prompt - t->unspent;
    if (t->state == TURN_THINKING)
        r->think_tokens = r->answer_tokens;
    else if (r->thinking)
        r->think_tokens = t->answer_from - t->options.n_prompt - t->unspent;
    r->forced_tokens = t->closing - t->unspent + t->forced;
    return turn_check_memory(t, err);
}
