/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c - `mote run`: its flags, and which of its modes to use. */
#include "cli/args/command.h"
#include "cli/chat/conversation.h"
#include "cli/load/cache_cipher.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/load/media_files.h"
#include "cli/run/run.h"

#include <stdio.h>
#include <unistd.h>

_Static_assert(MOTE_TASK_GENERAL == 0 && MOTE_TASK_VISION == 3,
               "--preset lists the tasks in order");

#define AT(member)       offsetof(answer_flags, member)
#define MEDIA_AT(member) offsetof(media_options, member)

static const cli_flag prompt_flags[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = FLAG_TEXT,
     .value = "TEXT",
     .once = true,
     .at = AT(prompt),
     .help = "the prompt, instead of PROMPT"},
    {.name = "file",
     .letter = 'f',
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(file),
     .help = "read the prompt from a file; - is stdin"},
    {.name = "messages",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(messages),
     .help = "earlier messages, a JSON array; the prompt follows them"},
    {.name = "system",
     .letter = 's',
     .kind = FLAG_TEXT,
     .value = "TEXT|@FILE",
     .at = AT(system),
     .help = "system prompt"},
    {.name = "tools",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(tools),
     .help = "tools the model may call, a JSON array; calls are printed as JSON, one per line"},
    {.name = "pull",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(pull),
     .help = "download the model if it is not installed; on a terminal mote asks"},
    {.name = "raw",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(raw),
     .help = "continue the text, without a chat template"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(special),
     .help = "with --raw: parse control tokens in the prompt, and show them in the answer"},
};

static const cli_flag think_flags[] = {
    {THINK_FLAG, .at = AT(think), .help = THINK_FLAG_HELP},
    {.name = "no-think",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(no_think),
     .help = "the same as --think off"},
    {.name = "hide-thinking",
     .kind = FLAG_SWITCH,
     .at = AT(hide_thinking),
     .help = "on a terminal: show thinking in one line; a pipe never gets it"},
    {.name = "preset",
     .kind = FLAG_CHOICE,
     .value = "general|coding|reasoning|vision",
     .initial = "general",
     .at = AT(task),
     .help =
         "sampling recommended by the model's authors for this task; mote show lists the values"},
};

static const cli_flag image_flags[] = {
    {.name = "image",
     .letter = 'i',
     .kind = FLAG_LIST,
     .value = "FILE",
     .once = true,
     .at = MEDIA_AT(image),
     .help = "image for the message: JPEG, PNG, WebP or GIF; repeatable. The path of an image in "
             "PROMPT attaches it too"},
    {.name = "video",
     .kind = FLAG_LIST,
     .value = "FILE",
     .once = true,
     .at = MEDIA_AT(video),
     .help = "video for the message: AVI or MJPEG with JPEG frames, an animated GIF or WebP, a "
             "directory of frames, or a quoted pattern such as 'frame-*.png'; repeatable"},
    {.name = "fps",
     .kind = FLAG_NUMBER,
     .value = "F",
     .min = 0.001,
     .max = 1000,
     .shown = "as stored; else 2 for a directory, 24 for a file",
     .at = MEDIA_AT(fps),
     .help = "frames per second of the video"},
    {.name = "image-tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = MOTE_IMAGE_MAX_TOKENS,
     .initial = MEDIA_FILES_TOKENS,
     .at = MEDIA_AT(image_tokens),
     .help = "maximum tokens per image or per video, 1,024 pixels each"},
    {MMPROJ_FLAG, .at = MEDIA_AT(mmproj),
     .help = "vision encoder (mmproj) of the model; none: text only"},
};

static const cli_flag format_flags[] = {
    {.name = "json-schema",
     .kind = FLAG_TEXT,
     .value = "FILE|JSON",
     .once = true,
     .at = AT(schema),
     .help = "the answer is JSON that matches this schema"},
    {.name = "format",
     .kind = FLAG_CHOICE,
     .value = "text|json",
     .initial = "text",
     .once = true,
     .at = AT(format),
     .help = "json: the answer is a JSON object"},
    {.name = "grammar",
     .kind = FLAG_TEXT,
     .value = "FILE|TEXT",
     .once = true,
     .at = AT(grammar),
     .help = "the answer matches this GBNF grammar, such as root ::= \"a\" | \"b\"+"},
    {.name = "regex",
     .kind = FLAG_TEXT,
     .value = "RE",
     .once = true,
     .at = AT(regex),
     .help = "the answer matches this regular expression"},
    {.name = "choice",
     .kind = FLAG_TEXT,
     .value = "A,B,...",
     .once = true,
     .at = AT(choice),
     .help = "the answer is one of these strings"},
};

static const cli_flag limit_flags[] = {
    {.name = "max-tokens",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4194304,
     .shown = "until the model ends or the context is full",
     .aliases = "num-predict|n-predict|predict",
     .at = AT(max_tokens),
     .help = "maximum tokens of the answer"},
    {.name = "stop",
     .kind = FLAG_LIST,
     .value = "TEXT",
     .at = AT(stop),
     .help = "end the answer before this string; repeatable"},
    {.name = "no-loop-guard",
     .kind = FLAG_SWITCH,
     .at = AT(no_loop_guard),
     .help = "turn off repetition detection, for lists and tables that look like a loop"},
    {.name = "fail-on-length",
     .kind = FLAG_SWITCH,
     .at = AT(fail_on_length),
     .help = "exit with code 9 if a limit cut the answer"},
};

static const cli_flag spec_flags[] = {
    {SPEC_FLAG, .at = AT(spec), .help = SPEC_FLAG_HELP},
};

static const cli_flag cache_flags[] = {
    {.name = "session",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .once = true,
     .at = AT(session),
     .help = "continue the conversation of this name and save it after each answer; a new name "
             "starts one (mote session ls)"},
    {LOAD_CACHE_DISK_FLAG, .at = AT(cache_disk),
     .help = "prefix cache on disk: what was computed before, here or by mote serve, is not "
             "computed again; the most bytes in its directory (mote cache stats)"},
    {CACHE_KEY_FLAG, .at = AT(cache_key)},
};

#define PRESET "from the preset"

static const cli_flag sampling_flags[] = {
    {.name = "temp",
     .kind = FLAG_NUMBER,
     .value = "T",
     .min = 0,
     .max = 2,
     .shown = PRESET ", 0 with --raw",
     .aliases = "temperature",
     .at = AT(temperature),
     .given = AT(given.temperature),
     .help = "temperature; 0 is greedy, 1 samples from the model's distribution"},
    {.name = "top-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .min = 0,
     .max = 1,
     .shown = PRESET,
     .at = AT(top_p),
     .given = AT(given.top_p),
     .help = "sample from the most likely tokens with this total probability"},
    {.name = "top-k",
     .kind = FLAG_COUNT,
     .value = "K",
     .min = 0,
     .max = 1000000,
     .shown = PRESET,
     .at = AT(top_k),
     .given = AT(given.top_k),
     .help = "sample from the K most likely tokens; 0: all"},
    {.name = "min-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .min = 0,
     .max = 1,
     .shown = PRESET,
     .at = AT(min_p),
     .given = AT(given.min_p),
     .help = "drop tokens less likely than P times the most likely one"},
    {.name = "presence",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -2,
     .max = 2,
     .shown = PRESET,
     .aliases = "presence-penalty",
     .at = AT(presence),
     .given = AT(given.presence),
     .help = "presence penalty: for tokens that are in the answer"},
    {.name = "frequency",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -2,
     .max = 2,
     .shown = "off",
     .aliases = "frequency-penalty",
     .at = AT(frequency),
     .given = AT(given.frequency),
     .help = "frequency penalty: for each time a token is in the answer"},
    {.name = "repeat-penalty",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = 0,
     .max = 2,
     .shown = PRESET,
     .at = AT(repeat_penalty),
     .given = AT(given.repeat_penalty),
     .help = "repetition penalty: divides the logits of tokens in the answer"},
    {.name = "seed",
     .kind = FLAG_COUNT,
     .value = "N",
     .shown = "random",
     .at = AT(seed),
     .given = AT(given.seed),
     .help = "the same seed gives the same answer"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Prompt", prompt_flags, 0),
    FLAG_GROUP("Images", image_flags, offsetof(answer_flags, media)),
    FLAG_GROUP("Thinking", think_flags, 0),
    TEMPLATE_FLAG_GROUP(offsetof(answer_flags, template)),
    LORA_FLAG_GROUP(offsetof(answer_flags, lora)),
    FLAG_GROUP("Response format", format_flags, 0),
    FLAG_GROUP("Limits", limit_flags, 0),
    FLAG_GROUP("Sampling", sampling_flags, 0),
    FLAG_GROUP("Speed", spec_flags, 0),
    FLAG_GROUP("Conversation", cache_flags, 0),
    LOAD_FLAG_GROUP(offsetof(answer_flags, load)),
};

/* No prompt, and both stdin and stdout are terminals. */
static bool run_is_interactive(const cli_call *call)
{
    const answer_flags *o = call->options;
    bool no_prompt = call->n_words == 1 && o->prompt == NULL && o->file == NULL;
    return no_prompt && !call->common.json && isatty(STDIN_FILENO) == 1 && call->out->terminal;
}

/* Runs a command with the cipher of --cache-key, for sessions and the prefix cache. */
static int run_with_key(const cli_call *call, int (*run)(const cli_call *call))
{
    const answer_flags *o = call->options;
    disk_cipher *cipher;
    int code = cache_key_open(&cipher, o->cache_key);
    session_use_cipher(cipher);
    if (code == CLI_DONE)
        code = run(call);
    session_use_cipher(NULL);
    cache_cipher_free(cipher);
    return code;
}

static int run_run(const cli_call *call)
{
    const answer_flags *o = call->options;
    if (o->raw)
        return run_raw(call);
    return run_with_key(call, run_is_interactive(call) ? chat_run : run_once);
}

const cli_command cmd_run = {
    .name = "run",
    .section = "Use a model",
    .summary = "chat with a model, or answer one prompt",
    .usage = "MODEL [PROMPT...]",
    .arguments = "MODEL",
    .min_words = 1,
    .max_words = 1024,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(answer_flags),
    .about =
        "Without PROMPT, on a terminal: an interactive chat; /help lists its commands.\n"
        "With PROMPT or piped text: one answer on stdout, messages on stderr. Piped text is the "
        "prompt; with PROMPT it follows after an empty line. Its final newline is dropped.\n"
        "Ctrl-C stops and keeps the output so far; a second Ctrl-C exits at "
        "once.\n" FIND_MODEL_HELP,
    .examples = "mote run qwen3.5:4b\n"
                "git diff | mote run qwen3.5:4b \"Write a commit message\"\n"
                "mote run model.gguf --image photo.jpg \"What is this?\"\n"
                "mote run model.gguf --json-schema person.json --json < letter.txt\n"
                "mote run qwen3.5:4b --session essay \"Now the first chapter\"\n"
                "mote run model.gguf --raw -n 200 --temp 0.7 \"Once upon a time\"",
    .run = run_run,
};

/* ---- mote chat ---- */

static const flag_group chat_groups[] = {
    {"Prompt", prompt_flags + 2, 3, 0}, /* --messages, --system, --tools */
    FLAG_GROUP("Images", image_flags, offsetof(answer_flags, media)),
    FLAG_GROUP("Thinking", think_flags, 0),
    TEMPLATE_FLAG_GROUP(offsetof(answer_flags, template)),
    LORA_FLAG_GROUP(offsetof(answer_flags, lora)),
    FLAG_GROUP("Response format", format_flags, 0),
    FLAG_GROUP("Limits", limit_flags, 0),
    FLAG_GROUP("Sampling", sampling_flags, 0),
    FLAG_GROUP("Speed", spec_flags, 0),
    FLAG_GROUP("Conversation", cache_flags, 0),
    LOAD_FLAG_GROUP(offsetof(answer_flags, load)),
};

/* The model of the session, if it exists; else the installed model with the newest file. */
static bool chat_find_model(char name[SESSION_MODEL_BYTES], const char *session)
{
    session_info info = {0};
    if (session == NULL || !session_exists(session))
        return find_newest_model(name);
    const bool found = session_info_read(&info, session) == CLI_DONE && info.path[0] != '\0';
    snprintf(name, SESSION_MODEL_BYTES, "%s", info.path);
    session_info_free(&info);
    return found;
}

static int chat_with_model(const cli_call *call)
{
    char name[SESSION_MODEL_BYTES];
    const char *words[] = {name};
    const answer_flags *o = call->options;
    cli_call with_model = *call;
    _Static_assert((int)SESSION_MODEL_BYTES >= (int)FOUND_NAME_BYTES, "it holds both");
    if (call->n_words == 0) {
        if (!chat_find_model(name, o->session))
            return msg_fail(CLI_NO_MODEL, "not_found",
                            "no model is installed (try: mote run qwen3.5)");
        with_model.words = words;
        with_model.n_words = 1;
    }
    return chat_run(&with_model);
}

static int chat_command_run(const cli_call *call)
{
    if (isatty(STDIN_FILENO) != 1 || !call->out->terminal || call->common.json)
        return msg_usage("mote chat needs a terminal (try: mote run MODEL \"Hello\")");
    return run_with_key(call, chat_with_model);
}

const cli_command cmd_chat = {
    .name = "chat",
    .section = "Use a model",
    .summary = "chat with a model",
    .usage = "[MODEL]",
    .arguments = "MODEL",
    .optional_model = true,
    .max_words = 1,
    .groups = chat_groups,
    .n_groups = sizeof chat_groups / sizeof *chat_groups,
    .options_bytes = sizeof(answer_flags),
    .about =
        "An interactive chat on a terminal; /help lists its commands. It is mote run without "
        "a prompt.\nWithout MODEL: the model of MOTE_MODEL or of the config file, else that of "
        "--session, else the installed model with the newest file.",
    .examples = "mote chat\nmote chat qwen3.5:4b --think off\nmote chat qwen3.5:4b --session essay",
    .run = chat_command_run,
};
