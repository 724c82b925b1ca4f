/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_once.c - `mote run` with a prompt: one message in, one answer out.
 *
 * Only the answer goes to stdout. With --json it is one document with usage, timings and sampling.
 */
#include "base/os.h"
#include "cli/chat/conversation.h"
#include "cli/run/run.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>

static void once_write_usage(strbuf *j, const mote_answer *a)
{
    jw_key(j, "usage");
    jw_open(j, '{');
    jw_key_uint(j, "prompt_tokens", a->prompt_tokens);
    jw_key_uint(j, "completion_tokens", a->answer_tokens);
    jw_key_uint(j, "total_tokens", a->prompt_tokens + a->answer_tokens);
    jw_key_uint(j, "reasoning_tokens", a->think_tokens);
    jw_key_uint(j, "cached_tokens", a->reused_tokens);
    jw_close(j, '}');
}

static void once_write_thinking(strbuf *j, const mote_answer *a)
{
    jw_key(j, "thinking");
    jw_open(j, '{');
    jw_key_bool(j, "on", a->thinking);
    jw_key_uint(j, "budget", a->think_budget);
    jw_key_uint(j, "tokens", a->think_tokens);
    jw_key_text(j, "end", mote_think_end_name(a->think_end));
    jw_key_uint(j, "loops_detected", a->loops_detected);
    jw_key_uint(j, "loops_recovered", a->loops_recovered);
    jw_close(j, '}');
}

static void once_write_timings(strbuf *j, const conversation *t)
{
    const mote_answer *a = &t->answer;
    jw_key(j, "timings");
    jw_open(j, '{');
    jw_key_double(j, "load", t->load_ended - t->started);
    jw_key_double(j, "prompt", a->seconds_prefill);
    jw_key_double(j, "answer", a->seconds_decode);
    jw_key_double(j, "first_token", t->first_token > 0 ? t->first_token - t->sent : 0);
    jw_key_double(j, "total", t->ended - t->started);
    jw_key_double(j, "prompt_per_second",
                  answer_per_second(a->prefilled_tokens, a->seconds_prefill));
    jw_key_double(j, "answer_per_second", answer_per_second(a->answer_tokens, a->seconds_decode));
    jw_close(j, '}');
}

static void once_write_mote(strbuf *j, const conversation *t, const mote_model_info *info)
{
    const mote_answer *a = &t->answer;
    jw_key(j, "mote");
    jw_open(j, '{');
    answer_write_sampling(j, &a->sampling);
    jw_key_text(j, "stop", mote_finish_name(a->finish));
    jw_key_uint(j, "forced_tokens", a->forced_tokens);
    jw_key_uint(j, "dropped_tokens", a->dropped_tokens);
    jw_key(j, "spec");
    jw_open(j, '{');
    jw_key_uint(j, "drafted", a->drafted_tokens);
    jw_key_uint(j, "accepted", a->accepted_tokens);
    jw_close(j, '}');
    jw_key(j, "cache");
    jw_open(j, '{');
    jw_key_uint(j, "reused", a->reused_tokens);
    jw_key_text(j, "from", chat_disk_restored(t->chat) > 0 ? "disk" : "none");
    jw_close(j, '}');
    jw_key_uint(j, "warnings", a->warnings);
    jw_key_text(j, "isa", mote_isa_name(info->isa));
    jw_key_uint(j, "threads", mote_engine_threads(t->on.engine));
    jw_key_uint(j, "context", mote_session_context(mote_chat_session(t->chat)));
    jw_close(j, '}');
}

/* The finish reason of the OpenAI API; "stop" in the object "mote" is more specific. */
static const char *once_finish(mote_finish finish)
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

static int once_write_json(const conversation *t)
{
    mote_model_info info;
    mote_model_describe(t->on.model, &info);
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "model", info.name);
    jw_key_str(&j, "content", (str){t->view.content.p, t->view.content.n});
    jw_key_str(&j, "reasoning", (str){t->view.reasoning.p, t->view.reasoning.n});
    jw_key(&j, "tool_calls");
    answer_view_write_calls(&t->view, &j);
    jw_key_text(&j, "finish", once_finish(t->answer.finish));
    if (t->media.n > 0)
        media_files_write_json(&t->media, &j);
    once_write_usage(&j, &t->answer);
    once_write_thinking(&j, &t->answer);
    jw_key_text(&j, "preset", t->answer.preset);
    once_write_timings(&j, t);
    once_write_mote(&j, t, &info);
    jw_close(&j, '}');
    const int code = out_json(t->call->out, &j);
    out_flush(t->call->out);
    return code;
}

/* prompt 51 tokens in 0.15 s (340 t/s)   answer 210 tokens in 26.3 s (8.0 t/s)   drafts 90/120 */
static void once_report(const conversation *t)
{
    const mote_answer *a = &t->answer;
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], z[TEXT_NUMBER_BYTES];
    char prompt[ANSWER_PROMPT_BYTES], answer[128], seed[64] = "", thought[64] = "";
    char drafts[ANSWER_DRAFTS_BYTES];
    const char *ending = conversation_ending(t);
    answer_prompt_text(prompt, a->prompt_tokens, a->reused_tokens, a->prefilled_tokens,
                       a->seconds_prefill);
    if (!conversation_prefilled(t)) {
        msg_note("%s   %s", prompt, ending != NULL ? ending : "");
        return;
    }
    snprintf(answer, sizeof answer, "answer %s in %s (%s t/s)",
             text_counted(x, a->answer_tokens, "token"), text_seconds(y, a->seconds_decode),
             text_rate(z, answer_per_second(a->answer_tokens, a->seconds_decode)));
    if (a->think_tokens > 0)
        snprintf(thought, sizeof thought, "   %s of thinking",
                 text_counted(x, a->think_tokens, "token"));
    if (a->sampling.temperature > 0)
        snprintf(seed, sizeof seed, "   seed %llu", (unsigned long long)a->sampling.seed);
    msg_note("%s   %s%s%s%s%s%s", prompt, answer, thought, answer_drafts_text(drafts, a), seed,
             ending != NULL ? "   " : "", ending != NULL ? ending : "");
}

static int once_exit_code(const conversation *t)
{
    mote_finish finish = t->answer.finish;
    if (finish == MOTE_FINISH_CANCELED && interrupt_pending())
        return interrupt_exit_code();
    bool cut = finish == MOTE_FINISH_LENGTH || finish == MOTE_FINISH_LOOP;
    if (!cut)
        return CLI_DONE;
    if (t->flags->fail_on_length)
        return CLI_CUT;
    if (t->options.answer.format != MOTE_FORMAT_TEXT)
        return msg_fail(CLI_NOT_VALID, "cut",
                        "the answer was cut before it matched the response format (try: a larger "
                        "--max-tokens)");
    return CLI_DONE;
}

/* Adds what to do about a full context. */
static int once_failed(const conversation *t, const mote_error *err)
{
    mote_model_info info;
    if (err->status != MOTE_E_FULL)
        return msg_error(err);
    mote_model_describe(t->on.model, &info);
    const bool can_grow = mote_session_context(mote_chat_session(t->chat)) < info.context;
    return msg_fail(CLI_NO_ROOM, mote_status_name(err->status), "%s (try: %s)", err->text,
                    can_grow ? "a larger --context" : "a shorter prompt, or --yarn 2");
}

static int once_answer(conversation *t, const strbuf *prompt)
{
    mote_error err;
    if ((prompt->n > 0 || t->media.n > 0) &&
        conversation_add(t, prompt->p, prompt->n, &err) != MOTE_OK)
        return msg_error(&err);
    if (conversation_answer(t, &err) != MOTE_OK)
        return once_failed(t, &err);
    const int code = t->call->common.json ? once_write_json(t) : CLI_DONE;
    if (code != CLI_DONE)
        return code;
    if (!t->call->common.json)
        once_report(t);
    return once_exit_code(t);
}

int run_once(const cli_call *call)
{
    conversation t = {.call = call, .flags = call->options};
    strbuf prompt = {0};
    size_t typed = 0;
    int code = answer_read_prompt(&prompt, &typed, call);
    if (code == CLI_DONE && prompt.n == 0 && t.flags->messages == NULL)
        code =
            msg_usage("no prompt (try: mote run %.200s \"Why is the sky blue?\")", call->words[0]);
    if (code == CLI_DONE)
        code = conversation_open(&t, call, &prompt, typed, false);
    if (code == CLI_DONE)
        code = once_answer(&t, &prompt);
    conversation_close(&t);
    strbuf_fini(&prompt);
    return code;
}
