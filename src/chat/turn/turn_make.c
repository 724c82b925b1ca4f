/* SPDX-License-Identifier: Apache-2.0 */
/* turn_make.c - a turn before its first token: options checked, settings chosen, room taken. */
#include "base/mem.h"
#include "chat/turn/turn_int.h"

enum { MAX_TOKENS = 32768 };

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
