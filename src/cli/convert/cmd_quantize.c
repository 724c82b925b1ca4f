/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_quantize.c - `mote quantize`: a GGUF file in another weight format. */
#include "base/cpu.h"
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "convert/quantize.h"
#include "convert/sample_text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <sys/stat.h>

typedef struct cmd_quantize_options {
    uint64_t threads; /* 0: one per core */
    uint64_t isa;     /* mote_isa */
    flag_list types;  /* REGEX=TYPE */
    const char *calibrate;
    const char *imatrix;
    bool dry_run, yes;
} cmd_quantize_options;

static const cli_flag flags[] = {
    {LOAD_THREADS_FLAG, .at = offsetof(cmd_quantize_options, threads),
     .help = "threads; does not change the result"},
    {LOAD_ISA_FLAG, .at = offsetof(cmd_quantize_options, isa),
     .help = "highest instruction set to use; does not change the result"},
    {.name = "tensor-type",
     .kind = FLAG_LIST,
     .value = "REGEX=TYPE",
     .once = true,
     .at = offsetof(cmd_quantize_options, types),
     .help = "format of the matrices with a name that matches; repeatable, the first match counts"},
    {.name = "calibrate",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .shown = "a text that mote contains",
     .once = true,
     .at = offsetof(cmd_quantize_options, calibrate),
     .help = "text to measure with, for small, balanced and best"},
    {.name = "imatrix",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = offsetof(cmd_quantize_options, imatrix),
     .help = "importance matrix of llama.cpp or mote imatrix"},
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

enum { LABEL_BYTES = 128, PATH_BYTES = 4096 };

typedef struct quantize_view {
    const cli_call *call;
    bool list; /* --dry-run */
    progress progress;
    char label[LABEL_BYTES];
    bool started;
    uint64_t measured_of; /* `all` of the last call of view_measuring */
    uint32_t n, unweighted;
    char first_unweighted[LABEL_BYTES];
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

static bool view_measuring(void *ctx, own_mix_phase phase, const char *tensor, uint64_t done,
                           uint64_t all)
{
    static const char *const labels[] = {"comparing formats", "copying", "measuring"};
    quantize_view *v = ctx;
    snprintf(v->label, sizeof v->label, "%s  %.80s", labels[phase], tensor);
    if (v->measured_of != all) { /* the next phase */
        progress_end(&v->progress);
        progress_begin(&v->progress, v->label,
                       phase == OWN_MIX_MEASURE ? PROGRESS_TOKENS : PROGRESS_BYTES, done, all);
    }
    v->measured_of = all;
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

static void view_unweighted(void *ctx, const gguf_tensor *t)
{
    quantize_view *v = ctx;
    if (v->unweighted++ == 0)
        snprintf(v->first_unweighted, sizeof v->first_unweighted, "%.*s", STR_ARG(t->name));
}

static void view_report_unweighted(const quantize_view *v)
{
    char count[TEXT_NUMBER_BYTES];
    if (v->unweighted > 0)
        msg_note("%s not in the importance matrix: %s%s",
                 text_counted(count, v->unweighted, "tensor"), v->first_unweighted,
                 v->unweighted > 1 ? " and others" : "");
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

/* What an own mix needs: the text, and a name for the copy of the model. Returns an exit code. */
static int measured_begin(const cli_call *call, quantize_options *o, strbuf *text, char *copy,
                          size_t room)
{
    const cmd_quantize_options *given = call->options;
    o->text_name = given->calibrate != NULL ? given->calibrate : "mote";
    o->copy = copy;
    if (o->mix->reference == NULL) {
        if (given->calibrate != NULL)
            return msg_usage("--calibrate is for small, balanced and best; %s does not measure",
                             o->mix->name);
        return CLI_DONE;
    }
    if ((size_t)snprintf(copy, room, "%s.measuring.gguf", call->words[1]) >= room)
        return msg_usage("the path %.200s... is too long", call->words[1]);
    if (given->calibrate != NULL) {
        const int code = input_read(text, given->calibrate);
        if (code != CLI_DONE)
            return code;
    } else {
        sample_text_put(text);
        mote_error err;
        if (strbuf_check(text, &err) != MOTE_OK)
            return msg_error(&err);
    }
    o->text = strbuf_view(text);
    return CLI_DONE;
}

static int quantize_with(quantize_view *v, const quantize_options *o)
{
    mote_error err = {0};
    const mote_status status = quantize_file(v->call->words[0], o, &err);
    progress_end(&v->progress);
    if (status == MOTE_E_CANCELED && interrupt_pending()) {
        msg_note("%s; run the same command again: it continues", err.text);
        return interrupt_exit_code();
    }
    return status != MOTE_OK ? msg_error(&err) : view_print(v, o);
}

static int quantize_run(const cli_call *call)
{
    const cmd_quantize_options *given = call->options;
    struct stat info;
    mote_error err = {0};
    quantize_view v = {.call = call, .list = given->dry_run};
    quantize_options o = {.out = given->dry_run ? NULL : call->words[1],
                          .mix = quant_mix_find(call->words[2]),
                          .threads = thread_count(given->threads),
                          .isa = cpu_best_isa_up_to((mote_isa)given->isa),
                          .progress = view_progress,
                          .measuring = view_measuring,
                          .chosen = view_chosen,
                          .unweighted = view_unweighted,
                          .imatrix_path = given->imatrix,
                          .ctx = &v};
    if (cpu_check_level((mote_isa)given->isa, &err) != MOTE_OK)
        return msg_error(&err);
    if (o.mix == NULL)
        return msg_usage("unknown type %.60s; one of %s", call->words[2], quant_mix_names());
    if (o.out != NULL && !given->yes && stat(o.out, &info) == 0)
        return msg_fail(CLI_REFUSED, "file_exists", "%.800s exists; replace it with -y", o.out);
    if (tensor_types_new(&o.types, given->types.items, given->types.n, &err) != MOTE_OK)
        return msg_usage("--tensor-type: %s", err.text);
    strbuf text = {0};
    char copy[PATH_BYTES];
    int code = measured_begin(call, &o, &text, copy, sizeof copy);
    imatrix *weights = NULL;
    if (code == CLI_DONE && given->imatrix != NULL &&
        imatrix_open(&weights, given->imatrix, &err) != MOTE_OK)
        code = msg_error(&err);
    o.imatrix = weights;
    if (code == CLI_DONE)
        code = quantize_with(&v, &o);
    view_report_unweighted(&v);
    imatrix_free(weights);
    tensor_types_free(o.types);
    strbuf_fini(&text);
    strbuf_fini(&v.json);
    return code;
}

const cli_command cmd_quantize = {
    .name = "quantize",
    .section = "Models",
    .summary = "make a smaller GGUF file from a BF16, F16 or F32 file",
    .usage = "FILE OUT TYPE",
    .arguments = "FILE FILE "
                 "small|balanced|best|Q4_K_M|Q5_K_M|Q6_K|Q8_0|IQ1_S|IQ1_M|IQ2_XXS|IQ2_XS|IQ2_S|"
                 "IQ2_M|Q2_K_S|Q2_K|IQ3_XXS|IQ3_XS|IQ3_S|IQ3_M|Q3_K_S|Q3_K_M|Q3_K_L|IQ4_XS|IQ4_NL|"
                 "Q4_0|Q4_1|Q4_K_S|Q5_0|Q5_1|Q5_K_S|F16|BF16|F32",
    .min_words = 3,
    .max_words = 3,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(cmd_quantize_options),
    .about =
        "Encodes the matrices of FILE in the formats of TYPE: IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, "
        "IQ2_S, IQ2_M, Q2_K_S, Q2_K, IQ3_XXS, IQ3_XS, IQ3_S, IQ3_M, Q3_K_S, Q3_K_M, Q3_K_L, "
        "IQ4_XS, IQ4_NL, Q4_0, Q4_1, Q4_K_S, Q4_K_M, Q5_0, Q5_1, Q5_K_S, Q5_K_M, Q6_K, Q8_0, F16, "
        "BF16 or F32. A mix such as Q4_K_M gives sensitive tensors more bits. The bytes are those "
        "of llama-quantize, with any number of threads. Vectors do not change. FILE may be a "
        "vision encoder (mmproj).\n"
        "--imatrix gives errors in columns with large inputs more weight. It reads files of mote "
        "imatrix and of llama-imatrix in both formats. IQ1, IQ2, IQ3_XXS, IQ3_XS and Q2_K_S need "
        "one.\n"
        "small, balanced and best are mixes of mote with at most the sizes of Q3_K_M, Q4_K_M and "
        "Q6_K. mote measures how much the predictions of the model change if each group of tensors "
        "is quantised, and chooses the formats with the least change. This takes the time of "
        "prefilling 2048 tokens 50 to 90 times, and for a while the disk space of a "
        "copy of FILE. --calibrate names another text to measure with, such as your own kind of "
        "prompts.\n"
        "--tensor-type sets the format of the matrices with names that match an extended regular "
        "expression; the file has these rules in its key mote.quantize.tensor_types.\n"
        "FILE is one file or any part of a split one. Little memory is needed for any size. Data "
        "are written to OUT.partial; after an interruption the same command continues.",
    .examples = "mote quantize qwen3.5-4b-bf16.gguf qwen3.5-4b-Q4_K_M.gguf Q4_K_M\n"
                "mote quantize model.gguf out.gguf Q4_K_M --tensor-type 'attn_(q|k)=Q8_0'\n"
                "mote quantize model.gguf small.gguf IQ4_XS --imatrix imatrix.gguf\n"
                "mote quantize model.gguf out.gguf balanced --calibrate my-prompts.txt\n"
                "mote quantize model.gguf small.gguf Q3_K_M --dry-run",
    .run = quantize_run,
};
