/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c - one answer as a state machine. See turn.h.
 *
 * Every sampled token passes the same checks in the same order: end of the answer, loop detector,
 * end of thinking, delivery, stop strings, tool calls, length. Tokens that may turn out to be a
 * loop are held back, so a rewind never removes text that was delivered.
 */
#include "base/mem.h"
#include "chat/turn/turn_int.h"

#include <math.h>

enum {
    MAX_TOKENS = 32768, /* default of mote_answer_options.max_tokens */
    MAX_RETRIES = 3,    /* after loops in one answer ... */
    FORMAT_RETRIES = 1, /* ... and in a response format, which mote can complete itself */
    MAX_BLANKS = 32     /* tokens after thinking within which the answer must have visible text */
};

/* ---- a new turn ---- */

static mote_status turn_check_stops(const mote_answer_options *a, mote_error *err)
{
    if (a->n_stop > MOTE_CHAT_STOPS)
        return err_set(err, MOTE_E_ARG, "%zu stop strings; at most %d", a->n_stop, MOTE_CHAT_STOPS);
    for (size_t i = 0; i < a->n_stop; i++)
        if (a->stop[i] == NULL || a->stop[i][0] == 0 || strlen(a->stop[i]) > MOTE_CHAT_STOP_BYTES)
            return err_set(err, MOTE_E_ARG, "stop string %zu must be 1 to %d bytes long", i,
                           MOTE_CHAT_STOP_BYTES);
    return MOTE_OK;
}

static mote_status turn_check_options(const chat_turn_options *o, mote_error *err)
{
    const mote_answer_options *a = o->answer;
    if ((unsigned)a->task > MOTE_TASK_VISION)
        return err_set(err, MOTE_E_ARG, "task must be 0 to %d, got %d", MOTE_TASK_VISION,
                       (int)a->task);
    if ((unsigned)a->tool_choice > MOTE_TOOLS_NAMED)
        return err_set(err, MOTE_E_ARG, "tool_choice must be 0 to %d, got %d", MOTE_TOOLS_NAMED,
                       (int)a->tool_choice);
    if (o->raw && (o->thinking || o->n_tools > 0 || a->tool_choice > MOTE_TOOLS_NONE))
        return err_set(err, MOTE_E_ARG, "a raw completion excludes thinking and tools");
    return turn_check_stops(a, err);
}

/* The preset, overridden field by field by the caller (MOTE_SET_*). */
static void turn_choose_sampling(chat_turn *t)
{
    const mote_answer_options *a = t->options.answer;
    const chat_preset *preset =
        chat_preset_find(t->chat_ctx->size, t->options.thinking, (chat_task)a->task);
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
    if (a->set & MOTE_SET_TYPICAL_P)
        s->typical_p = a->sampling.typical_p;
    s->repeat_last = a->set & MOTE_SET_REPEAT_LAST ? a->sampling.repeat_last : MOTE_REPEAT_LAST;
    s->seed = a->sampling.seed;
    s->draw = a->sampling.draw;
    s->top_logprobs = t->options.logprobs ? a->sampling.top_logprobs : 0;
    s->generated_from = t->options.n_prompt;
    t->result.preset = preset->name;
    t->result.sampling = *s;
}

static void turn_plan_thinking(chat_turn *t)
{
    const uint32_t requested = t->options.answer->think_budget;
    if (!t->options.thinking)
        return;
    const size_t a = t->chat_ctx->n_closing[0], b = t->chat_ctx->n_closing[1];
    t->plan = chat_think_plan_of(requested > 0 ? requested : MOTE_THINK_MEDIUM, t->max_tokens,
                                 (uint32_t)(a > b ? a : b));
    t->result.thinking = true;
    t->result.think_budget = t->plan.budget;
}

/* Limits max_tokens to the context. Reserves space to close thinking before it starts. */
static mote_status turn_plan_length(chat_turn *t, mote_error *err)
{
    const chat_turn_options *o = &t->options;
    const uint64_t reserved = o->n_prompt + (o->thinking ? CHAT_MAX_CLOSING : 0);
    const uint32_t requested = o->answer->max_tokens;
    if (reserved >= o->context)
        return err_set(err, MOTE_E_FULL,
                       "the conversation has %zu tokens and leaves no room for an answer in a "
                       "context of %llu tokens",
                       o->n_prompt, (unsigned long long)o->context);
    t->max_tokens = requested > 0 ? requested : MAX_TOKENS;
    if (t->max_tokens > o->context - reserved)
        t->max_tokens = (uint32_t)(o->context - reserved);
    t->room = (size_t)reserved + t->max_tokens;
    return MOTE_OK;
}

static mote_status turn_init(chat_turn *t, mote_error *err)
{
    const chat_turn_options *o = &t->options;
    TRY(turn_check_options(o, err));
    TRY(turn_plan_length(t, err));
    t->tokens = mem_new(t->room, sizeof *t->tokens);
    t->bias = mem_new(o->answer->sampling.n_bias + TURN_OWN_BIAS, sizeof *t->bias);
    t->picks = mem_new(t->max_tokens, sizeof *t->picks);
    t->pick_at = mem_new(t->max_tokens, sizeof *t->pick_at);
    if (t->tokens == NULL || t->bias == NULL || t->picks == NULL || t->pick_at == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: an answer of %u tokens", t->max_tokens);
    memcpy(t->tokens, o->prompt, o->n_prompt * sizeof *t->tokens);
    if (o->answer->sampling.n_bias > 0)
        memcpy(t->bias, o->answer->sampling.bias, o->answer->sampling.n_bias * sizeof *t->bias);
    t->n = t->delivered = t->answer_from = t->choice_from = o->n_prompt;
    t->options.prompt = NULL;
    t->stops = (chat_stops){.strings = o->answer->stop, .n = o->answer->n_stop};
    t->result.prompt_tokens = o->n_prompt;
    turn_choose_sampling(t);
    turn_plan_thinking(t);
    TRY(response_format_init(&t->format, &t->options, err));
    t->options.fault = NULL;
    const chat_parser_options parser = {.model = t->chat_ctx->model,
                                        .template = &t->chat_ctx->template,
                                        .tools = o->tools,
                                        .n_tools = o->n_tools,
                                        .tool_allowed = o->tool_allowed,
                                        .thinking = o->thinking,
                                        .raw = o->raw,
                                        .tokens = o->logprobs,
                                        .constrained = t->format.call != NULL,
                                        .event = turn_on_event,
                                        .with = t};
    return chat_parser_new(&t->parser, &parser, err);
}

mote_status chat_turn_new(chat_turn **out, const chat_turn_options *options, mote_error *err)
{
    *out = NULL;
    chat_turn *t = mem_new(1, sizeof *t);
    if (t == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for an answer", sizeof *t);
    t->options = *options;
    t->chat_ctx = options->chat_ctx;
    mote_status status = turn_init(t, err);
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
    response_format_fini(&t->format);
    strbuf_fini(&t->stops.held);
    mem_free(t->choices);
    mem_free(t->waiting);
    mem_free(t->tokens);
    mem_free(t->picks);
    mem_free(t->pick_at);
    mem_free(t->bias);
    mem_free(t);
}

/* ---- sampling ---- */

static void turn_forbid(chat_turn *t, mote_token token)
{
    t->bias[t->n_bias++] = (mote_bias){token, -INFINITY};
}

/* Tokens that count against max_tokens. */
static size_t turn_used(const chat_turn *t)
{
    return t->n - t->options.n_prompt - t->unspent;
}

/* Whether the mask allows a token other than the end tokens. */
static bool turn_can_continue(const chat_turn *t, const uint32_t *allowed)
{
    const uint32_t words = allowed != NULL ? t->options.vocab->words : 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t left = allowed[i];
        for (size_t k = 0; k < t->chat_ctx->n_ends; k++)
            if ((uint32_t)t->chat_ctx->ends[k] / 32 == i)
                left &= ~(UINT32_C(1) << (uint32_t)t->chat_ctx->ends[k] % 32);
        if (left != 0)
            return true;
    }
    return allowed == NULL;
}

/* End tokens are forbidden: min_tokens or ignore_end, or no visible text after thinking yet. */
static bool turn_must_continue(const chat_turn *t, const uint32_t *allowed)
{
    if ((t->options.ignore_end || turn_used(t) < t->options.min_tokens) &&
        turn_can_continue(t, allowed))
        return true;
    return t->state == TURN_ANSWERING && t->result.thinking && !t->wrote &&
           t->format.phase == RESPONSE_FORMAT_FREE && t->n - t->answer_from < MAX_BLANKS;
}

/* Adds our biases to the caller's: forbids <think>, a second </think>, and calls without tools. */
static void turn_set_bias(chat_turn *t, const uint32_t *allowed)
{
    const mote_token *tags = t->chat_ctx->template.tags;
    t->n_bias = t->options.answer->sampling.n_bias;
    if (turn_must_continue(t, allowed))
        for (size_t i = 0; i < t->chat_ctx->n_ends; i++)
            turn_forbid(t, t->chat_ctx->ends[i]);
    if (t->options.raw)
        return;
    turn_forbid(t, tags[CHAT_TAG_THINK]);
    if (t->state == TURN_THINKING) {
        t->bias[t->n_bias++] = (mote_bias){tags[CHAT_TAG_THINK_END],
                                           chat_think_urge(&t->plan, (uint32_t)turn_used(t))};
        return;
    }
    turn_forbid(t, tags[CHAT_TAG_THINK_END]);
    if (t->options.answer->tool_choice == MOTE_TOOLS_NONE || t->format.no_calls)
        turn_forbid(t, tags[CHAT_TAG_CALL]);
}

static mote_status turn_sample(chat_turn *t, const mote_session *session, size_t row,
                               mote_choice *out, mote_error *err)
{
    mote_sampling sampling = t->sampling;
    if (t->state == TURN_ANSWERING)
        TRY(response_format_allowed(&t->format, &sampling.allowed, err));
    turn_set_bias(t, sampling.allowed);
    sampling.bias = t->bias;
    sampling.n_bias = t->n_bias;
    if (t->retries > 0) { /* draw differently and penalize repetition */
        sampling.draw += t->retries;
        sampling.frequency += 0.2f * (float)t->retries;
        sampling.temperature = fmaxf(sampling.temperature, 0.7f);
        sampling.top_k = sampling.top_k > 0 ? sampling.top_k : 20;
    }
    return mote_sample(session, row, &sampling, out, err);
}

static str turn_token_bytes(const chat_turn *t, size_t at)
{
    str text;
    text.p = mote_token_bytes(t->chat_ctx->model, t->tokens[at], &text.n);
    return text;
}

/* Appends a token. `choice` is NULL for an inserted token. */
static mote_status turn_push(chat_turn *t, mote_token token, const mote_choice *choice,
                             mote_error *err)
{
    TRY(turn_keep_choice(t, token, choice, err));
    if (choice != NULL) {
        t->picks[t->n_picks] = token;
        t->pick_at[t->n_picks++] = (uint32_t)t->n;
    }
    t->tokens[t->n++] = token;
    const str text = turn_token_bytes(t, t->n - 1);
    for (size_t i = 0; t->state == TURN_ANSWERING && i < text.n; i++)
        t->wrote |= strchr(" \t\r\n", text.p[i]) == NULL;
    return MOTE_OK;
}

static void turn_begin_answer(chat_turn *t)
{
    t->state = TURN_ANSWERING;
    t->answer_from = t->n;
    loop_detector_start(&t->loop, t->n_picks, false);
    response_format_begin(&t->format, t->n);
}

/* Inserts the tokens that close thinking. */
static mote_status turn_close_thinking(chat_turn *t, mote_think_end why, mote_error *err)
{
    const bool none = t->n == t->options.n_prompt;
    const bool whole =
        none || chat_ends_sentence(turn_token_bytes(t, t->n - 2), turn_token_bytes(t, t->n - 1));
    const size_t which = whole || why == MOTE_THINK_END_NATURAL ? 0 : 1;
    for (size_t i = 0; i < t->chat_ctx->n_closing[which]; i++)
        TRY(turn_push(t, t->chat_ctx->closing[which][i], NULL, err));
    t->closing = t->chat_ctx->n_closing[which];
    t->unspent = none ? t->closing : 0;
    t->result.think_end = why;
    turn_begin_answer(t);
    return MOTE_OK;
}

static mote_status turn_end(chat_turn *t, mote_finish finish, mote_error *err)
{
    mote_status status = turn_finish(t, finish, err);
    t->state = TURN_OVER;
    return status;
}

/* Inserts the shortest completion of the response format. *whole: it is complete now. */
static mote_status turn_complete_format(chat_turn *t, bool *whole, mote_error *err)
{
    mote_token ids[RESPONSE_FORMAT_COMPLETION];
    const size_t left = t->max_tokens - turn_used(t);
    size_t n;
    TRY(response_format_complete(
        &t->format, ids, left < RESPONSE_FORMAT_COMPLETION ? left : RESPONSE_FORMAT_COMPLETION, &n,
        whole, err));
    for (size_t i = 0; i < n; i++) {
        TRY(turn_push(t, ids[i], NULL, err));
        TRY(response_format_accept(&t->format, ids[i], t->n, err));
    }
    t->forced += n;
    return MOTE_OK;
}

/* Too many loops: completes the response format, if there is one, and ends the answer. */
static mote_status turn_give_up(chat_turn *t, mote_error *err)
{
    bool whole;
    TRY(turn_complete_format(t, &whole, err));
    return turn_end(t, whole ? MOTE_FINISH_STOP : MOTE_FINISH_LOOP, err);
}

/* Truncates the sequence to the start of the loop, but not below the delivered tokens. */
static mote_status turn_cut_loop(chat_turn *t, size_t *same, mote_error *err)
{
    const size_t begin =
        t->pick_at[t->loop.begin] > t->delivered ? t->pick_at[t->loop.begin] : t->delivered;
    t->result.loops_detected++;
    t->result.dropped_tokens += t->n - begin;
    t->n = begin;
    while (t->n_picks > 0 && t->pick_at[t->n_picks - 1] >= begin)
        t->n_picks--;
    if (begin < *same)
        *same = begin;
    if (t->state == TURN_ANSWERING)
        return response_format_rewind(&t->format, t->tokens, begin, err);
    return MOTE_OK;
}

/* A loop was found. Thinking is closed; an answer is sampled again differently. */
static mote_status turn_leave_loop(chat_turn *t, size_t *same, mote_error *err)
{
    TRY(turn_cut_loop(t, same, err));
    const uint32_t most = t->format.phase == RESPONSE_FORMAT_FREE ? MAX_RETRIES : FORMAT_RETRIES;
    if (t->state == TURN_ANSWERING && t->retries >= most)
        return turn_give_up(t, err);
    t->result.loops_recovered++;
    if (t->state == TURN_THINKING)
        return turn_close_thinking(t, MOTE_THINK_END_LOOP, err);
    t->retries++;
    loop_detector_start(&t->loop, t->n_picks, false);
    return MOTE_OK;
}

/* A thinking token was sampled. */
static mote_status turn_after_thinking(chat_turn *t, mote_error *err)
{
    if (t->tokens[t->n - 1] == t->chat_ctx->template.tags[CHAT_TAG_THINK_END]) {
        t->result.think_end =
            turn_used(t) > t->plan.soft ? MOTE_THINK_END_SOFT : MOTE_THINK_END_NATURAL;
        turn_begin_answer(t);
        return MOTE_OK;
    }
    if (turn_used(t) >= t->plan.last ||
        (turn_used(t) >= t->plan.budget &&
         chat_ends_sentence(turn_token_bytes(t, t->n - 2), turn_token_bytes(t, t->n - 1))))
        return turn_close_thinking(t, MOTE_THINK_END_BUDGET, err);
    return MOTE_OK;
}

/* Inserts the tokens that the response format forces, within max_tokens. *ends: they complete the
 * answer, so that it needs no more logits. */
static mote_status turn_push_forced(chat_turn *t, bool *ends, mote_error *err)
{
    mote_token ids[RESPONSE_FORMAT_FORCED];
    size_t n = 1;
    *ends = false;
    while (t->state == TURN_ANSWERING && n > 0 && !*ends) {
        const size_t left = t->max_tokens - turn_used(t);
        TRY(response_format_forced(&t->format, ids, RESPONSE_FORMAT_FORCED, &n, ends, err));
        *ends = *ends && n <= left;
        n = n < left ? n : left;
        for (size_t i = 0; i < n; i++) {
            TRY(turn_push(t, ids[i], NULL, err));
            TRY(response_format_accept(&t->format, ids[i], t->n, err));
        }
        t->forced += n;
    }
    return MOTE_OK;
}

/* Checks after a token was added: end of thinking, forced tokens, delivery, stop strings, length.
 * Tokens that may be part of a loop are not delivered yet. */
static mote_status turn_after_token(chat_turn *t, mote_error *err)
{
    const size_t held = t->options.answer->no_loop_guard ? 0 : loop_detector_suspects(&t->loop);
    const size_t certain = held > 0 ? t->pick_at[t->n_picks - held] : SIZE_MAX;
    bool ends;
    if (t->state == TURN_THINKING)
        TRY(turn_after_thinking(t, err));
    TRY(turn_push_forced(t, &ends, err));
    TRY(turn_flush(t, certain < t->n ? certain : t->n, err));
    if (t->stops.hit)
        return turn_end(t, MOTE_FINISH_STOP_TEXT, err);
    if (t->options.answer->one_call && chat_parser_calls(t->parser) > 0)
        return turn_end(t, MOTE_FINISH_TOOL_CALLS, err);
    if (ends)
        return turn_end(t, MOTE_FINISH_STOP, err);
    if (turn_used(t) >= t->max_tokens)
        return turn_end(t, MOTE_FINISH_LENGTH, err);
    return MOTE_OK;
}

/* Samples and handles one token. *same is lowered if a loop is cut out (chat_turn_want.same). */
static mote_status turn_advance(chat_turn *t, const mote_session *session, size_t row, size_t *same,
                                mote_error *err)
{
    mote_choice choice;
    if (t->state == TURN_ANSWERING &&
        turn_used(t) >= t->max_tokens) /* forced tokens before the first sample used all of it */
        return turn_end(t, MOTE_FINISH_LENGTH, err);
    if (t->state == TURN_THINKING && t->enough) {
        TRY(turn_close_thinking(t, MOTE_THINK_END_CLIENT, err));
        return turn_after_token(t, err);
    }
    TRY(turn_sample(t, session, row, &choice, err));
    if (mote_token_is_end(t->chat_ctx->model, choice.token)) {
        if (t->state == TURN_ANSWERING) {
            t->end = choice;
            t->ended = true;
            return turn_end(t, MOTE_FINISH_STOP, err);
        }
        TRY(turn_close_thinking(t, MOTE_THINK_END_NATURAL, err));
        return turn_after_token(t, err);
    }
    TRY(turn_push(t, choice.token, &choice, err));
    if (t->state == TURN_ANSWERING)
        TRY(response_format_accept(&t->format, choice.token, t->n, err));
    if (!t->options.answer->no_loop_guard &&
        loop_detector_add(&t->loop, t->picks, t->n_picks) != LOOP_NONE)
        return turn_leave_loop(t, same, err);
    return turn_after_token(t, err);
}

/* Warns of schema parts that are not enforced. */
static void turn_warn_schemas(chat_turn *t)
{
    str left = strbuf_view(&t->format.warnings);
    while (left.n > 0) {
        const char *end = memchr(left.p, '\n', left.n);
        const size_t n = end != NULL ? (size_t)(end - left.p) : left.n;
        turn_warn(t, CHAT_WARN_SCHEMA, (str){left.p, n});
        left = (str){left.p + n + (end != NULL), left.n - n - (end != NULL)};
    }
}

static mote_status turn_begin(chat_turn *t, mote_error *err)
{
    t->state = TURN_THINKING;
    turn_warn_schemas(t);
    loop_detector_start(&t->loop, 0, true);
    if (!t->options.thinking)
        turn_begin_answer(t);
    else if (t->plan.last == 0 || t->enough)
        TRY(turn_close_thinking(t, t->enough ? MOTE_THINK_END_CLIENT : MOTE_THINK_END_BUDGET, err));
    bool ends; /* if true, the end token is all that can be sampled */
    return turn_push_forced(t, &ends, err);
}

mote_status chat_turn_next(chat_turn *t, const mote_session *session, size_t row,
                           chat_turn_want *want, mote_error *err)
{
    size_t same = t->state == TURN_NEW ? 0 : t->n;
    if (t->state == TURN_NEW)
        TRY(turn_begin(t, err));
    else if (t->state != TURN_OVER)
        TRY(turn_advance(t, session, row, &same, err));
    *want = (chat_turn_want){
        .tokens = t->tokens, .n = t->n, .same = same, .over = t->state == TURN_OVER};
    return MOTE_OK;
}

void chat_turn_end_thinking(chat_turn *t)
{
    t->enough = true;
}

mote_status chat_turn_stop(chat_turn *t, mote_finish finish, mote_error *err)
{
    if (t->state == TURN_OVER)
        return MOTE_OK;
    t->open = t->state == TURN_THINKING || (t->state == TURN_NEW && t->options.thinking);
    return turn_end(t, finish, err);
}

const mote_answer *chat_turn_result(const chat_turn *t)
{
    return &t->result;
}

const mote_choice *chat_turn_end_token(const chat_turn *t)
{
    return t->ended ? &t->end : NULL;
}

const mote_token *chat_turn_tokens(const chat_turn *t, size_t *n, bool *open)
{
    *n = t->n;
    *open = t->open;
    return t->tokens;
}
