/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_convert.c - `mote convert`: Safetensors or GGUF files to one GGUF file. */
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "convert/convert.h"
#include "json/json_writer.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct cmd_convert_options {
    const char *mmproj, *mtp, *name;
    bool no_vision, no_mtp, yes;
    uint64_t dtype; /* plan_dtype */
    lora_options lora;
} cmd_convert_options;

static const cli_flag flags[] = {
    {.name = "dtype",
     .kind = FLAG_CHOICE,
     .value = "stored|f32|f16|bf16",
     .initial = "stored",
     .once = true,
     .at = offsetof(cmd_convert_options, dtype),
     .help = "type of the matrices; vectors are always f32"},
    {.name = "mmproj",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = offsetof(cmd_convert_options, mmproj),
     .shown = "mmproj-OUT next to OUT",
     .help = "output file of the vision encoder"},
    {.name = "no-vision",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cmd_convert_options, no_vision),
     .help = "leave out the vision encoder"},
    {.name = "no-mtp",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cmd_convert_options, no_mtp),
     .help = "leave out the MTP block"},
    {.name = "mtp",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = offsetof(cmd_convert_options, mtp),
     .help = "with a GGUF source: add the MTP block of this file"},
    {.name = "name",
     .kind = FLAG_TEXT,
     .value = "TEXT",
     .once = true,
     .at = offsetof(cmd_convert_options, name),
     .shown = "from the model card or the directory",
     .help = "name of the model in the file"},
    {.name = "yes",
     .letter = 'y',
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cmd_convert_options, yes),
     .help = "replace existing files"},
};
static const flag_group groups[] = {
    FLAG_GROUP("Flags", flags, 0),
    LORA_FLAG_GROUP(offsetof(cmd_convert_options, lora)),
};

/* ---- reports ---- */

enum { LABEL_BYTES = 128, REASON_BYTES = 128 };

typedef struct convert_view {
    const cli_call *call;
    progress progress;
    char label[LABEL_BYTES];
    uint64_t total;  /* of the file that the progress line shows */
    uint32_t unused; /* with `reason`, not yet reported */
    char reason[REASON_BYTES];
    strbuf files, names; /* JSON */
    int refused;         /* exit code of an output that exists; CLI_DONE: none */
} convert_view;

static bool view_progress(void *ctx, uint32_t tensor, const char *name, uint64_t done, uint64_t all)
{
    convert_view *v = ctx;
    snprintf(v->label, sizeof v->label, "tensor %u  %.80s", tensor + 1, name);
    if (v->total != all)
        progress_begin(&v->progress, v->label, PROGRESS_BYTES, done, all);
    v->total = all;
    progress_at(&v->progress, done);
    return !interrupt_pending();
}

static void view_report_count(convert_view *v)
{
    char count[TEXT_NUMBER_BYTES];
    if (v->unused > 0)
        msg_note("left out: %s (%s)", text_counted(count, v->unused, "tensor"), v->reason);
    v->unused = 0;
}

/* Tensors that a flag leaves out are counted, others are named. */
static void view_unused(void *ctx, str name, const char *why)
{
    convert_view *v = ctx;
    const bool asked = strncmp(why, "--", 2) == 0;
    if (strcmp(v->reason, why) != 0)
        view_report_count(v);
    snprintf(v->reason, sizeof v->reason, "%s", why);
    v->unused += asked;
    if (!asked || term_verbose() > 0)
        msg_note("not used: tensor %.*s (%s)", STR_ARG(name), why);
    jw_open(&v->names, '{');
    jw_key_str(&v->names, "name", name);
    jw_key_text(&v->names, "reason", why);
    jw_close(&v->names, '}');
}

static void view_written(void *ctx, const char *path, uint32_t tensors, uint64_t bytes)
{
    convert_view *v = ctx;
    char count[TEXT_NUMBER_BYTES], size[TEXT_NUMBER_BYTES];
    progress_end(&v->progress);
    if (v->call->common.json) {
        jw_open(&v->files, '{');
        jw_key_text(&v->files, "file", path);
        jw_key_uint(&v->files, "tensors", tensors);
        jw_key_uint(&v->files, "bytes", bytes);
        jw_close(&v->files, '}');
    } else if (!v->call->common.quiet) {
        out_printf(v->call->out, "%.900s  %s  %s\n", path, text_counted(count, tensors, "tensor"),
                   text_bytes(size, bytes));
    }
}

static int view_print_json(convert_view *v)
{
    strbuf out = {0};
    jw_open(&out, '{');
    jw_key(&out, "files");
    jw_open(&out, '[');
    jw_raw(&out, strbuf_view(&v->files));
    jw_close(&out, ']');
    jw_key(&out, "unused");
    jw_open(&out, '[');
    if (v->names.n > 0)
        jw_raw(&out, strbuf_view(&v->names));
    jw_close(&out, ']');
    jw_close(&out, '}');
    return out_json(v->call->out, &out);
}

/* ---- arguments ---- */

static int check_absent(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return CLI_DONE;
    return msg_fail(CLI_REFUSED, "file_exists", "%.800s exists; replace it with -y", path);
}

/* The source decides whether there is an mmproj file, so this is known later than its name. */
static bool view_may_write(void *ctx, const char *path)
{
    convert_view *v = ctx;
    const cmd_convert_options *given = v->call->options;
    v->refused = given->yes ? CLI_DONE : check_absent(path);
    return v->refused == CLI_DONE;
}

static int check_arguments(const cli_call *call, const convert_options *o, bool directory)
{
    const cmd_convert_options *given = call->options;
    if (directory && given->lora.files.n > 0)
        return msg_usage("--lora merges into a GGUF file; convert the directory first (try: mote "
                         "convert DIR base.gguf; mote convert --lora ADAPTER base.gguf OUT)");
    if (directory && o->mtp != NULL)
        return msg_usage("--mtp is for GGUF sources; a directory has its MTP block inside");
    if (!directory && (o->mmproj != NULL || o->dtype != PLAN_AS_STORED))
        return msg_usage("--mmproj and --dtype are for directories of Safetensors files");
    return given->yes ? CLI_DONE : check_absent(o->out);
}

static int convert_run(const cli_call *call)
{
    const cmd_convert_options *given = call->options;
    struct stat info;
    mote_error err = {0};
    convert_view v = {.call = call, .refused = CLI_DONE};
    loaded base = {0};
    convert_options o = {.out = call->words[1],
                         .mmproj = given->mmproj,
                         .mtp = given->mtp,
                         .name = given->name,
                         .no_vision = given->no_vision,
                         .no_mtp = given->no_mtp,
                         .dtype = (plan_dtype)given->dtype,
                         .progress = view_progress,
                         .unused = view_unused,
                         .may_write = view_may_write,
                         .written = view_written,
                         .ctx = &v};
    if (stat(call->words[0], &info) != 0)
        return msg_fail(CLI_NO_MODEL, "not_found", "cannot find %.800s: %s", call->words[0],
                        strerror(errno));
    const bool directory = S_ISDIR(info.st_mode);
    int code = check_arguments(call, &o, directory);
    if (code != CLI_DONE)
        return code;
    if (given->lora.files.n > 0) {
        code = mote_model_open(&base.model, call->words[0], NULL, &err) == MOTE_OK
                   ? load_loras(&base, &given->lora)
                   : load_failed(call->words[0], &err);
        if (code != CLI_DONE) {
            load_close(&base);
            return code;
        }
        o.loras = base.loras;
        o.n_loras = base.n_loras;
    }
    const mote_status status = directory ? convert_directory(call->words[0], &o, &err)
                                         : convert_gguf(call->words[0], &o, &err);
    progress_end(&v.progress);
    view_report_count(&v);
    if (v.refused != CLI_DONE) {
        code = v.refused;
    } else if (status == MOTE_E_CANCELED && interrupt_pending()) {
        msg_note("%s; run the same command again: it continues", err.text);
        code = interrupt_exit_code();
    } else if (status != MOTE_OK) {
        code = msg_error(&err);
    } else if (call->common.json) {
        code = view_print_json(&v);
    }
    strbuf_fini(&v.files);
    strbuf_fini(&v.names);
    load_close(&base);
    return code;
}

const cli_command cmd_convert = {
    .name = "convert",
    .section = "Models",
    .summary = "make a GGUF file from Safetensors or other GGUF files",
    .usage = "DIR|FILE OUT",
    .arguments = "FILE FILE",
    .min_words = 2,
    .max_words = 2,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(cmd_convert_options),
    .about =
        "DIR is a Hugging Face model directory of a dense Qwen 3.5 model or a fine-tune of one: "
        "config.json, the tokenizer's files and model*.safetensors in bf16, f16 or f32. OUT gets "
        "text model, MTP block, tokenizer, chat template and sampling presets. The vision encoder "
        "goes to an mmproj file next to OUT, because llama.cpp loads no file that has both. The "
        "bytes are those of llama.cpp's converter; docs/convert.md lists the differences.\n"
        "FILE is a GGUF file, or any part of a split one. OUT gets all parts. With --lora, which "
        "needs a BF16, F16 or F32 file, OUT gets the weights with the adapters.\n"
        "Source tensors that are in no output are reported. Less than 1 GB of memory is needed for "
        "any size. Data are written to OUT.partial; after an interruption the same command "
        "continues.",
    .examples = "mote convert ./Qwen3.5-4B qwen3.5-4b-bf16.gguf\n"
                "mote convert ./my-finetune my-finetune.gguf --no-vision --name my-finetune\n"
                "mote convert model-00001-of-00003.gguf model.gguf",
    .run = convert_run,
};
