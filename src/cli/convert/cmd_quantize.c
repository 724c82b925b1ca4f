/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_quantize.c - `mote quantize`: a GGUF file in another weight format. */
#include "base/cpu.h"
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "convert/quantize.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <sys/stat.h>

typedef struct cmd_quantize_options {
    uint64_t threads; /* 0: one per core */
    uint64_t isa;     /* mote_isa */
    bool dry_run, yes;
} cmd_quantize_options;

static const cli_flag flags[] = {
    {LOAD_THREADS_FLAG, .at = offsetof(cmd_quantize_options, threads),
     .help = "threads; does not change the result"},
    {LOAD_ISA_FLAG, .at = offsetof(cmd_quantize_options, isa),
     .help = "highest instruction set to use; does not change the result"},
    {.name = "dry-run",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cmd_quantize_options, dry_run),
     .help = "print the format and size of each tensor and write nothing"},
    {.name = "yes",
     .letter = 'y',
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cmd_quantize_options, yes),
     .help = "replace OUT if it exists"},
};
static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

enum { LABEL_BYTES = 128 };

typedef struct quantize_view {
    const cli_call *call;
    bool list; /* --dry-run */
    progress progress;
    char label[LABEL_BYTES];
    bool started;
    uint32_t n;
    uint64_t before, after; /* bytes */
    strbuf json;
} quantize_view;

static bool view_progress(void *ctx, uint32_t tensor, const char *name, uint64_t done, uint64_t all)
{
    quantize_view *v = ctx;
    snprintf(v->label, sizeof v->label, "tensor %u/%u  %.80s", tensor + 1, v->n, name);
    if (!v->started)
        progress_begin(&v->progress, v->label, PROGRESS_BYTES, done, all);
    v->started = true;
    progress_at(&v->progress, done);
    return !interrupt_pending();
}

static void view_chosen(void *ctx, const gguf_tensor *t, quant_format format, uint64_t bytes)
{
    quantize_view *v = ctx;
    char size[TEXT_NUMBER_BYTES];
    v->n++;
    v->before += t->bytes;
    v->after += bytes;
    if (!v->list)
        return;
    if (v->call->common.json) {
        jw_open(&v->json, '{');
        jw_key_str(&v->json, "name", t->name);
        jw_key_text(&v->json, "type", quant_get(format)->name);
        jw_key_uint(&v->json, "bytes", bytes);
        jw_close(&v->json, '}');
    } else {
        out_printf(v->call->out, "%-40.*s  %-5s  %9s\n", STR_ARG(t->name), quant_get(format)->name,
                   text_bytes(size, bytes));
    }
}

static int view_print(quantize_view *v, const quantize_options *o)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    strbuf out = {0};
    if (!v->call->common.json) {
        if (!v->call->common.quiet)
            out_printf(v->call->out, "%.900s  %s  %s (was %s)\n", o->out != NULL ? o->out : "total",
                       o->mix->name, text_bytes(a, v->after), text_bytes(b, v->before));
        return CLI_DONE;
    }
    jw_open(&out, '{');
    jw_key_text(&out, "file", o->out);
    jw_key_text(&out, "type", o->mix->name);
    jw_key_uint(&out, "tensors", v->n);
    jw_key_uint(&out, "bytes", v->after);
    jw_key_uint(&out, "source_bytes", v->before);
    if (v->list) {
        jw_key(&out, "list");
        jw_open(&out, '[');
        jw_raw(&out, strbuf_view(&v->json));
        jw_close(&out, ']');
    }
    jw_close(&out, '}');
    return out_json(v->call->out, &out);
}

static uint32_t thread_count(uint64_t wanted)
{
    cores all;
    if (wanted > 0)
        return (uint32_t)wanted;
    cores_find(&all);
    return all.n;
}

static int quantize_run(const cli_call *call)
{
    const cmd_quantize_options *given = call->options;
    struct stat info;
    mote_error err = {0};
    quantize_view v = {.call = call, .list = given->dry_run};
    const quantize_options o = {.out = given->dry_run ? NULL : call->words[1],
                                .mix = quant_mix_find(call->words[2]),
                                .threads = thread_count(given->threads),
                                .isa = cpu_best_isa_up_to((mote_isa)given->isa),
                                .progress = view_progress,
                                .chosen = view_chosen,
                                .ctx = &v};
    if (cpu_check_level((mote_isa)given->isa, &err) != MOTE_OK)
        return msg_error(&err);
    if (o.mix == NULL)
        return msg_usage("unknown type %.60s; one of %s", call->words[2], quant_mix_names());
    if (o.out != NULL && !given->yes && stat(o.out, &info) == 0)
        return msg_fail(CLI_REFUSED, "file_exists", "%.800s exists; replace it with -y", o.out);
    const mote_status status = quantize_file(call->words[0], &o, &err);
    progress_end(&v.progress);
    int code;
    if (status == MOTE_E_CANCELED && interrupt_pending()) {
        msg_note("%s; run the same command again: it continues", err.text);
        code = interrupt_exit_code();
    } else {
        code = status != MOTE_OK ? msg_error(&err) : view_print(&v, &o);
    }
    strbuf_fini(&v.json);
    return code;
}

const cli_command cmd_quantize = {
    .name = "quantize",
    .section = "Models",
    .summary = "make a smaller GGUF file from a BF16, F16 or F32 file",
    .usage = "FILE OUT TYPE",
    .arguments = "FILE FILE "
                 "Q4_K_M|Q5_K_M|Q6_K|Q8_0|Q2_K|Q3_K_S|Q3_K_M|Q3_K_L|Q4_0|Q4_1|Q4_K_S|Q5_0|Q5_1|"
                 "Q5_K_S|F16|BF16|F32",
    .min_words = 3,
    .max_words = 3,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(cmd_quantize_options),
    .about =
        "Encodes the matrices of FILE in the formats of TYPE: Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, Q4_0, "
        "Q4_1, Q4_K_S, Q4_K_M, Q5_0, Q5_1, Q5_K_S, Q5_K_M, Q6_K, Q8_0, F16, BF16 or F32. A mix "
        "such as Q4_K_M gives sensitive tensors more bits. The bytes are those of llama-quantize "
        "without an importance matrix, with any number of threads. Vectors do not change.\n"
        "FILE is one file or any part of a split one. Little memory is needed for any size. Data "
        "are written to OUT.partial; after an interruption the same command continues.",
    .examples = "mote quantize qwen3.5-4b-bf16.gguf qwen3.5-4b-Q4_K_M.gguf Q4_K_M\n"
                "mote quantize model.gguf small.gguf Q3_K_M --dry-run",
    .run = quantize_run,
};
