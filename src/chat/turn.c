/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c - see turn.h.
 *
 * A token that was sampled goes through the same gates in the same order: end of the
 * answer, loop guard, end of thinking, delivery, stop strings, calls, length. The reader gets
 * it a little later than it is written: what may turn out to be a loop is held back, so that
 * going back never takes away what somebody has seen.
 */
#include "chat/turn.h"

#include "base/mem.h"
#include "chat/form.h"
#include "chat/loop.h"
#include "chat/stops.h"

#include <math.h>

enum {
    MAX_TOKENS = 32768,
    MAX_RETRIES = 3, /* other draws after loops in one answer */
    MAX_BLANKS = 32, /* tokens after thinking within which something has to be written */
    OWN_BIAS = 4 + CHAT_MAX_ENDS
};

typedef enum turn_state { TURN_NEW, TURN_THINKING, TURN_ANSWERING, TURN_OVER } turn_state;

struct chat_turn {
    chat_turn_options options;
    const chat_kit *kit;
    mote_sampling sampling; /* preset and overrides */
    mote_bias *bias;        /* [answer->sampling.n_bias + OWN_BIAS], the caller's first */
    size_t n_bias;
    mote_token *tokens; /* [room]: prompt, then answer */
    size_t n, room;
    turn_state state;
    chat_think_plan plan;
    uint32_t max_tokens;
    size_t answer_from; /* where thinking ended */
    size_t closing; /* tokens of it that closed thinking for the model; max_tokens ignores them */
    bool open;      /* it was stopped inside thinking */
    bool wrote;     /* something that is not blank, after thinking */
    uint32_t retries;
    chat_loop loop;
    chat_form form;
    size_t forced; /* tokens the form put in */
    chat_parser *parser;
    size_t delivered; /* tokens the parser has */
    chat_stops stops;
    mote_answer result;
};

/* ---- making one ---- */

static mote_status check_stops(const mote_answer_options *a, mote_error *err)
{
    if (a->n_stop > MOTE_CHAT_STOPS)
        return err_set(err, MOTE_E_ARG, "%zu stop strings are too many: at most %d", a->n_stop,
                       MOTE_CHAT_STOPS);
    for (size_t i = 0; i < a->n_stop; i++)
        if (a->stop[i] == NULL || a->stop[i][0] == 0 || strlen(a->stop[i]) > MOTE_CHAT_STOP_BYTES)
            return err_set(err, MOTE_E_ARG, "stop string %zu is not 1 to %d bytes long", i,
                           MOTE_CHAT_STOP_BYTES);
    return MOTE_OK;
}

static mote_status check_answer(const mote_answer_options *a, mote_error *err)
{
    if ((unsigned)a->task > MOTE_TASK_VISION || (unsigned)a->tool_choice > MOTE_TOOLS_NAMED)
        return err_set(err, MOTE_E_ARG,
                       "the task or the tool_choice is not one of those in mote_chat.h");
    return check_stops(a, err);
}

/* Field by field: the preset, unless the caller said otherwise. */
static void choose_sampling(chat_turn *t)
{
    const mote_answer_options *a = t->options.answer;
    const chat_preset *preset =
        chat_preset_find(t->kit->size, t->options.thinking, (chat_task)a->task);
    mote_sampling *s = &t->sampling;
    chat_preset_apply(preset, s);
    if (a->set & MOTE_SET_TEMPERATURE)
        s->temperature = a->sampling.temperature;
    if (a->set & MOTE_SET_TOP_K)
        s->top_k = a->sampling.top_k;
    if (a->set & MOTE_SET_TOP_P)
        s->top_p = a->sampling.top_p;
    if (a->set & MOTE_SET_MIN_P)
        s->min_p = a->sampling.min_p;
    if (a->set & MOTE_SET_PRESENCE)
        s->presence = a->sampling.presence;
    if (a->set & MOTE_SET_FREQUENCY)
        s->frequency = a->sampling.frequency;
    if (a->set & MOTE_SET_REPETITION)
        s->repetition = a->sampling.repetition;
    s->seed = a->sampling.seed;
    s->draw = a->sampling.draw;
    s->generated_from = t->options.n_prompt;
    t->result.preset = preset->name;
    t->result.sampling = *s;
}

static void plan_thinking(chat_turn *t)
{
    const uint32_t asked = t->options.answer->think_budget;
    if (!t->options.thinking)
        return;
    t->plan = chat_think_plan_of(asked > 0 ? asked : MOTE_THINK_MEDIUM, t->max_tokens);
    t->result.thinking = true;
    t->result.think_budget = t->plan.budget;
}

/* Room for the answer and, if there is thinking, for what may close it. */
static mote_status plan_length(chat_turn *t, mote_error *err)
{
    const chat_turn_options *o = &t->options;
    const uint64_t besides = o->n_prompt + (o->thinking ? CHAT_MAX_CLOSING : 0);
    const uint32_t asked = o->answer->max_tokens;
    if (besides >= o->context)
        return err_set(err, MOTE_E_FULL,
                       "the conversation takes %zu tokens and leaves no room for an answer in a "
                       "context of %llu",
                       o->n_prompt, (unsigned long long)o->context);
    t->max_tokens = asked > 0 ? asked : MAX_TOKENS;
    if (t->max_tokens > o->context - besides)
        t->max_tokens = (uint32_t)(o->context - besides);
    t->room = (size_t)besides + t->max_tokens;
    return MOTE_OK;
}

static void on_event(void *with, const chat_event *event);

static mote_status set_up(chat_turn *t, mote_error *err)
{
    const chat_turn_options *o = &t->options;
    TRY(check_answer(o->answer, err));
    TRY(plan_length(t, err));
    t->tokens = mem_new(t->room, sizeof *t->tokens);
    t->bias = mem_new(o->answer->sampling.n_bias + OWN_BIAS, sizeof *t->bias);
    if (t->tokens == NULL || t->bias == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for an answer");
    memcpy(t->tokens, o->prompt, o->n_prompt * sizeof *t->tokens);
    if (o->answer->sampling.n_bias > 0)
        memcpy(t->bias, o->answer->sampling.bias, o->answer->sampling.n_bias * sizeof *t->bias);
    t->n = t->delivered = t->answer_from = o->n_prompt;
    t->options.prompt = NULL;
    t->stops = (chat_stops){.strings = o->answer->stop, .n = o->answer->n_stop};
    t->result.prompt_tokens = o->n_prompt;
    choose_sampling(t);
    plan_thinking(t);
    TRY(chat_form_init(&t->form, &t->options, err));
    const chat_parser_options parser = {.model = t->kit->model,
                                        .how = &t->kit->how,
                                        .tools = o->tools,
                                        .n_tools = o->n_tools,
                                        .thinking = o->thinking,
                                        .event = on_event,
                                        .with = t};
    return chat_parser_new(&t->parser, &parser, err);
}

mote_status chat_turn_new(chat_turn **out, const chat_turn_options *options, mote_error *err)
{
    *out = NULL;
    chat_turn *t = mem_new(1, sizeof *t);
    if (t == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for an answer");
    t->options = *options;
    t->kit = options->kit;
    mote_status status = set_up(t, err);
    if (status != MOTE_OK) {
        chat_turn_free(t);
        return status;
    }
    *out = t;
    return MOTE_OK;
}

void chat_turn_free(chat_turn *t)
{
    if (t == NULL)
        return;
    chat_parser_free(t->parser);
    chat_form_fini(&t->form);
    strbuf_fini(&t->stops.held);
    mem_free(t->tokens);
    mem_free(t->bias);
    mem_free(t);
}

/* ---- to the reader ---- */

static void pass_on(const chat_turn *t, const chat_event *event)
{
    if (t->options.event != NULL)
        t->options.event(t->options.with, event);
}

static void pass_content(chat_turn *t, size_t bytes)
{
    if (bytes > 0)
        pass_on(t, &(chat_event){.kind = CHAT_EVENT_CONTENT, .text = {t->stops.held.p, bytes}});
    chat_stops_take(&t->stops, bytes);
}

/* Events of the parser; content goes by way of the stop strings. */
static void on_event(void *with, const chat_event *event)
{
    chat_turn *t = with;
    if (t->stops.hit)
        return;
    if (event->kind == CHAT_EVENT_CONTENT && t->stops.n > 0) {
        size_t certain;
        chat_stops_add(&t->stops, event->text, &certain);
        pass_content(t, certain);
        return;
    }
    if (event->kind != CHAT_EVENT_REASONING)
        pass_content(t, t->stops.held.n);
    t->result.warnings += event->kind == CHAT_EVENT_WARNING;
    pass_on(t, event);
}

static mote_status deliver(chat_turn *t, size_t end, mote_error *err)
{
    while (t->delivered < end && !t->stops.hit)
        TRY(chat_parser_token(t->parser, t->tokens[t->delivered++], err));
    return strbuf_check(&t->stops.held, err);
}

static mote_status finish(chat_turn *t, mote_finish how, mote_error *err)
{
    mote_answer *r = &t->result;
    TRY(deliver(t, t->n, err));
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
    r->answer_tokens = t->n - t->options.n_prompt;
    if (t->state == TURN_THINKING)
        r->think_tokens = r->answer_tokens;
    else if (r->thinking)
        r->think_tokens = t->answer_from - t->options.n_prompt;
    r->forced_tokens = t->closing + t->forced;
    return strbuf_check(&t->stops.held, err);
}

/* ---- one token ---- */

static void forbid(chat_turn *t, mote_token token)
{
    t->bias[t->n_bias++] = (mote_bias){token, -INFINITY};
}

/* Thinking does not open twice; after it, something is said. */
static void set_bias(chat_turn *t)
{
    const mote_token *tags = t->kit->how.tags;
    t->n_bias = t->options.answer->sampling.n_bias;
    forbid(t, tags[CHAT_TAG_THINK]);
    if (t->state == TURN_THINKING) {
        const uint32_t used = (uint32_t)(t->n - t->options.n_prompt);
        t->bias[t->n_bias++] =
            (mote_bias){tags[CHAT_TAG_THINK_END], chat_think_urge(&t->plan, used)};
        return;
    }
    forbid(t, tags[CHAT_TAG_THINK_END]);
    if (t->options.answer->tool_choice == MOTE_TOOLS_NONE)
        forbid(t, tags[CHAT_TAG_CALL]);
    if (t->result.thinking && !t->wrote && t->form.phase == CHAT_FORM_FREE &&
        t->n - t->answer_from < MAX_BLANKS)
        for (size_t i = 0; i < t->kit->n_ends; i++)
            forbid(t, t->kit->ends[i]);
}

static mote_status sample(chat_turn *t, const mote_session *session, mote_token *out,
                          mote_error *err)
{
    mote_sampling how = t->sampling;
    mote_choice choice;
    set_bias(t);
    how.bias = t->bias;
    how.n_bias = t->n_bias;
    if (t->retries > 0) { /* another draw, and less taste for what was said already */
        how.draw += t->retries;
        how.frequency += 0.2f * (float)t->retries;
        how.temperature = fmaxf(how.temperature, 0.7f);
        how.top_k = how.top_k > 0 ? how.top_k : 20;
    }
    if (t->state == TURN_ANSWERING)
        TRY(chat_form_allowed(&t->form, &how.allowed, err));
    TRY(mote_sample(session, 0, &how, &choice, err));
    *out = choice.token;
    return MOTE_OK;
}

static str bytes_of(const chat_turn *t, size_t at)
{
    str text;
    text.p = mote_token_bytes(t->kit->model, t->tokens[at], &text.n);
    return text;
}

static void push(chat_turn *t, mote_token token)
{
    t->tokens[t->n++] = token;
    const str text = bytes_of(t, t->n - 1);
    for (size_t i = 0; t->state == TURN_ANSWERING && i < text.n; i++)
        t->wrote |= strchr(" \t\r\n", text.p[i]) == NULL;
}

static void begin_answer(chat_turn *t)
{
    t->state = TURN_ANSWERING;
    t->answer_from = t->n;
    chat_loop_start(&t->loop, t->n, false);
    chat_form_begin(&t->form, t->n);
}

/* Ends thinking for the model. */
static void close_thinking(chat_turn *t, mote_think_end why)
{
    const bool whole = t->n > t->options.n_prompt
                           ? chat_ends_sentence(bytes_of(t, t->n - 2), bytes_of(t, t->n - 1))
                           : false;
    const size_t which = whole || why == MOTE_THINK_END_NATURAL ? 0 : 1;
    for (size_t i = 0; i < t->kit->n_closing[which]; i++)
        t->tokens[t->n++] = t->kit->closing[which][i];
    t->closing = t->kit->n_closing[which];
    t->result.think_end = why;
    begin_answer(t);
}

static mote_status over(chat_turn *t, mote_finish how, mote_error *err)
{
    mote_status status = finish(t, how, err);
    t->state = TURN_OVER;
    return status;
}

/* Back to where it began; then thinking ends, and an answer tries another way. */
static mote_status leave_loop(chat_turn *t, size_t *same, mote_error *err)
{
    const size_t begin = t->loop.begin > t->delivered ? t->loop.begin : t->delivered;
    t->result.loops_found++;
    t->result.dropped_tokens += t->n - begin;
    t->n = begin;
    if (t->state == TURN_ANSWERING)
        chat_form_rewind(&t->form, begin);
    if (begin < *same)
        *same = begin;
    if (t->state == TURN_ANSWERING && t->retries == MAX_RETRIES)
        return over(t, MOTE_FINISH_LOOP, err);
    t->result.loops_left++;
    if (t->state == TURN_THINKING) {
        close_thinking(t, MOTE_THINK_END_LOOP);
        return MOTE_OK;
    }
    t->retries++;
    chat_loop_start(&t->loop, t->n, false);
    return MOTE_OK;
}

/* A token of thinking was written. */
static void after_thinking(chat_turn *t)
{
    const uint32_t used = (uint32_t)(t->n - t->options.n_prompt);
    if (t->tokens[t->n - 1] == t->kit->how.tags[CHAT_TAG_THINK_END]) {
        t->result.think_end = used > t->plan.soft ? MOTE_THINK_END_SOFT : MOTE_THINK_END_NATURAL;
        begin_answer(t);
    } else if (used >= t->plan.last ||
               (used >= t->plan.budget &&
                chat_ends_sentence(bytes_of(t, t->n - 2), bytes_of(t, t->n - 1)))) {
        close_thinking(t, MOTE_THINK_END_BUDGET);
    }
}

/* Puts in what the form leaves no choice about, as far as there is room. */
static mote_status put_forced(chat_turn *t, mote_error *err)
{
    mote_token ids[CHAT_FORM_FORCED];
    size_t n = 1;
    while (t->state == TURN_ANSWERING && n > 0) {
        const size_t left = t->max_tokens - (t->n - t->options.n_prompt - t->closing);
        TRY(chat_form_forced(&t->form, ids, CHAT_FORM_FORCED, &n, err));
        n = n < left ? n : left;
        for (size_t i = 0; i < n; i++) {
            push(t, ids[i]);
            TRY(chat_form_accept(&t->form, ids[i], t->n, err));
        }
        t->forced += n;
        if (n > 0) /* only what the model chose can be its loop */
            chat_loop_start(&t->loop, t->n, false);
    }
    return MOTE_OK;
}

static mote_status after_token(chat_turn *t, mote_error *err)
{
    const size_t held = t->options.answer->no_loop_guard ? 0 : chat_loop_suspects(&t->loop);
    if (t->state == TURN_THINKING)
        after_thinking(t);
    TRY(put_forced(t, err));
    if (t->n > held)
        TRY(deliver(t, t->n - held, err));
    if (t->stops.hit)
        return over(t, MOTE_FINISH_STOP_TEXT, err);
    if (t->options.answer->one_call && chat_parser_calls(t->parser) > 0)
        return over(t, MOTE_FINISH_TOOL_CALLS, err);
    if (t->n - t->options.n_prompt - t->closing >= t->max_tokens)
        return over(t, MOTE_FINISH_LENGTH, err);
    return MOTE_OK;
}

static mote_status advance(chat_turn *t, const mote_session *session, size_t *same, mote_error *err)
{
    mote_token token;
    TRY(sample(t, session, &token, err));
    if (mote_token_is_end(t->kit->model, token)) {
        if (t->state == TURN_ANSWERING)
            return over(t, MOTE_FINISH_STOP, err);
        close_thinking(t, MOTE_THINK_END_NATURAL);
        return after_token(t, err);
    }
    push(t, token);
    if (t->state == TURN_ANSWERING)
        TRY(chat_form_accept(&t->form, token, t->n, err));
    if (!t->options.answer->no_loop_guard &&
        chat_loop_add(&t->loop, t->tokens, t->n) != CHAT_LOOP_NONE)
        return leave_loop(t, same, err);
    return after_token(t, err);
}

static mote_status begin(chat_turn *t, mote_error *err)
{
    t->state = TURN_THINKING;
    chat_loop_start(&t->loop, t->n, true);
    if (!t->options.thinking)
        begin_answer(t);
    else if (t->plan.last == 0)
        close_thinking(t, MOTE_THINK_END_BUDGET);
    return put_forced(t, err);
}

mote_status chat_turn_next(chat_turn *t, const mote_session *session, chat_turn_want *want,
                           mote_error *err)
{
    size_t same = t->state == TURN_NEW ? 0 : t->n;
    if (t->state == TURN_NEW)
        TRY(begin(t, err));
    else if (t->state != TURN_OVER)
        TRY(advance(t, session, &same, err));
    *want = (chat_turn_want){
        .tokens = t->tokens, .n = t->n, .same = same, .over = t->state == TURN_OVER};
    return MOTE_OK;
}

mote_status chat_turn_stop(chat_turn *t, mote_finish how, mote_error *err)
{
    if (t->state == TURN_OVER)
        return MOTE_OK;
    t->open = t->state == TURN_THINKING || (t->state == TURN_NEW && t->options.thinking);
    return over(t, how, err);
}

const mote_answer *chat_turn_result(const chat_turn *t)
{
    return &t->result;
}

const mote_token *chat_turn_tokens(const chat_turn *t, size_t *n, bool *open)
{
    *n = t->n;
    *open = t->open;
    return t->tokens;
}
