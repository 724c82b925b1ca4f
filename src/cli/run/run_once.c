/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_once.c - `mote run` with a prompt: one message in, one answer out.
 *
 * The answer goes to standard output and nothing else does; with --json it is one document that
 * also says how it came about.
 */
#include "cli/term/interrupt.h"
#include "cli/term/output_messages.h"
#include "cli/chat/conversation.h"
#include "cli/term/text.h"

#include "base/os.h"

#include <stdio.h>

static void write_usage(json *j, const mote_answer *a)
{
    json_key(j, "usage");
    json_begin_object(j);
    json_key_u64(j, "prompt_tokens", a->prompt_tokens);
    json_key_u64(j, "completion_tokens", a->answer_tokens);
    json_key_u64(j, "total_tokens", a->prompt_tokens + a->answer_tokens);
    json_key_u64(j, "reasoning_tokens", a->think_tokens);
    json_key_u64(j, "cached_tokens", a->reused_tokens);
    json_end_object(j);
}

static void write_thinking(json *j, const mote_answer *a)
{
    json_key(j, "thinking");
    json_begin_object(j);
    json_key_bool(j, "on", a->thinking);
    json_key_u64(j, "budget", a->think_budget);
    json_key_u64(j, "tokens", a->think_tokens);
    json_key_text(j, "end", mote_think_end_name(a->think_end));
    json_key_u64(j, "loops_found", a->loops_detected);
    json_key_u64(j, "loops_left", a->loops_recovered);
    json_end_object(j);
}

static void write_timings(json *j, const talk *t)
{
    const mote_answer *a = &t->answer;
    json_key(j, "timings");
    json_begin_object(j);
    json_key_f64(j, "load", t->load_ended - t->started);
    json_key_f64(j, "prompt", a->seconds_prefill);
    json_key_f64(j, "answer", a->seconds_decode);
    json_key_f64(j, "first_token", t->first_token > 0 ? t->first_token - t->asked : 0);
    json_key_f64(j, "total", t->ended - t->started);
    json_key_f64(j, "prompt_per_second",
                 run_per_second(a->prompt_tokens - a->reused_tokens, a->seconds_prefill));
    json_key_f64(j, "answer_per_second", run_per_second(a->answer_tokens, a->seconds_decode));
    json_end_object(j);
}

static void write_mote(json *j, const talk *t, const mote_model_info *info)
{
    const mote_answer *a = &t->answer;
    json_key(j, "mote");
    json_begin_object(j);
    run_write_sampling(j, &a->sampling);
    json_key_text(j, "stop", mote_finish_name(a->finish));
    json_key_u64(j, "forced_tokens", a->forced_tokens);
    json_key_u64(j, "dropped_tokens", a->dropped_tokens);
    json_key_u64(j, "warnings", a->warnings);
    json_key_text(j, "isa", mote_isa_name(info->isa));
    json_key_u64(j, "threads", mote_engine_threads(t->on.engine));
    json_key_u64(j, "context", mote_session_context(mote_chat_session(t->chat)));
    json_end_object(j);
}

/* The contract's words; "stop" of the part "mote" says it more exactly. */
static const char *finish_word(mote_finish finish)
{
    switch (finish) {
    case MOTE_FINISH_STOP:
    case MOTE_FINISH_STOP_TEXT: return "stop";
    case MOTE_FINISH_LENGTH:
    case MOTE_FINISH_LOOP: return "length";
    case MOTE_FINISH_TOOL_CALLS: return "tool_calls";
    case MOTE_FINISH_CANCELED: return "interrupted";
    }
    return "stop";
}

static void write_json(const talk *t)
{
    mote_model_info info;
    mote_model_describe(t->on.model, &info);
    json j = {.to = t->call->out};
    json_begin_object(&j);
    json_key_text(&j, "model", info.name);
    json_key(&j, "content");
    json_bytes(&j, t->screen.content.p, t->screen.content.n);
    json_key(&j, "reasoning");
    json_bytes(&j, t->screen.reasoning.p, t->screen.reasoning.n);
    json_key(&j, "tool_calls");
    screen_write_calls(&t->screen, &j);
    json_key_text(&j, "finish", finish_word(t->answer.finish));
    if (t->shows.n > 0)
        images_write(&t->shows, &j);
    write_usage(&j, &t->answer);
    write_thinking(&j, &t->answer);
    json_key_text(&j, "preset", t->answer.preset);
    write_timings(&j, t);
    write_mote(&j, t, &info);
    json_end_object(&j);
    out_flush(t->call->out);
}

/* prompt 51 tokens in 0.15 s (340 t/s)   answer 210 tokens in 26.3 s (8.0 t/s)   seed 7 */
static void report(const talk *t)
{
    const mote_answer *a = &t->answer;
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], z[TEXT_NUMBER_BYTES];
    char prompt[128], said[128], seed[64] = "", thought[64] = "";
    uint64_t read = a->prompt_tokens - a->reused_tokens;
    snprintf(prompt, sizeof prompt, "prompt %s in %s (%s t/s)",
             text_counted(x, a->prompt_tokens, "token"), text_seconds(y, a->seconds_prefill),
             text_rate(z, run_per_second(read, a->seconds_prefill)));
    snprintf(said, sizeof said, "answer %s in %s (%s t/s)",
             text_counted(x, a->answer_tokens, "token"), text_seconds(y, a->seconds_decode),
             text_rate(z, run_per_second(a->answer_tokens, a->seconds_decode)));
    if (a->think_tokens > 0)
        snprintf(thought, sizeof thought, "   %s of thinking",
                 text_counted(x, a->think_tokens, "token"));
    if (a->sampling.temperature > 0)
        snprintf(seed, sizeof seed, "   seed %llu", (unsigned long long)a->sampling.seed);
    const char *ending = talk_ending(t);
    msg_note("%s   %s%s%s%s%s", prompt, said, thought, seed, ending != NULL ? "   " : "",
             ending != NULL ? ending : "");
}

static int exit_code_of(const talk *t)
{
    mote_finish finish = t->answer.finish;
    if (finish == MOTE_FINISH_CANCELED && interrupt_came())
        return interrupt_exit_code();
    bool cut = finish == MOTE_FINISH_LENGTH || finish == MOTE_FINISH_LOOP;
    if (!cut)
        return CLI_DONE;
    if (t->options->fail_on_length)
        return CLI_CUT;
    if (t->settings.answer.format != MOTE_FORMAT_TEXT)
        return msg_fail(CLI_NOT_VALID, "cut",
                        "the answer was cut before it had its form (try: a larger --max-tokens)");
    return CLI_DONE;
}

/* The library's word, and what to do where it can be said. */
static int answer_failed(const talk *t, const mote_error *err)
{
    mote_model_info info;
    if (err->status != MOTE_E_FULL)
        return msg_error(err);
    mote_model_describe(t->on.model, &info);
    const bool can_grow = mote_session_context(mote_chat_session(t->chat)) < info.context;
    return msg_fail(CLI_NO_ROOM, mote_status_name(err->status), "%s (try: %s)", err->text,
                    can_grow ? "a larger --context" : "a shorter text, or --yarn 2");
}

static int answer_prompt(talk *t, const input_text *prompt)
{
    mote_error err;
    if ((prompt->n > 0 || t->shows.n > 0) && talk_add(t, prompt->p, prompt->n, &err) != MOTE_OK)
        return msg_error(&err);
    if (talk_answer(t, &err) != MOTE_OK)
        return answer_failed(t, &err);
    if (t->call->common.json)
        write_json(t);
    else
        report(t);
    return exit_code_of(t);
}

int run_filter(const cli_call *call)
{
    talk t = {.call = call, .options = call->options};
    input_text prompt = {0};
    int code = run_read_prompt(&prompt, call);
    if (code == CLI_DONE && prompt.n == 0 && t.options->messages == NULL)
        code = msg_usage("there is no prompt (try: mote run %.200s \"Why is the sky blue?\")",
                         call->words[0]);
    if (code == CLI_DONE)
        code = talk_open(&t, call, &prompt, false);
    if (code == CLI_DONE)
        code = answer_prompt(&t, &prompt);
    talk_close(&t);
    input_text_free(&prompt);
    return code;
}
