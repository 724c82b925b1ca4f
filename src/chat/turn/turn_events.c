/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_emit.c - from the tokens of a turn to its reader.
 *
 * Tokens become events in the parser; content goes by way of the stop strings, and so does the
 * word of how its tokens were chosen, which always arrives just before it.
 */
#include "base/mem.h"
#include "chat/turn/turn_int.h"

enum { FIRST_ROOM = 32 };

/* ---- stop strings ---- */

/* Where the text from `at` on is a whole string: which one; else s->n. Of two, the first named. */
static size_t whole_at(const chat_stops *s, size_t at)
{
    size_t i = 0;
    for (; i < s->n; i++) {
        const size_t n = strlen(s->strings[i]);
        if (s->held.n - at >= n && memcmp(s->held.p + at, s->strings[i], n) == 0)
            break;
    }
    return i;
}

/* All that is left from `at` on is the beginning of a string. */
static bool begins_at(const chat_stops *s, size_t at)
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
        const size_t which = whole_at(s, *certain);
        if (which < s->n) {
            s->hit = true;
            s->which = (uint32_t)which;
            return;
        }
        if (begins_at(s, *certain))
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

static void pass_on(const chat_turn *t, const chat_event *event)
{
    if (t->options.event != NULL)
        t->options.event(t->options.with, event);
}

void turn_warn(chat_turn *t, chat_warning warning, str text)
{
    t->result.warnings++;
    pass_on(t, &(chat_event){.kind = CHAT_EVENT_WARNING, .warning = warning, .text = text});
}

/* ---- how tokens were chosen ---- */

/* What was told of is not needed any more. */
static void drop_choices(chat_turn *t)
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
    drop_choices(t);
    const size_t at = t->n - t->choice_from;
    if (at == t->choices_room) {
        const size_t room = t->choices_room * 2 + FIRST_ROOM;
        mote_choice *grown = mem_resize(t->choices, t->choices_room, room, sizeof *grown);
        if (grown == NULL)
            return err_set(err, MOTE_E_MEMORY, "no memory for log-probabilities");
        t->choices = grown;
        t->choices_room = room;
    }
    t->choices[at] = choice != NULL ? *choice : (mote_choice){.token = token};
    return MOTE_OK;
}

static void tell_token(const chat_turn *t, size_t token)
{
    const size_t at = t->options.n_prompt + token;
    chat_event event = {
        .kind = CHAT_EVENT_TOKEN, .token = token, .choice = &t->choices[at - t->choice_from]};
    event.text.p = mote_token_bytes(t->chat_ctx->model, t->tokens[at], &event.text.n);
    pass_on(t, &event);
}

/* Its content will come by way of the stop strings. */
static void let_wait(chat_turn *t, size_t token)
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

/* Of `bytes` that are certain, those before the next token that waits. */
static size_t next_stretch(chat_turn *t, size_t bytes)
{
    while (t->first_waiting < t->n_waiting) {
        const turn_waiting *first = &t->waiting[t->first_waiting];
        if (first->content > t->content_out) {
            const size_t before = first->content - t->content_out;
            return before < bytes ? before : bytes;
        }
        tell_token(t, first->token);
        t->first_waiting++;
    }
    return bytes;
}

static void pass_content(chat_turn *t, size_t bytes)
{
    const char *from = t->stops.held.p;
    size_t done = 0;
    while (done < bytes) {
        const size_t now = next_stretch(t, bytes - done);
        pass_on(t, &(chat_event){.kind = CHAT_EVENT_CONTENT, .text = {from + done, now}});
        done += now;
        t->content_out += now;
    }
    chat_stops_take(&t->stops, bytes);
}

static void on_content(chat_turn *t, const chat_event *event)
{
    size_t certain;
    chat_stops_add(&t->stops, event->text, &certain);
    t->content_in += event->text.n;
    pass_content(t, certain);
}

void turn_on_event(void *with, const chat_event *event)
{
    chat_turn *t = with;
    if (t->stops.hit)
        return;
    if (event->kind == CHAT_EVENT_CONTENT && t->stops.n > 0) {
        on_content(t, event);
    } else if (event->kind == CHAT_EVENT_TOKEN && t->stops.n > 0) {
        let_wait(t, event->token);
    } else if (event->kind == CHAT_EVENT_TOKEN) {
        tell_token(t, event->token);
    } else {
        if (event->kind != CHAT_EVENT_REASONING)
            pass_content(t, t->stops.held.n);
        t->result.warnings += event->kind == CHAT_EVENT_WARNING;
        pass_on(t, event);
    }
}

/* ---- all of it ---- */

static mote_status check(const chat_turn *t, mote_error *err)
{
    if (t->waiting_failed)
        return err_set(err, MOTE_E_MEMORY, "no memory for log-probabilities");
    return strbuf_check(&t->stops.held, err);
}

mote_status turn_flush(chat_turn *t, size_t end, mote_error *err)
{
    while (t->delivered < end && !t->stops.hit)
        TRY(chat_parser_token(t->parser, t->tokens[t->delivered++], err));
    return check(t, err);
}

mote_status turn_finish(chat_turn *t, mote_finish how, mote_error *err)
{
    mote_answer *r = &t->result;
    TRY(turn_flush(t, t->n, err));
    if (t->stops.hit)
        how = MOTE_FINISH_STOP_TEXT;
    TRY(chat_parser_end(t->parser, how != MOTE_FINISH_STOP && how != MOTE_FINISH_TOOL_CALLS, err));
    if (t->stops.hit) /* what was held back may have held one */
        how = MOTE_FINISH_STOP_TEXT;
    r->calls = chat_parser_calls(t->parser);
    if (how == MOTE_FINISH_STOP && r->calls > 0)
        how = MOTE_FINISH_TOOL_CALLS;
    r->finish = how;
    r->stop = t->stops.which;
    r->answer_tokens = t->n - t->options.n_prompt - t->unspent;
    if (t->state == TURN_THINKING)
        r->think_tokens = r->answer_tokens;
    else if (r->thinking)
        r->think_tokens = t->answer_from - t->options.n_prompt - t->unspent;
    r->forced_tokens = t->closing - t->unspent + t->forced;
    return check(t, err);
}
