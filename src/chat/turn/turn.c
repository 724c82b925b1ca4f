/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c - see turn.h.
 *
 * A token that was sampled goes through the same gates in the same order: end of the
 * answer, loop guard, end of thinking, delivery, stop strings, calls, length. The reader gets
 * it a little later than it is written: what may turn out to be a loop is held back, so that
 * going back never takes away what somebody has seen.
 */
#include "base/mem.h"
#include "chat/turn/turn_int.h"

#include <math.h>

enum {
    MAX_TOKENS = 32768,
    MAX_RETRIES = 3,  /* other draws after loops in one answer ... */
    FORM_RETRIES = 1, /* ... and inside a form, which can be completed without the model */
    MAX_BLANKS = 32   /* tokens after thinking within which something has to be written */
};

/* ---- a new turn ---- */

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

static mote_status check_answer(const chat_turn_options *o, mote_error *err)
{
    const mote_answer_options *a = o->answer;
    if ((unsigned)a->task > MOTE_TASK_VISION || (unsigned)a->tool_choice > MOTE_TOOLS_NAMED)
        return err_set(err, MOTE_E_ARG,
                       "the task or the tool_choice is not one of those in mote_chat.h");
    if (o->raw && (o->thinking || o->n_tools > 0 || a->tool_choice > MOTE_TOOLS_NONE))
        return err_set(err, MOTE_E_ARG, "without a template there is no thinking and no call");
    return check_stops(a, err);
}

/* Field by field: the preset, unless the caller said otherwise. */
static void choose_sampling(chat_turn *t)
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

static void plan_thinking(chat_turn *t)
{
    const uint32_t asked = t->options.answer->think_budget;
    if (!t->options.thinking)
        return;
    const size_t a = t->chat_ctx->n_closing[0], b = t->chat_ctx->n_closing[1];
    t->plan = chat_think_plan_of(asked > 0 ? asked : MOTE_THINK_MEDIUM, t->max_tokens,
                                 (uint32_t)(a > b ? a : b));
    t->result.thinking = true;
    t->result.think_budget = t->plan.budget;
}

/* Room for the answer and for what closes thinking before there is any. */
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

static mote_status set_up(chat_turn *t, mote_error *err)
{
    const chat_turn_options *o = &t->options;
    TRY(check_answer(o, err));
    TRY(plan_length(t, err));
    t->tokens = mem_new(t->room, sizeof *t->tokens);
    t->bias = mem_new(o->answer->sampling.n_bias + TURN_OWN_BIAS, sizeof *t->bias);
    t->picks = mem_new(t->max_tokens, sizeof *t->picks);
    t->pick_at = mem_new(t->max_tokens, sizeof *t->pick_at);
    if (t->tokens == NULL || t->bias == NULL || t->picks == NULL || t->pick_at == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for an answer");
    memcpy(t->tokens, o->prompt, o->n_prompt * sizeof *t->tokens);
    if (o->answer->sampling.n_bias > 0)
        memcpy(t->bias, o->answer->sampling.bias, o->answer->sampling.n_bias * sizeof *t->bias);
    t->n = t->delivered = t->answer_from = t->choice_from = o->n_prompt;
    t->options.prompt = NULL;
    t->stops = (chat_stops){.strings = o->answer->stop, .n = o->answer->n_stop};
    t->result.prompt_tokens = o->n_prompt;
    choose_sampling(t);
    plan_thinking(t);
    TRY(response_format_init(&t->form, &t->options, err));
    t->options.fault = NULL;
    const chat_parser_options parser = {.model = t->chat_ctx->model,
                                        .how = &t->chat_ctx->how,
                                        .tools = o->tools,
                                        .n_tools = o->n_tools,
                                        .tool_allowed = o->tool_allowed,
                                        .thinking = o->thinking,
                                        .raw = o->raw,
                                        .tokens = o->logprobs,
                                        .formed = t->form.call != NULL,
                                        .event = turn_on_event,
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
    t->chat_ctx = options->chat_ctx;
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
    response_format_fini(&t->form);
    strbuf_fini(&t->stops.held);
    mem_free(t->choices);
    mem_free(t->waiting);
    mem_free(t->tokens);
    mem_free(t->picks);
    mem_free(t->pick_at);
    mem_free(t->bias);
    mem_free(t);
}

/* ---- one token ---- */

static void forbid(chat_turn *t, mote_token token)
{
    t->bias[t->n_bias++] = (mote_bias){token, -INFINITY};
}

/* Tokens of the answer that count against its length. */
static size_t used(const chat_turn *t)
{
    return t->n - t->options.n_prompt - t->unspent;
}

/* Some token other than those that end the answer. */
static bool can_go_on(const chat_turn *t, const uint32_t *allowed)
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

/* The caller wants more; or thinking is over, and something is to be said. */
static bool must_go_on(const chat_turn *t, const uint32_t *allowed)
{
    if ((t->options.ignore_end || used(t) < t->options.min_tokens) && can_go_on(t, allowed))
        return true;
    return t->state == TURN_ANSWERING && t->result.thinking && !t->wrote &&
           t->form.phase == RESPONSE_FORMAT_FREE && t->n - t->answer_from < MAX_BLANKS;
}

/* Thinking does not open twice, and calls are made of tools. */
static void set_bias(chat_turn *t, const uint32_t *allowed)
{
    const mote_token *tags = t->chat_ctx->how.tags;
    t->n_bias = t->options.answer->sampling.n_bias;
    if (must_go_on(t, allowed))
        for (size_t i = 0; i < t->chat_ctx->n_ends; i++)
            forbid(t, t->chat_ctx->ends[i]);
    if (t->options.raw)
        return;
    forbid(t, tags[CHAT_TAG_THINK]);
    if (t->state == TURN_THINKING) {
        t->bias[t->n_bias++] =
            (mote_bias){tags[CHAT_TAG_THINK_END], chat_think_urge(&t->plan, (uint32_t)used(t))};
        return;
    }
    forbid(t, tags[CHAT_TAG_THINK_END]);
    if (t->options.answer->tool_choice == MOTE_TOOLS_NONE || t->form.no_calls)
        forbid(t, tags[CHAT_TAG_CALL]);
}

static mote_status sample(chat_turn *t, const mote_session *session, mote_choice *out,
                          mote_error *err)
{
    mote_sampling how = t->sampling;
    if (t->state == TURN_ANSWERING)
        TRY(response_format_allowed(&t->form, &how.allowed, err));
    set_bias(t, how.allowed);
    how.bias = t->bias;
    how.n_bias = t->n_bias;
    if (t->retries > 0) { /* another draw, and less taste for what was said already */
        how.draw += t->retries;
        how.frequency += 0.2f * (float)t->retries;
        how.temperature = fmaxf(how.temperature, 0.7f);
        how.top_k = how.top_k > 0 ? how.top_k : 20;
    }
    return mote_sample(session, 0, &how, out, err);
}

static str bytes_of(const chat_turn *t, size_t at)
{
    str text;
    text.p = mote_token_bytes(t->chat_ctx->model, t->tokens[at], &text.n);
    return text;
}

/* `choice` is NULL for tokens that are put in. */
static mote_status push(chat_turn *t, mote_token token, const mote_choice *choice, mote_error *err)
{
    TRY(turn_keep_choice(t, token, choice, err));
    if (choice != NULL) {
        t->picks[t->n_picks] = token;
        t->pick_at[t->n_picks++] = (uint32_t)t->n;
    }
    t->tokens[t->n++] = token;
    const str text = bytes_of(t, t->n - 1);
    for (size_t i = 0; t->state == TURN_ANSWERING && i < text.n; i++)
        t->wrote |= strchr(" \t\r\n", text.p[i]) == NULL;
    return MOTE_OK;
}

static void begin_answer(chat_turn *t)
{
    t->state = TURN_ANSWERING;
    t->answer_from = t->n;
    loop_detector_start(&t->loop, t->n_picks, false);
    response_format_begin(&t->form, t->n);
}

/* Ends thinking for the model. */
static mote_status close_thinking(chat_turn *t, mote_think_end why, mote_error *err)
{
    const bool none = t->n == t->options.n_prompt;
    const bool whole = none || chat_ends_sentence(bytes_of(t, t->n - 2), bytes_of(t, t->n - 1));
    const size_t which = whole || why == MOTE_THINK_END_NATURAL ? 0 : 1;
    for (size_t i = 0; i < t->chat_ctx->n_closing[which]; i++)
        TRY(push(t, t->chat_ctx->closing[which][i], NULL, err));
    t->closing = t->chat_ctx->n_closing[which];
    t->unspent = none ? t->closing : 0;
    t->result.think_end = why;
    begin_answer(t);
    return MOTE_OK;
}

static mote_status over(chat_turn *t, mote_finish how, mote_error *err)
{
    mote_status status = turn_finish(t, how, err);
    t->state = TURN_OVER;
    return status;
}

/* Puts in the rest of a form that the model cannot be brought to end. */
static mote_status put_rest(chat_turn *t, bool *whole, mote_error *err)
{
    mote_token ids[RESPONSE_FORMAT_REST];
    const size_t left = t->max_tokens - used(t);
    size_t n;
    TRY(response_format_rest(
        &t->form, ids, left < RESPONSE_FORMAT_REST ? left : RESPONSE_FORMAT_REST, &n, whole, err));
    for (size_t i = 0; i < n; i++) {
        TRY(push(t, ids[i], NULL, err));
        TRY(response_format_accept(&t->form, ids[i], t->n, err));
    }
    t->forced += n;
    return MOTE_OK;
}

static mote_status give_up(chat_turn *t, mote_error *err)
{
    bool whole;
    TRY(put_rest(t, &whole, err));
    return over(t, whole ? MOTE_FINISH_STOP : MOTE_FINISH_LOOP, err);
}

/* Back to where it began, but for what the reader has seen. */
static void cut_loop(chat_turn *t, size_t *same)
{
    const size_t begin =
        t->pick_at[t->loop.begin] > t->delivered ? t->pick_at[t->loop.begin] : t->delivered;
    t->result.loops_found++;
    t->result.dropped_tokens += t->n - begin;
    t->n = begin;
    while (t->n_picks > 0 && t->pick_at[t->n_picks - 1] >= begin)
        t->n_picks--;
    if (t->state == TURN_ANSWERING)
        response_format_rewind(&t->form, begin);
    if (begin < *same)
        *same = begin;
}

/* Thinking ends, and an answer tries another way. */
static mote_status leave_loop(chat_turn *t, size_t *same, mote_error *err)
{
    cut_loop(t, same);
    const uint32_t most = t->form.phase == RESPONSE_FORMAT_FREE ? MAX_RETRIES : FORM_RETRIES;
    if (t->state == TURN_ANSWERING && t->retries >= most)
        return give_up(t, err);
    t->result.loops_left++;
    if (t->state == TURN_THINKING)
        return close_thinking(t, MOTE_THINK_END_LOOP, err);
    t->retries++;
    loop_detector_start(&t->loop, t->n_picks, false);
    return MOTE_OK;
}

/* A token of thinking was written. */
static mote_status after_thinking(chat_turn *t, mote_error *err)
{
    if (t->tokens[t->n - 1] == t->chat_ctx->how.tags[CHAT_TAG_THINK_END]) {
        t->result.think_end = used(t) > t->plan.soft ? MOTE_THINK_END_SOFT : MOTE_THINK_END_NATURAL;
        begin_answer(t);
        return MOTE_OK;
    }
    if (used(t) >= t->plan.last ||
        (used(t) >= t->plan.budget &&
         chat_ends_sentence(bytes_of(t, t->n - 2), bytes_of(t, t->n - 1))))
        return close_thinking(t, MOTE_THINK_END_BUDGET, err);
    return MOTE_OK;
}

/* Puts in what the form leaves no choice about, as far as there is room. */
static mote_status put_forced(chat_turn *t, mote_error *err)
{
    mote_token ids[RESPONSE_FORMAT_FORCED];
    size_t n = 1;
    while (t->state == TURN_ANSWERING && n > 0) {
        const size_t left = t->max_tokens - used(t);
        TRY(response_format_forced(&t->form, ids, RESPONSE_FORMAT_FORCED, &n, err));
        n = n < left ? n : left;
        for (size_t i = 0; i < n; i++) {
            TRY(push(t, ids[i], NULL, err));
            TRY(response_format_accept(&t->form, ids[i], t->n, err));
        }
        t->forced += n;
    }
    return MOTE_OK;
}

static mote_status after_token(chat_turn *t, mote_error *err)
{
    const size_t held = t->options.answer->no_loop_guard ? 0 : loop_detector_suspects(&t->loop);
    const size_t certain = held > 0 ? t->pick_at[t->n_picks - held] : SIZE_MAX;
    if (t->state == TURN_THINKING)
        TRY(after_thinking(t, err));
    TRY(put_forced(t, err));
    TRY(turn_flush(t, certain < t->n ? certain : t->n, err));
    if (t->stops.hit)
        return over(t, MOTE_FINISH_STOP_TEXT, err);
    if (t->options.answer->one_call && chat_parser_calls(t->parser) > 0)
        return over(t, MOTE_FINISH_TOOL_CALLS, err);
    if (used(t) >= t->max_tokens)
        return over(t, MOTE_FINISH_LENGTH, err);
    return MOTE_OK;
}

static mote_status advance(chat_turn *t, const mote_session *session, size_t *same, mote_error *err)
{
    mote_choice choice;
    if (t->state == TURN_ANSWERING && used(t) >= t->max_tokens) /* put in before the first choice */
        return over(t, MOTE_FINISH_LENGTH, err);
    if (t->state == TURN_THINKING && t->enough) {
        TRY(close_thinking(t, MOTE_THINK_END_CLIENT, err));
        return after_token(t, err);
    }
    TRY(sample(t, session, &choice, err));
    if (mote_token_is_end(t->chat_ctx->model, choice.token)) {
        if (t->state == TURN_ANSWERING)
            return over(t, MOTE_FINISH_STOP, err);
        TRY(close_thinking(t, MOTE_THINK_END_NATURAL, err));
        return after_token(t, err);
    }
    TRY(push(t, choice.token, &choice, err));
    if (t->state == TURN_ANSWERING)
        TRY(response_format_accept(&t->form, choice.token, t->n, err));
    if (!t->options.answer->no_loop_guard &&
        loop_detector_add(&t->loop, t->picks, t->n_picks) != LOOP_NONE)
        return leave_loop(t, same, err);
    return after_token(t, err);
}

/* What the schemas of tools ask for and nobody holds them to. */
static void warn_of_form(chat_turn *t)
{
    str left = strbuf_view(&t->form.warnings);
    while (left.n > 0) {
        const char *end = memchr(left.p, '\n', left.n);
        const size_t n = end != NULL ? (size_t)(end - left.p) : left.n;
        turn_warn(t, CHAT_WARN_SCHEMA, (str){left.p, n});
        left = (str){left.p + n + (end != NULL), left.n - n - (end != NULL)};
    }
}

static mote_status begin(chat_turn *t, mote_error *err)
{
    t->state = TURN_THINKING;
    warn_of_form(t);
    loop_detector_start(&t->loop, 0, true);
    if (!t->options.thinking)
        begin_answer(t);
    else if (t->plan.last == 0 || t->enough)
        TRY(close_thinking(t, t->enough ? MOTE_THINK_END_CLIENT : MOTE_THINK_END_BUDGET, err));
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

void chat_turn_end_thinking(chat_turn *t)
{
    t->enough = true;
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
