/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_run.c - `mote run`: one prompt in, one answer out.
 *
 * Owns the command's row, the prompt's way from words, file and pipe to token
 * ids, and the report at the end; answer.c has the loop in between.
 */
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/feed.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/say.h"
#include "cli/text.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

typedef struct run_options {
    bool raw;
    const char *prompt;
    const char *file;
    bool special;
    uint64_t max_tokens;
    flag_list stop;
    bool fail_on_length;
    double temperature;
    double top_p;
    uint64_t top_k;
    double min_p;
    double presence;
    double frequency;
    double repeat_penalty;
    uint64_t seed; /* NO_SEED: choose one */
    load_options load;
} run_options;

static const uint64_t NO_SEED = UINT64_MAX;

#define AT(member) offsetof(run_options, member)

static const cli_flag prompt_flags[] = {
    {.name = "raw",
     .kind = FLAG_SWITCH,
     .at = AT(raw),
     .help = "no chat template: continue the text"},
    {.name = "prompt",
     .letter = 'p',
     .kind = FLAG_TEXT,
     .value = "TEXT",
     .at = AT(prompt),
     .help = "the prompt, instead of PROMPT"},
    {.name = "file",
     .letter = 'f',
     .kind = FLAG_TEXT,
     .value = "FILE",
     .at = AT(file),
     .help = "read the prompt from a file; - is standard input"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .at = AT(special),
     .help = "control tokens spelled in the prompt count as such, and are shown in the answer"},
};

static const cli_flag limit_flags[] = {
    {.name = "max-tokens",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4194304,
     .shown = "until the model ends or the context is full",
     .at = AT(max_tokens),
     .help = "length of the answer"},
    {.name = "stop",
     .kind = FLAG_LIST,
     .value = "TEXT",
     .at = AT(stop),
     .help = "end the answer before this text; may be given several times"},
    {.name = "fail-on-length",
     .kind = FLAG_SWITCH,
     .at = AT(fail_on_length),
     .help = "exit code 9 when the answer was cut by a limit"},
};

static const cli_flag sampling_flags[] = {
    {.name = "temp",
     .kind = FLAG_NUMBER,
     .value = "T",
     .min = 0,
     .max = 2,
     .initial = "0",
     .at = AT(temperature),
     .help = "0 takes the most likely token, 1 draws as trained"},
    {.name = "top-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .min = 0,
     .max = 1,
     .shown = "off",
     .at = AT(top_p),
     .help = "draw from the likeliest tokens that make up this share"},
    {.name = "top-k",
     .kind = FLAG_COUNT,
     .value = "K",
     .min = 0,
     .max = 1000000,
     .shown = "off",
     .at = AT(top_k),
     .help = "draw from the K likeliest tokens"},
    {.name = "min-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .min = 0,
     .max = 1,
     .shown = "off",
     .at = AT(min_p),
     .help = "drop tokens less likely than P times the likeliest"},
    {.name = "presence",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -2,
     .max = 2,
     .shown = "off",
     .at = AT(presence),
     .help = "penalty for tokens the answer already has"},
    {.name = "frequency",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -2,
     .max = 2,
     .shown = "off",
     .at = AT(frequency),
     .help = "the same, for each time it has them"},
    {.name = "repeat-penalty",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = 0,
     .max = 2,
     .shown = "off",
     .at = AT(repeat_penalty),
     .help = "divides the score of tokens it has"},
    {.name = "seed",
     .kind = FLAG_COUNT,
     .value = "N",
     .initial = "18446744073709551615",
     .shown = "a new one each time",
     .at = AT(seed),
     .help = "the same seed draws the same answer"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Prompt", prompt_flags, 0),
    FLAG_GROUP("Limits", limit_flags, 0),
    FLAG_GROUP("Sampling", sampling_flags, 0),
    LOAD_FLAG_GROUP(offsetof(run_options, load)),
};

/* All that one run needs, so that there is one place to give it back. */
typedef struct run_state {
    const cli_call *call;
    const run_options *options;
    loaded on;
    input_text prompt;
    input_ids ids;
    answer answer;
    double started, load_ended, prompt_ended; /* os_now */
} run_state;

static int no_memory(void)
{
    return say_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the prompt");
}

static bool add_words(input_text *prompt, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((i > 0 && !input_add(prompt, " ", 1)) || !input_add(prompt, words[i], strlen(words[i])))
            return false;
    return true;
}

/* Appends a file after a blank line. One newline at its end is the file's, not the prompt's. */
static int add_file(input_text *prompt, const char *path)
{
    input_text text = {0};
    int code = input_read(&text, path);
    if (text.n > 0 && text.p[text.n - 1] == '\n')
        text.n--;
    bool gap = prompt->n > 0 && text.n > 0;
    if (code == CLI_DONE &&
        ((gap && !input_add(prompt, "\n\n", 2)) || !input_add(prompt, text.p, text.n)))
        code = no_memory();
    input_text_free(&text);
    return code;
}

/* PROMPT or -p, and then the file or what comes through the pipe. */
static int read_prompt(run_state *r)
{
    const run_options *o = r->options;
    const char *const *words = r->call->words + 1; /* behind the model */
    size_t n_words = r->call->n_words - 1;
    if (o->prompt != NULL && n_words > 0)
        return say_usage("there are two prompts: '%.40s' and --prompt", words[0]);
    if (!add_words(&r->prompt, o->prompt != NULL ? &o->prompt : words,
                   o->prompt != NULL ? 1 : n_words))
        return no_memory();
    const char *path = o->file != NULL ? o->file : input_waits_on_stdin() ? "-" : NULL;
    int code = path != NULL ? add_file(&r->prompt, path) : CLI_DONE;
    if (code == CLI_DONE && r->prompt.n == 0)
        return say_usage("there is no prompt (try: mote run %.200s --raw \"Once upon a time\")",
                         r->call->words[0]);
    return code;
}

/* A prompt that spells <|im_start|> without --special is probably a mistake. */
static void note_control_tokens(const run_state *r)
{
    size_t n = 0;
    mote_error err;
    if (mote_tokenize(r->on.model, r->prompt.p, r->prompt.n, MOTE_TEXT_CONTROL, NULL, 0, &n,
                      &err) == MOTE_OK &&
        n != r->ids.n)
        say_note(
            "the prompt spells control tokens, read as plain text (--special makes them real)");
}

static int tokenize_prompt(run_state *r)
{
    int code = input_tokenize(&r->ids, r->on.model, r->prompt.p, r->prompt.n,
                              r->options->special ? MOTE_TEXT_CONTROL : 0);
    if (code == CLI_DONE && !r->options->special)
        note_control_tokens(r);
    return code;
}

enum { USUAL_ANSWER = 1024 };

/* Makes an engine with room for the prompt and at least one token after it. */
static int make_engine(run_state *r)
{
    const run_options *o = r->options;
    uint64_t answer_tokens = o->max_tokens != 0 ? o->max_tokens : USUAL_ANSWER;
    uint64_t context = load_context(&r->on, &o->load, r->ids.n, answer_tokens);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (r->ids.n + 1 > context)
        return say_fail(CLI_NO_ROOM, mote_status_name(MOTE_E_FULL),
                        "the prompt has %s, the context holds %s (try: --context %llu)",
                        text_counted(a, r->ids.n, "token"), text_count(b, context),
                        (unsigned long long)(r->ids.n + answer_tokens));
    return load_engine(&r->on, &o->load, context, 1);
}

static int feed(run_state *r)
{
    mote_error err;
    feed_job job = {
        .engine = r->on.engine, .session = r->on.session, .tokens = r->ids.ids, .n = r->ids.n};
    mote_status status = feed_prompt(&job, &err);
    r->prompt_ended = os_now();
    if (status == MOTE_E_CANCELED) {
        say_note("interrupted while reading the prompt");
        return interrupt_exit_code();
    }
    return status == MOTE_OK ? CLI_DONE : say_error(&err);
}

/* The seed of a run; without a draw there is nothing to seed. */
static uint64_t seed_of(const run_options *o)
{
    if (o->seed != NO_SEED)
        return o->seed;
    if (o->temperature == 0)
        return 0;
    uint32_t seed = 0; /* short enough to be typed again */
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint32_t)(os_now() * 1e6);
    return seed;
}

static int generate(run_state *r)
{
    const run_options *o = r->options;
    answer *a = &r->answer;
    a->on = &r->on;
    a->max_tokens = o->max_tokens;
    a->show_control = o->special;
    a->stream = r->call->common.json ? NULL : r->call->out;
    a->sampling = (mote_sampling){
        .temperature = (float)o->temperature,
        .top_k = (uint32_t)o->top_k,
        .top_p = (float)o->top_p,
        .min_p = (float)o->min_p,
        .presence = (float)o->presence,
        .frequency = (float)o->frequency,
        .repetition = (float)o->repeat_penalty,
        .generated_from = r->ids.n,
        .seed = seed_of(o),
    };
    mote_error err;
    if (answer_init(a, &o->stop, &err) != MOTE_OK || answer_run(a, &err) != MOTE_OK) {
        if (r->call->out->line_open)
            out_text(r->call->out, "\n");
        out_flush(r->call->out);
        return say_error(&err);
    }
    return CLI_DONE;
}

static double per_second(size_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* prompt 51 tokens in 0.15 s (340 t/s)   answer 210 tokens in 26.3 s (8.0 t/s) */
static void report_timing(const run_state *r)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    char prompt[128], said[128], more[128] = "";
    double reading = r->prompt_ended - r->load_ended;
    double writing = r->answer.ended - r->prompt_ended;
    size_t n = r->answer.ids.n;
    snprintf(prompt, sizeof prompt, "prompt %s in %s (%s t/s)", text_counted(a, r->ids.n, "token"),
             text_seconds(b, reading), text_rate(c, per_second(r->ids.n, reading)));
    snprintf(said, sizeof said, "answer %s in %s (%s t/s)", text_counted(a, n, "token"),
             text_seconds(b, writing), text_rate(c, per_second(n, writing)));
    if (r->options->temperature > 0)
        snprintf(more, sizeof more, "   seed %llu", (unsigned long long)r->answer.sampling.seed);
    static const char *const why[] = {
        [ANSWER_MAX_TOKENS] = "   cut by --max-tokens",
        [ANSWER_CONTEXT] = "   context full",
        [ANSWER_INTERRUPTED] = "   interrupted",
        [ANSWER_FAILED] = "",
    };
    const char *end = why[r->answer.end] != NULL ? why[r->answer.end] : "";
    say_note("%s   %s%s%s", prompt, said, more, end);
}

static void write_sampling(json *j, const mote_sampling *s)
{
    json_key(j, "sampling");
    json_begin_object(j);
    json_key(j, "temperature");
    json_f32(j, s->temperature);
    json_key(j, "top_p");
    json_f32(j, s->top_p);
    json_key_u64(j, "top_k", s->top_k);
    json_key(j, "min_p");
    json_f32(j, s->min_p);
    json_key(j, "presence_penalty");
    json_f32(j, s->presence);
    json_key(j, "frequency_penalty");
    json_f32(j, s->frequency);
    json_key(j, "repetition_penalty");
    json_f32(j, s->repetition);
    json_key_u64(j, "seed", s->seed);
    json_end_object(j);
}

static void write_timings(json *j, const run_state *r)
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
    json_key_f64(j, "prompt_per_second", per_second(r->ids.n, reading));
    json_key_f64(j, "answer_per_second", per_second(r->answer.ids.n, writing));
    json_end_object(j);
}

static void write_json(const run_state *r)
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
    write_sampling(&j, &a->sampling);
    json_key_text(&j, "stop", answer_end_name(a->end));
    json_key_text(&j, "isa", mote_isa_name(info.isa));
    json_key_u64(&j, "threads", mote_engine_threads(r->on.engine));
    json_key_u64(&j, "context", mote_session_context(r->on.session));
    json_end_object(&j);
    json_end_object(&j);
}

static int finish(const run_state *r)
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
static int run_steps(run_state *r)
{
    int code = read_prompt(r);
    r->started = os_now();
    if (code == CLI_DONE)
        code = load_model(&r->on, r->call->words[0], (mote_isa)r->options->load.isa);
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

static int run(const cli_call *call)
{
    run_state r = {.call = call, .options = call->options};
    if (!r.options->raw)
        return say_usage("chat comes with a later version; --raw continues a text "
                         "(try: mote run %.200s --raw \"Once upon a time\")",
                         call->words[0]);
    int code = run_steps(&r);
    answer_fini(&r.answer);
    input_ids_free(&r.ids);
    input_text_free(&r.prompt);
    load_close(&r.on);
    return code;
}

const cli_command cmd_run = {
    .name = "run",
    .section = "Use a model",
    .summary = "continue a text",
    .usage = "FILE --raw [PROMPT...]",
    .min_words = 1,
    .max_words = 1024,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(run_options),
    .about = "Reads PROMPT with the model in FILE and writes what comes next, as it comes.\n"
             "Text that comes through a pipe is the prompt, or is added after PROMPT with a blank "
             "line between them; a newline at its very end is left out.\n"
             "Ctrl-C stops and keeps what is there; a second Ctrl-C leaves at once.",
    .examples = "mote run model.gguf --raw \"Once upon a time\"\n"
                "mote run model.gguf --raw -n 200 --temp 0.7 --top-p 0.9 < story.txt\n"
                "mote run model.gguf --raw --stop . --json \"The capital of France is\"",
    .run = run,
};
