/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c - `mote run`: the command's row, and which of its ways a call means. */
#include "cli/args/commands.h"
#include "cli/load/media_files.h"
#include "cli/run/run.h"
#include "cli/load/think_flag.h"

#include <unistd.h>

_Static_assert(MOTE_TASK_GENERAL == 0 && MOTE_TASK_VISION == 3,
               "--preset lists the tasks in order");

#define AT(member) offsetof(run_options, member)

static const cli_flag prompt_flags[] = {
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
    {.name = "messages",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .at = AT(messages),
     .help = "a conversation so far, a JSON array of messages; the prompt comes after it"},
    {.name = "system",
     .letter = 's',
     .kind = FLAG_TEXT,
     .value = "TEXT|@FILE",
     .at = AT(system),
     .help = "what the model is told before everything else"},
    {.name = "tools",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .at = AT(tools),
     .help = "functions it may call, a JSON array; calls are printed as JSON, one on a line"},
    {.name = "raw",
     .kind = FLAG_SWITCH,
     .at = AT(raw),
     .help = "no conversation: continue the text"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .at = AT(special),
     .help = "with --raw: control tokens spelled in the prompt count as such, and are shown in the "
             "answer"},
};

static const cli_flag think_flags[] = {
    {.name = "think",
     .kind = FLAG_TEXT,
     .value = "HOW",
     .shown = "auto",
     .env = "MOTE_THINK",
     .at = AT(think),
     .help = THINK_FLAG_HELP},
    {.name = "no-think",
     .kind = FLAG_SWITCH,
     .at = AT(no_think),
     .help = "the same as --think off"},
    {.name = "hide-thinking",
     .kind = FLAG_SWITCH,
     .at = AT(hide_thinking),
     .help = "on a terminal: one line instead of its text; a pipe never gets it"},
    {.name = "preset",
     .kind = FLAG_CHOICE,
     .value = "general|coding|reasoning|vision",
     .initial = "general",
     .at = AT(task),
     .help = "sampling as the model's makers advise for this; mote show has the figures"},
};

static const cli_flag image_flags[] = {
    {.name = "image",
     .letter = 'i',
     .kind = FLAG_LIST,
     .value = "FILE",
     .at = AT(image),
     .help = "show it a picture: JPEG, PNG, WebP or GIF; may be given several times"},
    {.name = "video",
     .kind = FLAG_LIST,
     .value = "FILE",
     .at = AT(video),
     .help = "show it a film: AVI or MJPEG with JPEG frames, a moving GIF or WebP, a folder of "
             "frames, or a pattern such as 'frame-*.png' in quotes"},
    {.name = "fps",
     .kind = FLAG_NUMBER,
     .value = "F",
     .min = 0.001,
     .max = 1000,
     .shown = "as the film says; 2 for a folder, else 24",
     .at = AT(fps),
     .help = "frames a second of the film"},
    {.name = "image-tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = MOTE_IMAGE_MAX_TOKENS,
     .initial = IMAGES_TOKENS,
     .at = AT(image_tokens),
     .help = "how much it looks at: tokens of a picture, or of a whole film, at 1,024 pixels each"},
    {.name = "mmproj",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .shown = "mmproj*.gguf beside the model",
     .at = AT(mmproj),
     .help = "the model's picture tower; none: do without"},
};

static const cli_flag form_flags[] = {
    {.name = "json-schema",
     .kind = FLAG_TEXT,
     .value = "FILE|JSON",
     .at = AT(schema),
     .help = "the answer is a JSON value of this schema"},
    {.name = "format",
     .kind = FLAG_CHOICE,
     .value = "text|json",
     .initial = "text",
     .at = AT(format),
     .help = "json: the answer is some JSON object"},
    {.name = "grammar",
     .kind = FLAG_TEXT,
     .value = "FILE|TEXT",
     .at = AT(grammar),
     .help = "the answer is a text of this grammar, written in GBNF: root ::= \"a\" | \"b\"+"},
    {.name = "regex",
     .kind = FLAG_TEXT,
     .value = "RE",
     .at = AT(regex),
     .help = "all of the answer matches this expression"},
    {.name = "choice",
     .kind = FLAG_TEXT,
     .value = "A,B,...",
     .at = AT(choice),
     .help = "the answer is one of these"},
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
    {.name = "no-loop-guard",
     .kind = FLAG_SWITCH,
     .at = AT(no_loop_guard),
     .help = "let it repeat itself: lists and tables that look like a loop"},
    {.name = "fail-on-length",
     .kind = FLAG_SWITCH,
     .at = AT(fail_on_length),
     .help = "exit code 9 when the answer was cut by a limit"},
};

#define PRESET "by preset"

static const cli_flag sampling_flags[] = {
    {.name = "temp",
     .kind = FLAG_NUMBER,
     .value = "T",
     .min = 0,
     .max = 2,
     .shown = PRESET ", 0 with --raw",
     .at = AT(temperature),
     .given = AT(given.temperature),
     .help = "0 takes the most likely token, 1 draws as trained"},
    {.name = "top-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .min = 0,
     .max = 1,
     .shown = PRESET,
     .at = AT(top_p),
     .given = AT(given.top_p),
     .help = "draw from the likeliest tokens that make up this share"},
    {.name = "top-k",
     .kind = FLAG_COUNT,
     .value = "K",
     .min = 0,
     .max = 1000000,
     .shown = PRESET,
     .at = AT(top_k),
     .given = AT(given.top_k),
     .help = "draw from the K likeliest tokens"},
    {.name = "min-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .min = 0,
     .max = 1,
     .shown = PRESET,
     .at = AT(min_p),
     .given = AT(given.min_p),
     .help = "drop tokens less likely than P times the likeliest"},
    {.name = "presence",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -2,
     .max = 2,
     .shown = PRESET,
     .at = AT(presence),
     .given = AT(given.presence),
     .help = "penalty for tokens the answer already has"},
    {.name = "frequency",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -2,
     .max = 2,
     .shown = "off",
     .at = AT(frequency),
     .given = AT(given.frequency),
     .help = "the same, for each time it has them"},
    {.name = "repeat-penalty",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = 0,
     .max = 2,
     .shown = PRESET,
     .at = AT(repeat_penalty),
     .given = AT(given.repeat_penalty),
     .help = "divides the score of tokens it has"},
    {.name = "seed",
     .kind = FLAG_COUNT,
     .value = "N",
     .shown = "a new one each time",
     .at = AT(seed),
     .given = AT(given.seed),
     .help = "the same seed draws the same answer"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Prompt", prompt_flags, 0),        FLAG_GROUP("Pictures", image_flags, 0),
    FLAG_GROUP("Thinking", think_flags, 0),       FLAG_GROUP("Form of the answer", form_flags, 0),
    FLAG_GROUP("Limits", limit_flags, 0),         FLAG_GROUP("Sampling", sampling_flags, 0),
    LOAD_FLAG_GROUP(offsetof(run_options, load)),
};

/* A person at both ends, who has not said anything yet. */
static bool wants_to_talk(const cli_call *call)
{
    const run_options *o = call->options;
    bool said_nothing = call->n_words == 1 && o->prompt == NULL && o->file == NULL;
    return said_nothing && !call->common.json && isatty(STDIN_FILENO) == 1 && call->out->terminal;
}

static int run(const cli_call *call)
{
    const run_options *o = call->options;
    if (o->raw)
        return run_raw(call);
    return wants_to_talk(call) ? run_chat(call) : run_filter(call);
}

const cli_command cmd_run = {
    .name = "run",
    .section = "Use a model",
    .summary = "talk to a model, or have one answer",
    .usage = "FILE [PROMPT...]",
    .min_words = 1,
    .max_words = 1024,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(run_options),
    .about = "Without PROMPT, on a terminal: a chat with the model in FILE; /help there lists what "
             "it can do.\n"
             "With PROMPT, or text through a pipe: one answer on standard output, everything else "
             "on standard error. Text that comes through a pipe is the prompt, or is added after "
             "PROMPT with a blank line between them; a newline at its very end is left out.\n"
             "Ctrl-C stops and keeps what is there; a second Ctrl-C leaves at once.",
    .examples = "mote run model.gguf\n"
                "git diff | mote run model.gguf \"Write a commit message\"\n"
                "mote run model.gguf --image photo.jpg \"What is this?\"\n"
                "mote run model.gguf --json-schema person.json --json < letter.txt\n"
                "mote run model.gguf --raw -n 200 --temp 0.7 \"Once upon a time\"",
    .run = run,
};
