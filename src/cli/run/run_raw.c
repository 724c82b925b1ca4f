/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_raw.c - `mote run --raw`: continues a text, without a chat template.
 *
 * Reads and tokenizes the prompt, prefills it, runs the token loop of generate.c and reports.
 */
#include "base/os.h"
#include "cli/chat/answer_options.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/run/run.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct raw_state {
    const cli_call *call;
    const answer_flags *options;
    loaded on;
    strbuf prompt;
    input_ids ids;
    completion answer;
    double started, load_ended, prompt_ended; /* os_now */
} raw_state;

static int raw_read_prompt(raw_state *r)
{
    size_t typed;
    int code = answer_read_prompt(&r->prompt, &typed, r->call);
    if (code == CLI_DONE && r->prompt.n == 0)
        return msg_usage("no prompt (try: mote run %.200s --raw \"Once upon a time\")",
                         r->call->words[0]);
    return code;
}

/* A prompt with <|im_start|> but without --special is probably a mistake. */
static void raw_note_control_tokens(const raw_state *r)
{
    size_t n = 0;
    mote_error err;
    if (mote_tokenize(r->on.model, r->prompt.p, r->prompt.n, MOTE_TEXT_CONTROL, NULL, 0, &n,
                      &err) == MOTE_OK &&
        n != r->ids.n)
        msg_note(
            "the prompt contains control tokens, treated as plain text (--special enables them)");
}

static int raw_tokenize(raw_state *r)
{
    int code = input_tokenize(&r->ids, r->on.model, r->prompt.p, r->prompt.n,
                              r->options->special ? MOTE_TEXT_CONTROL : 0);
    if (code == CLI_DONE && !r->options->special)
        raw_note_control_tokens(r);
    return code;
}

enum { DEFAULT_ANSWER = 1024 };

/* Creates an engine with context for the prompt and at least one more token. */
static int raw_open_engine(raw_state *r)
{
    const answer_flags *o = r->options;
    const int drafts = spec_flag_read(o->spec);
    load_options load = o->load;
    uint64_t answer_tokens = o->max_tokens != 0 ? o->max_tokens : DEFAULT_ANSWER;
    uint64_t context = load_context(&r->on, &o->load, r->ids.n, answer_tokens);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (r->ids.n + 1 > context)
        return msg_fail(CLI_NO_ROOM, mote_status_name(MOTE_E_FULL),
                        "prompt of %s does not fit into a context of %s (try: --context %llu)",
                        text_counted(a, r->ids.n, "token"), text_count(b, context),
                        (unsigned long long)(r->ids.n + answer_tokens));
    load.drafts = drafts != SPEC_OFF;
    load.keep_drafts = drafts > 0;
    return load_engine(&r->on, &load, &context, r->ids.n + 1,
                       drafts != SPEC_OFF ? SPEC_MAX_ROWS : 1);
}

static int raw_prefill(raw_state *r)
{
    mote_error err;
    prefill_job job = {
        .engine = r->on.engine, .session = r->on.session, .tokens = r->ids.ids, .n = r->ids.n};
    mote_status status = prefill_prompt(&job, &err);
    r->prompt_ended = os_now();
    if (status == MOTE_E_CANCELED) {
        char prompt[ANSWER_PROMPT_BYTES];
        msg_note(
            "%s   interrupted during prefill",
            answer_prompt_text(prompt, r->ids.n, 0, job.done, r->prompt_ended - r->load_ended));
        return interrupt_exit_code();
    }
    return status == MOTE_OK ? CLI_DONE : msg_error(&err);
}

/* Greedy decoding needs no seed. */
static uint64_t raw_seed(const answer_flags *o)
{
    if (o->given.seed)
        return o->seed;
    return o->temperature == 0 ? 0 : answer_new_seed();
}

static int raw_generate(raw_state *r)
{
    const answer_flags *o = r->options;
    completion *a = &r->answer;
    a->on = &r->on;
    a->max_tokens = o->max_tokens;
    a->show_control = o->special;
    a->spec = spec_flag_read(o->spec);
    a->stream = r->call->common.json ? NULL : r->call->out;
    a->sampling = answer_flags_sampling(o);
    a->sampling.generated_from = r->ids.n;
    a->sampling.seed = raw_seed(o);
    mote_error err;
    if (completion_init(a, &o->stop, &err) != MOTE_OK || completion_run(a, &err) != MOTE_OK) {
        if (r->call->out->line_open)
            out_text(r->call->out, "\n");
        out_flush(r->call->out);
        return msg_error(&err);
    }
    return CLI_DONE;
}

/* prompt 51 tokens in 0.15 s (340 t/s)   answer 210 tokens in 26.3 s (8.0 t/s)   drafts 90/120 */
static void raw_report(const raw_state *r)
{
    const mote_answer counted = {.drafted_tokens = r->answer.drafted,
                                 .accepted_tokens = r->answer.accepted};
    char drafts[ANSWER_DRAFTS_BYTES];
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    char prompt[ANSWER_PROMPT_BYTES], answer[128], seed[128] = "";
    double decode = r->answer.ended - r->prompt_ended;
    size_t n = r->answer.ids.n;
    answer_prompt_text(prompt, r->ids.n, 0, r->ids.n, r->prompt_ended - r->load_ended);
    snprintf(answer, sizeof answer, "answer %s in %s (%s t/s)", text_counted(a, n, "token"),
             text_seconds(b, decode), text_rate(c, answer_per_second(n, decode)));
    if (r->options->temperature > 0)
        snprintf(seed, sizeof seed, "   seed %llu", (unsigned long long)r->answer.sampling.seed);
    static const char *const why[] = {
        [COMPLETION_MAX_TOKENS] = "   cut by --max-tokens",
        [COMPLETION_CONTEXT] = "   context full",
        [COMPLETION_INTERRUPTED] = "   interrupted",
        [COMPLETION_FAILED] = "",
    };
    const char *end = why[r->answer.end] != NULL ? why[r->answer.end] : "";
    msg_note("%s   %s%s%s%s", prompt, answer, answer_drafts_text(drafts, &counted), seed, end);
}

static void raw_write_timings(strbuf *j, const raw_state *r)
{
    double prefill = r->prompt_ended - r->load_ended;
    double decode = r->answer.ended - r->prompt_ended;
    jw_key(j, "timings");
    jw_open(j, '{');
    jw_key_double(j, "load", r->load_ended - r->started);
    jw_key_double(j, "prompt", prefill);
    jw_key_double(j, "answer", decode);
    jw_key_double(j, "first_token", r->answer.first_token - r->load_ended);
    jw_key_double(j, "total", r->answer.ended - r->started);
    jw_key_double(j, "prompt_per_second", answer_per_second(r->ids.n, prefill));
    jw_key_double(j, "answer_per_second", answer_per_second(r->answer.ids.n, decode));
    jw_close(j, '}');
}

static int raw_write_json(const raw_state *r)
{
    const completion *a = &r->answer;
    mote_model_info info;
    mote_model_describe(r->on.model, &info);
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "model", info.name);
    jw_key_str(&j, "content", (str){a->text.p, a->text.n});
    jw_key_text(&j, "finish", completion_finish(a->end));
    jw_key(&j, "ids");
    jw_open(&j, '[');
    for (size_t i = 0; i < a->ids.n; i++)
        jw_int(&j, a->ids.ids[i]);
    jw_close(&j, ']');
    jw_key(&j, "usage");
    jw_open(&j, '{');
    jw_key_uint(&j, "prompt_tokens", r->ids.n);
    jw_key_uint(&j, "completion_tokens", a->ids.n);
    jw_key_uint(&j, "total_tokens", r->ids.n + a->ids.n);
    jw_close(&j, '}');
    raw_write_timings(&j, r);
    jw_key(&j, "mote");
    jw_open(&j, '{');
    answer_write_sampling(&j, &a->sampling);
    jw_key_text(&j, "stop", completion_end_name(a->end));
    jw_key(&j, "spec");
    jw_open(&j, '{');
    jw_key_uint(&j, "drafted", a->drafted);
    jw_key_uint(&j, "accepted", a->accepted);
    jw_close(&j, '}');
    jw_key_text(&j, "isa", mote_isa_name(info.isa));
    jw_key_uint(&j, "threads", mote_engine_threads(r->on.engine));
    jw_key_uint(&j, "context", mote_session_context(r->on.session));
    jw_close(&j, '}');
    jw_close(&j, '}');
    return out_json(r->call->out, &j);
}

static int raw_finish(const raw_state *r)
{
    cli_out *o = r->call->out;
    const int code = r->call->common.json ? raw_write_json(r) : CLI_DONE;
    if (code != CLI_DONE)
        return code;
    if (!r->call->common.json && o->line_open)
        out_text(o, "\n");
    out_flush(o);
    if (!r->call->common.json)
        raw_report(r);
    completion_end end = r->answer.end;
    if (end == COMPLETION_INTERRUPTED)
        return interrupt_exit_code();
    bool cut = end == COMPLETION_MAX_TOKENS || end == COMPLETION_CONTEXT;
    return cut && r->options->fail_on_length ? CLI_CUT : CLI_DONE;
}

static int raw_run(raw_state *r)
{
    found_model found;
    int code = raw_read_prompt(r);
    r->started = os_now();
    if (code == CLI_DONE)
        code = find_or_pull_model(&found, r->call->words[0], r->options->pull,
                                  r->options->load.memory);
    if (code == CLI_DONE)
        code = load_model(&r->on, &found, NULL, (mote_isa)r->options->load.isa);
    if (code == CLI_DONE)
        code = load_loras(&r->on, &r->options->lora);
    if (code == CLI_DONE)
        code = load_prefault(&r->on, r->options->load.memory);
    if (code == CLI_DONE)
        code = raw_tokenize(r);
    if (code == CLI_DONE)
        code = raw_open_engine(r);
    r->load_ended = os_now();
    if (code == CLI_DONE)
        code = raw_prefill(r);
    if (code == CLI_DONE)
        code = raw_generate(r);
    return code == CLI_DONE ? raw_finish(r) : code;
}

/* Flags of a chat have no meaning here; settings from elsewhere are ignored. */
static int raw_refuse_chat_flags(const cli_call *call)
{
    static const char *const flags[] = {
        "system",        "messages", "tools",         "think",  "no-think",
        "hide-thinking", "template", "chat-template", "preset", "format",
        "json-schema",   "grammar",  "regex",         "choice", "no-loop-guard",
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (args_given(call, flags[i]))
            return msg_usage("--raw and --%s exclude each other", flags[i]);
    return CLI_DONE;
}

int run_raw(const cli_call *call)
{
    raw_state r = {.call = call, .options = call->options};
    int code = raw_refuse_chat_flags(call);
    if (code == CLI_DONE)
        code = raw_run(&r);
    completion_fini(&r.answer);
    input_ids_free(&r.ids);
    strbuf_fini(&r.prompt);
    load_close(&r.on);
    return code;
}
