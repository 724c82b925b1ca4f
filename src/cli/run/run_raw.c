/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_raw.c - `mote run --raw`: a text in, what comes next out.
 *
 * Owns the way from the prompt to token ids and the report at the end; answer.c has the loop in
 * between.
 */
#include "cli/run/generate.h"
#include "cli/load/prefill.h"
#include "cli/term/interrupt.h"
#include "cli/term/json_out.h"
#include "cli/run/run.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>

/* All that one run needs, so that there is one place to give it back. */
typedef struct raw_state {
    const cli_call *call;
    const run_options *options;
    loaded on;
    input_text prompt;
    input_ids ids;
    answer answer;
    double started, load_ended, prompt_ended; /* os_now */
} raw_state;

static int read_prompt(raw_state *r)
{
    int code = run_read_prompt(&r->prompt, r->call);
    if (code == CLI_DONE && r->prompt.n == 0)
        return msg_usage("there is no prompt (try: mote run %.200s --raw \"Once upon a time\")",
                         r->call->words[0]);
    return code;
}

/* A prompt that spells <|im_start|> without --special is probably a mistake. */
static void note_control_tokens(const raw_state *r)
{
    size_t n = 0;
    mote_error err;
    if (mote_tokenize(r->on.model, r->prompt.p, r->prompt.n, MOTE_TEXT_CONTROL, NULL, 0, &n,
                      &err) == MOTE_OK &&
        n != r->ids.n)
        msg_note(
            "the prompt spells control tokens, read as plain text (--special makes them real)");
}

static int tokenize_prompt(raw_state *r)
{
    int code = input_tokenize(&r->ids, r->on.model, r->prompt.p, r->prompt.n,
                              r->options->special ? MOTE_TEXT_CONTROL : 0);
    if (code == CLI_DONE && !r->options->special)
        note_control_tokens(r);
    return code;
}

enum { USUAL_ANSWER = 1024 };

/* Makes an engine with room for the prompt and at least one token after it. */
static int make_engine(raw_state *r)
{
    const run_options *o = r->options;
    uint64_t answer_tokens = o->max_tokens != 0 ? o->max_tokens : USUAL_ANSWER;
    uint64_t context = load_context(&r->on, &o->load, r->ids.n, answer_tokens);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (r->ids.n + 1 > context)
        return msg_fail(CLI_NO_ROOM, mote_status_name(MOTE_E_FULL),
                        "the prompt has %s, the context holds %s (try: --context %llu)",
                        text_counted(a, r->ids.n, "token"), text_count(b, context),
                        (unsigned long long)(r->ids.n + answer_tokens));
    return load_engine(&r->on, &o->load, context, 1);
}

static int feed(raw_state *r)
{
    mote_error err;
    feed_job job = {
        .engine = r->on.engine, .session = r->on.session, .tokens = r->ids.ids, .n = r->ids.n};
    mote_status status = feed_prompt(&job, &err);
    r->prompt_ended = os_now();
    if (status == MOTE_E_CANCELED) {
        msg_note("interrupted while reading the prompt");
        return interrupt_exit_code();
    }
    return status == MOTE_OK ? CLI_DONE : msg_error(&err);
}

/* The seed of a run; without a draw there is nothing to seed. */
static uint64_t seed_of(const run_options *o)
{
    if (o->given.seed)
        return o->seed;
    return o->temperature == 0 ? 0 : run_new_seed();
}

static int generate(raw_state *r)
{
    const run_options *o = r->options;
    answer *a = &r->answer;
    a->on = &r->on;
    a->max_tokens = o->max_tokens;
    a->show_control = o->special;
    a->stream = r->call->common.json ? NULL : r->call->out;
    a->sampling = run_sampling(o);
    a->sampling.generated_from = r->ids.n;
    a->sampling.seed = seed_of(o);
    mote_error err;
    if (answer_init(a, &o->stop, &err) != MOTE_OK || answer_run(a, &err) != MOTE_OK) {
        if (r->call->out->line_open)
            out_text(r->call->out, "\n");
        out_flush(r->call->out);
        return msg_error(&err);
    }
    return CLI_DONE;
}

/* prompt 51 tokens in 0.15 s (340 t/s)   answer 210 tokens in 26.3 s (8.0 t/s) */
static void report_timing(const raw_state *r)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    char prompt[128], said[128], more[128] = "";
    double reading = r->prompt_ended - r->load_ended;
    double writing = r->answer.ended - r->prompt_ended;
    size_t n = r->answer.ids.n;
    snprintf(prompt, sizeof prompt, "prompt %s in %s (%s t/s)", text_counted(a, r->ids.n, "token"),
             text_seconds(b, reading), text_rate(c, run_per_second(r->ids.n, reading)));
    snprintf(said, sizeof said, "answer %s in %s (%s t/s)", text_counted(a, n, "token"),
             text_seconds(b, writing), text_rate(c, run_per_second(n, writing)));
    if (r->options->temperature > 0)
        snprintf(more, sizeof more, "   seed %llu", (unsigned long long)r->answer.sampling.seed);
    static const char *const why[] = {
        [ANSWER_MAX_TOKENS] = "   cut by --max-tokens",
        [ANSWER_CONTEXT] = "   context full",
        [ANSWER_INTERRUPTED] = "   interrupted",
        [ANSWER_FAILED] = "",
    };
    const char *end = why[r->answer.end] != NULL ? why[r->answer.end] : "";
    msg_note("%s   %s%s%s", prompt, said, more, end);
}

static void write_timings(json *j, const raw_state *r)
{
    double reading = r->prompt_ended - r->load_ended;
    double writing = r->answer.ended - r->prompt_ended;
    json_key(j, "timings");
    json_begin_object(j);
    json_key_f64(j, "load", r->load_ended - r->started);
    json_key_f64(j, "prompt", reading);
    json_key_f64(j, "answer", writing);
    json_key_f64(j, "first_token", r->answer.first_token - r->load_ended);
    json_key_f64(j, "total", r->answer.ended - r->started);
    json_key_f64(j, "prompt_per_second", run_per_second(r->ids.n, reading));
    json_key_f64(j, "answer_per_second", run_per_second(r->answer.ids.n, writing));
    json_end_object(j);
}

static void write_json(const raw_state *r)
{
    const answer *a = &r->answer;
    mote_model_info info;
    mote_model_describe(r->on.model, &info);
    json j = {.to = r->call->out};
    json_begin_object(&j);
    json_key_text(&j, "model", info.name);
    json_key(&j, "content");
    json_bytes(&j, a->text.p, a->text.n);
    json_key_text(&j, "finish", answer_finish(a->end));
    json_key(&j, "ids");
    json_begin_array(&j);
    for (size_t i = 0; i < a->ids.n; i++)
        json_i64(&j, a->ids.ids[i]);
    json_end_array(&j);
    json_key(&j, "usage");
    json_begin_object(&j);
    json_key_u64(&j, "prompt_tokens", r->ids.n);
    json_key_u64(&j, "completion_tokens", a->ids.n);
    json_key_u64(&j, "total_tokens", r->ids.n + a->ids.n);
    json_end_object(&j);
    write_timings(&j, r);
    json_key(&j, "mote");
    json_begin_object(&j);
    run_write_sampling(&j, &a->sampling);
    json_key_text(&j, "stop", answer_end_name(a->end));
    json_key_text(&j, "isa", mote_isa_name(info.isa));
    json_key_u64(&j, "threads", mote_engine_threads(r->on.engine));
    json_key_u64(&j, "context", mote_session_context(r->on.session));
    json_end_object(&j);
    json_end_object(&j);
}

static int finish(const raw_state *r)
{
    cli_out *o = r->call->out;
    if (r->call->common.json)
        write_json(r);
    else if (o->line_open)
        out_text(o, "\n");
    out_flush(o);
    if (!r->call->common.json)
        report_timing(r);
    answer_end end = r->answer.end;
    if (end == ANSWER_INTERRUPTED)
        return interrupt_exit_code();
    bool cut = end == ANSWER_MAX_TOKENS || end == ANSWER_CONTEXT;
    return cut && r->options->fail_on_length ? CLI_CUT : CLI_DONE;
}

/* The steps in order; the first that fails ends the run. */
static int run_steps(raw_state *r)
{
    int code = read_prompt(r);
    r->started = os_now();
    if (code == CLI_DONE)
        code = load_model(&r->on, r->call->words[0], NULL, (mote_isa)r->options->load.isa);
    if (code == CLI_DONE)
        code = load_warm(&r->on);
    if (code == CLI_DONE)
        code = tokenize_prompt(r);
    if (code == CLI_DONE)
        code = make_engine(r);
    r->load_ended = os_now();
    if (code == CLI_DONE)
        code = feed(r);
    if (code == CLI_DONE)
        code = generate(r);
    return code == CLI_DONE ? finish(r) : code;
}

/* Flags about a conversation; here there is none. */
static int refuse_chat_flags(const run_options *o)
{
    const struct {
        const char *name;
        bool set;
    } flags[] = {
        {"system", o->system != NULL},
        {"messages", o->messages != NULL},
        {"tools", o->tools != NULL},
        {"think", o->think != NULL && getenv("MOTE_THINK") == NULL},
        {"no-think", o->no_think},
        {"hide-thinking", o->hide_thinking},
        {"preset", o->task != 0},
        {"format", o->format != 0},
        {"json-schema", o->schema != NULL},
        {"grammar", o->grammar != NULL},
        {"regex", o->regex != NULL},
        {"no-loop-guard", o->no_loop_guard},
        {"choice", o->choice != NULL},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].set)
            return msg_usage("--raw continues a text and has no --%s; leave out one of them",
                             flags[i].name);
    return CLI_DONE;
}

int run_raw(const cli_call *call)
{
    raw_state r = {.call = call, .options = call->options};
    int code = refuse_chat_flags(r.options);
    if (code == CLI_DONE)
        code = run_steps(&r);
    answer_fini(&r.answer);
    input_ids_free(&r.ids);
    input_text_free(&r.prompt);
    load_close(&r.on);
    return code;
}
