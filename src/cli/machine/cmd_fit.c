/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_fit.c - `mote fit`: which models this machine can run, before anything is downloaded.
 *
 * fit/ computes the rows; here are the flags, the choice of rows, and the table.
 */
#include "cli/args/command.h"
#include "cli/load/choose_size.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "fit/fit.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LIMIT_BYTES = 256, NAME_COLUMNS = 48 };

typedef struct fit_options {
    uint64_t context;
    uint64_t parallel;
    uint64_t memory;
    uint64_t threads;
    uint64_t isa;
    uint64_t kv;
    bool all;
    bool no_measure;
} fit_options;

#define AT(member) offsetof(fit_options, member)

static const cli_flag flags[] = {
    {.name = "all", .kind = FLAG_SWITCH, .at = AT(all), .help = "every quantisation of each model"},
    {LOAD_MEMORY_FLAG, .shown = "what is available", .at = AT(memory),
     .help = "what would fit into this much memory"},
    {LOAD_CONTEXT_FLAG, .value = "N", .initial = "8192", .env = "MOTE_CONTEXT", .at = AT(context),
     .help = "context that a model must hold, in tokens"},
    {LOAD_PARALLEL_FLAG, .initial = "1", .at = AT(parallel),
     .help = "sessions at once, each with the context; decode speed is that of all together"},
    {LOAD_KV_FLAG, .at = AT(kv), .help = "type of the KV cache"},
    {LOAD_THREADS_FLAG, .at = AT(threads), .help = "threads"},
    {LOAD_ISA_FLAG, .at = AT(isa), .help = "highest instruction set to use"},
    {.name = "no-measure",
     .kind = FLAG_SWITCH,
     .at = AT(no_measure),
     .help = "use the stored speed of this machine; without one, print no speeds"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

typedef struct fit_state {
    const cli_call *call;
    const fit_options *options;
    store *s;
    model_name name; /* of the argument, if there is one */
    fit_request request;
    char limit[LIMIT_BYTES]; /* what sets the budget */
    fit_table table;
    machine_speed speed;
    bool measured;
} fit_state;

/* ---- the rows ---- */

static mote_status fit_add_family(fit_state *f, const char *family, mote_error *err)
{
    const known_model *row = NULL;
    while ((row = model_family_next(store_known(f->s), family, row)) != NULL)
        TRY(fit_add_known(&f->table, f->s, row, NULL, &f->request, err));
    return MOTE_OK;
}

/* "qwen3.5:4b" compares all quantisations, "qwen3.5:4b-q8_0" is one of them. */
static mote_status fit_add_name(fit_state *f, mote_error *err)
{
    const bool plain = strcasecmp(f->name.text, f->name.known->name) == 0;
    TRY(fit_add_known(&f->table, f->s, f->name.known, plain ? NULL : f->name.quant, &f->request,
                      err));
    if (f->table.n == 0)
        return err_set(err, MOTE_E_ARG,
                       "the tensors of %.200s are known only when it is installed; try: mote pull "
                       "%.200s",
                       f->name.text, f->name.text);
    return MOTE_OK;
}

/* Any other model must be a file on this machine. */
static int fit_add_found(fit_state *f)
{
    found_model found;
    mote_error err;
    char mmproj[MMPROJ_PATH_BYTES], why[MMPROJ_PATH_BYTES + 256];
    const int code = find_model(&found, f->call->words[0]);
    if (code != CLI_DONE)
        return code;
    const bool vision = find_mmproj(mmproj, why, &found, NULL) && mmproj[0] != '\0';
    if (fit_add_file(&f->table, found.path, vision ? mmproj : NULL, &f->request, &err) != MOTE_OK)
        return load_failed(found.path, &err);
    return CLI_DONE;
}

static int fit_add_rows(fit_state *f)
{
    mote_error err;
    mote_status status;
    if (f->call->n_words == 0) {
        status = fit_add_family(f, "qwen3.5", &err);
    } else if (model_name_parse(&f->name, store_known(f->s), f->call->words[0], &err) != MOTE_OK) {
        return msg_fail(CLI_NO_MODEL, "not_found", "%s", err.text);
    } else if (f->name.kind == MODEL_NAME_FAMILY) {
        status = fit_add_family(f, f->name.text, &err);
    } else if (f->name.kind == MODEL_NAME_KNOWN && f->name.known->shape.layers > 0) {
        status = fit_add_name(f, &err);
    } else {
        return fit_add_found(f);
    }
    return status == MOTE_OK ? CLI_DONE : msg_error(&err);
}

static int fit_measure(fit_state *f)
{
    const fit_options *o = f->options;
    const speed_options options = {.threads = (uint32_t)o->threads,
                                   .isa = (mote_isa)o->isa,
                                   .streams = (uint32_t)o->parallel,
                                   .formats = fit_table_formats(&f->table),
                                   .memory = machine_budget(0, f->limit, sizeof f->limit),
                                   .stop = interrupt_pending};
    f->request.budget = machine_budget(o->memory, f->limit, sizeof f->limit);
    return machine_speed_find(&f->speed, &f->measured, &options,
                              o->no_measure ? SPEED_STORED : SPEED_MEASURED);
}

/* Without --all, a table of several sizes has the best quantisation of each. */
static bool fit_is_shown(const fit_state *f, const fit_row *row)
{
    if (f->options->all || row->known == NULL || f->name.kind == MODEL_NAME_KNOWN)
        return true;
    const fit_row *best = fit_choose_quant(&f->table, row->known, false);
    return best != NULL ? best == row : strcasecmp(row->quant, row->known->standard) == 0;
}

/* ---- text ---- */

/* Other programs used the CPU during the measurement. */
static bool fit_was_busy(const fit_state *f)
{
    return f->measured && f->speed.slowdown > SPEED_BUSY;
}

static void fit_print_machine(const fit_state *f)
{
    cli_out *o = f->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    out_printf(o, "This machine: ");
    if (f->measured)
        out_printf(o, "%s%s%s, %s, reads %s/s, ", f->speed.cpu, f->speed.cpu[0] != '\0' ? ", " : "",
                   text_counted(a, f->speed.threads, "thread"), mote_isa_name(f->speed.isa),
                   text_bytes(b, (uint64_t)f->speed.read));
    out_printf(o, "%s usable (%s)\n", text_bytes(c, f->request.budget), f->limit);
    if (fit_was_busy(f))
        msg_note("the machine was busy: steps took %.1f times their CPU time. Speeds are those of "
                 "an idle machine, estimated from it; repeat mote fit when other programs are idle",
                 f->speed.slowdown);
}

static const char *fit_shown_name(const fit_state *f, const fit_row *row)
{
    return row->name[0] != '\0' ? row->known->name : f->call->words[0];
}

static void fit_rate(char out[TEXT_NUMBER_BYTES], double rate)
{
    if (rate > 0)
        text_rate(out, rate);
    else
        snprintf(out, TEXT_NUMBER_BYTES, "-");
}

static size_t fit_name_width(const fit_state *f)
{
    size_t width = strlen("MODEL");
    for (uint32_t i = 0; i < f->table.n; i++) {
        const size_t n = strlen(fit_shown_name(f, &f->table.rows[i]));
        width = n > width ? n : width;
    }
    return width < NAME_COLUMNS ? width : NAME_COLUMNS;
}

static void fit_print_row(const fit_state *f, const fit_row *row, int width)
{
    char name[4 * NAME_COLUMNS + 1], weights[TEXT_NUMBER_BYTES], asked[TEXT_NUMBER_BYTES],
        full[TEXT_NUMBER_BYTES], context[TEXT_NUMBER_BYTES], prefill[TEXT_NUMBER_BYTES],
        decode[TEXT_NUMBER_BYTES], deep[TEXT_NUMBER_BYTES];
    const char *shown = fit_shown_name(f, row);
    text_fit(name, sizeof name, shown, strlen(shown), NAME_COLUMNS);
    text_bytes(weights, row->asked.weights + row->vision);
    text_bytes(asked, row->asked.total + row->vision);
    text_bytes(full, row->full.total + row->vision);
    if (row->context > 0)
        text_count(context, row->context);
    else
        snprintf(context, sizeof context, "-");
    fit_rate(prefill, row->speed.prefill);
    fit_rate(decode, row->speed.decode);
    fit_rate(deep, row->speed.decode_full);
    out_printf(f->call->out, "%-*s  %-7s  %8s  %8s  %8s  %8s  %7s  %6s  %6s  %s%s\n", width, name,
               row->quant, weights, asked, full, context, prefill, decode, deep,
               fit_verdict_name(row->verdict), row->installed != NULL ? ", installed" : "");
}

/* Of models with experts: which weights every token reads. */
static void fit_print_experts(const fit_state *f)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], name[4 * NAME_COLUMNS + 1];
    for (uint32_t i = 0; i < f->table.n; i++) {
        const fit_row *row = &f->table.rows[i];
        const char *shown = fit_shown_name(f, row);
        if (row->asked.experts == 0 || !fit_is_shown(f, row))
            continue;
        text_fit(name, sizeof name, shown, strlen(shown), NAME_COLUMNS);
        out_printf(f->call->out,
                   "%s %s: every token uses %s of the weights and a part of %s of experts.\n", name,
                   row->quant, text_bytes(a, row->asked.weights - row->asked.experts),
                   text_bytes(b, row->asked.experts));
    }
}

static void fit_print_text(const fit_state *f)
{
    cli_out *o = f->call->out;
    const int width = (int)fit_name_width(f);
    char asked[TEXT_NUMBER_BYTES], label[TEXT_NUMBER_BYTES + 4];
    bool hidden = false, vision = false;
    if (f->options->context % 1024 == 0)
        snprintf(asked, sizeof asked, "%lluK", (unsigned long long)f->options->context / 1024);
    else
        snprintf(asked, sizeof asked, "%llu", (unsigned long long)f->options->context);
    snprintf(label, sizeof label, "AT %s", asked);
    fit_print_machine(f);
    out_printf(o, "%-*s  %-7s  %8s  %8s  %8s  %8s  %7s  %6s  %6s\n", width, "MODEL", "QUANT",
               "SIZE", label, "AT FULL", "CONTEXT", "PREFILL", "DECODE", label);
    for (uint32_t i = 0; i < f->table.n; i++) {
        const fit_row *row = &f->table.rows[i];
        const bool shown = fit_is_shown(f, row);
        hidden = hidden || !shown;
        vision = vision || (shown && row->vision > 0);
        if (shown)
            fit_print_row(f, row, width);
    }
    out_printf(
        o,
        "AT: memory with a context of %s tokens%s, and with the trained one. CONTEXT: the "
        "largest that fits.\nPREFILL, DECODE: tokens per second%s; AT: decode with %s tokens of "
        "context.\n%s%s\n",
        asked, f->options->parallel > 1 ? " per session" : "",
        f->measured ? "" : ", unknown without a measurement", asked,
        vision ? "Sizes include the vision encoder. " : "",
        hidden ? "--all lists every quantisation." : "");
    fit_print_experts(f);
}

/* ---- JSON ---- */

static void fit_write_memory(strbuf *j, const char *key, const mote_memory *m)
{
    jw_key(j, key);
    jw_open(j, '{');
    jw_key_uint(j, "weights", m->weights);
    jw_key_uint(j, "experts", m->experts);
    jw_key_uint(j, "model", m->model);
    jw_key_uint(j, "kv_cache", m->kv_cache);
    jw_key_uint(j, "recurrent_state", m->recurrent_state);
    jw_key_uint(j, "scratch", m->scratch);
    jw_key_uint(j, "total", m->total);
    jw_close(j, '}');
}

static void fit_write_speed(strbuf *j, const char *key, double speed)
{
    if (speed > 0)
        jw_key_double(j, key, speed);
    else
        jw_key_null(j, key);
}

static void fit_write_row(const fit_state *f, strbuf *j, const fit_row *row)
{
    jw_open(j, '{');
    jw_key_text(j, "name", row->name[0] != '\0' ? row->name : f->call->words[0]);
    jw_key_text(j, "quant", row->quant);
    jw_key_bool(j, "installed", row->installed != NULL || row->known == NULL);
    jw_key_uint(j, "vision_bytes", row->vision);
    fit_write_memory(j, "memory", &row->asked);
    fit_write_memory(j, "memory_full", &row->full);
    jw_key_uint(j, "context_full", row->trained);
    jw_key_uint(j, "context_fits", row->context);
    fit_write_speed(j, "prefill", row->speed.prefill);
    fit_write_speed(j, "decode", row->speed.decode);
    fit_write_speed(j, "decode_at_context", row->speed.decode_full);
    jw_key_bool(j, "fits", row->verdict != FIT_NO);
    jw_key_text(j, "verdict", fit_verdict_name(row->verdict));
    jw_close(j, '}');
}

/* All rows, whatever the table on a terminal shows. */
static int fit_write_json(const fit_state *f)
{
    strbuf j = {0};
    const fit_row *best = f->measured ? fit_choose(&f->table, false) : NULL;
    jw_open(&j, '{');
    jw_key_uint(&j, "usable", f->request.budget);
    jw_key_text(&j, "limit", f->limit);
    jw_key_uint(&j, "context", f->options->context);
    jw_key_uint(&j, "parallel", f->options->parallel);
    jw_key(&j, "machine");
    if (f->measured) {
        jw_open(&j, '{');
        jw_key_text(&j, "cpu", f->speed.cpu);
        jw_key_uint(&j, "threads", f->speed.threads);
        jw_key_text(&j, "isa", mote_isa_name(f->speed.isa));
        jw_key_double(&j, "bytes_per_second", f->speed.read);
        jw_key_double(&j, "slowdown", f->speed.slowdown);
        jw_key_bool(&j, "busy", fit_was_busy(f));
        jw_close(&j, '}');
    } else {
        jw_null(&j);
    }
    jw_key_text(&j, "recommended", best != NULL ? best->name : NULL);
    jw_key(&j, "models");
    jw_open(&j, '[');
    for (uint32_t i = 0; i < f->table.n; i++)
        fit_write_row(f, &j, &f->table.rows[i]);
    jw_close(&j, ']');
    jw_close(&j, '}');
    return out_json(f->call->out, &j);
}

/* ---- the command ---- */

/* Of several quantisations of a MODEL, the one that its name stands for decides. */
static int fit_exit_code(const fit_state *f)
{
    if (f->call->n_words == 0)
        return CLI_DONE;
    bool fits = false;
    for (uint32_t i = 0; i < f->table.n; i++) {
        const fit_row *row = &f->table.rows[i];
        const bool counts =
            f->name.kind != MODEL_NAME_KNOWN || strcasecmp(row->quant, f->name.quant) == 0;
        fits = fits || (counts && row->verdict != FIT_NO);
    }
    if (fits)
        return CLI_DONE;
    char a[TEXT_NUMBER_BYTES];
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                    "%s does not fit: available are %s (%s)", f->call->words[0],
                    text_bytes(a, f->request.budget), f->limit);
}

static int fit_run(const cli_call *call)
{
    fit_state f = {.call = call, .options = call->options};
    f.name.kind = MODEL_NAME_FAMILY;
    f.request = (fit_request){.budget = machine_budget(f.options->memory, f.limit, sizeof f.limit),
                              .context = f.options->context,
                              .sessions = (uint32_t)f.options->parallel,
                              .threads = (uint32_t)f.options->threads,
                              .kv = (mote_kv)f.options->kv};
    int code = find_open_store(&f.s);
    if (code == CLI_DONE)
        code = fit_add_rows(&f);
    if (code == CLI_DONE)
        code = fit_measure(&f);
    if (code == CLI_DONE) {
        fit_table_judge(&f.table, f.measured ? &f.speed : NULL, &f.request);
        if (call->common.json)
            code = fit_write_json(&f);
        else
            fit_print_text(&f);
    }
    if (code == CLI_DONE) {
        out_flush(call->out);
        code = fit_exit_code(&f);
    }
    fit_table_fini(&f.table);
    store_close(f.s);
    return code;
}

const cli_command cmd_fit = {
    .name = "fit",
    .section = "Understand",
    .summary = "which models this machine can run, and how fast",
    .usage = "[MODEL]",
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(fit_options),
    .about = "Measures this machine for a few seconds. Then prints the memory that every model "
             "needs, its expected speed, and whether it fits. Needs no network and no model.\n"
             "With MODEL, a name or a file, only that model; exit code 4 if it does not fit.",
    .examples = "mote fit\n"
                "mote fit --all --memory 8GB\n"
                "mote fit qwen3.5:9b --context 65536\n"
                "mote fit model.gguf --json",
    .run = fit_run,
};
