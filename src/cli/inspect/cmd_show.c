/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_show.c - `mote show`: what a model file is, and what running it takes.
 *
 * The file is looked at first and the model opened second: a file that mote
 * cannot run is still worth describing, with the reason at the end.
 */
#include "cli/args/commands.h"
#include "cli/load/load.h"
#include "cli/term/output_messages.h"
#include "cli/inspect/show_chat.h"
#include "cli/inspect/show_file.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

typedef struct show_options {
    bool tensors;
    bool metadata;
    uint64_t context;
    uint64_t sessions;
    uint64_t kv;
} show_options;

#define AT(member) offsetof(show_options, member)

static const cli_flag flags[] = {
    {.name = "tensors", .kind = FLAG_SWITCH, .at = AT(tensors), .help = "list every tensor"},
    {.name = "metadata",
     .kind = FLAG_SWITCH,
     .at = AT(metadata),
     .help = "list every metadata entry"},
    {.name = "context",
     .letter = 'c',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4194304,
     .initial = "4096",
     .env = "MOTE_CONTEXT",
     .at = AT(context),
     .help = "memory for this many tokens a session"},
    {.name = "sessions",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4096,
     .initial = "1",
     .at = AT(sessions),
     .help = "and this many sessions"},
    {.name = "kv",
     .kind = FLAG_CHOICE,
     .value = LOAD_KV_CHOICES,
     .initial = "f16",
     .env = "MOTE_KV",
     .at = AT(kv),
     .help = "and attention memory in this format"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

typedef struct show_state {
    const cli_call *call;
    const show_options *options;
    const char *path;
    show_file file;
    loaded on; /* model NULL: mote cannot run it */
    mote_error why_not;
    mote_model_info info;
    mote_memory memory;
    uint64_t token_bytes;   /* what one more token of context costs */
    uint64_t session_bytes; /* what one more session costs */
} show_state;

static mote_status plan(const show_state *s, uint64_t positions, uint64_t sessions,
                        mote_memory *out, mote_error *err)
{
    mote_engine_options wanted = {
        .sessions = (uint32_t)sessions, .positions = positions, .kv = (mote_kv)s->options->kv};
    return mote_engine_plan(s->on.model, &wanted, out, err);
}

/* Prices are differences between plans, over steps that are whole pages. */
static mote_status plan_memory(show_state *s, mote_error *err)
{
    enum { STEP = 4096 };
    uint64_t n = s->options->sessions, positions = s->options->context * n;
    mote_memory more_tokens, more_sessions;
    TRY(plan(s, positions, n, &s->memory, err));
    TRY(plan(s, positions + STEP, n, &more_tokens, err));
    TRY(plan(s, positions, n + 1, &more_sessions, err));
    s->token_bytes = (more_tokens.kv_cache - s->memory.kv_cache) / STEP;
    s->session_bytes = more_sessions.recurrent_state - s->memory.recurrent_state;
    return MOTE_OK;
}

static void print_model(const show_state *s)
{
    cli_out *o = s->call->out;
    const mote_model_info *info = &s->info;
    str architecture = show_file_text(&s->file, "general.architecture");
    str name = show_file_text(&s->file, "general.name");
    char a[TEXT_NUMBER_BYTES], shown[4 * 48 + 1];
    text_fit(shown, sizeof shown, name.p, name.n, 48);
    out_printf(o, "  Model        %s%s", shown, name.n > 0 ? ": " : "");
    text_fit(shown, sizeof shown, architecture.p, architecture.n, 24);
    out_printf(o, "%s", shown);
    if (s->on.model != NULL)
        out_printf(o, ", %s parameters\n  Layers       %u: %u DeltaNet, %u attention%s",
                   text_quantity(a, (double)info->parameters), info->layers,
                   info->layers - info->attention_layers, info->attention_layers,
                   info->tied ? "; tied embeddings" : "");
    out_text(o, "\n");
}

static void print_facts(const show_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    print_model(s);
    const char *type = show_file_type(&s->file);
    const char *most = s->file.n_formats > 0 ? s->file.formats[0].name : "nothing";
    out_printf(o, "  File         %s%s, %s, %" PRIu64 " tensors, %" PRIu64 " metadata entries%s\n",
               type != NULL ? "" : "mostly ", type != NULL ? type : most,
               text_bytes(a, s->file.map.bytes), gguf_n_tensors(s->file.gguf),
               gguf_n_kv(s->file.gguf), s->info.draft_head ? ", draft head" : "");
    if (s->on.model == NULL)
        return;
    out_printf(o, "  Context      %s tokens as trained\n", text_count(a, s->info.context));
    out_printf(o, "  Vocabulary   %s tokens, %s rows\n", text_count(a, s->info.tokens),
               text_count(b, s->info.vocabulary));
    out_printf(o, "  Kernels      %s\n", mote_isa_name(s->info.isa));
}

static void print_memory_row(cli_out *o, const char *what, uint64_t bytes, const char *note)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    out_printf(o, "    %-9s  %8s  %17s%s%s\n", what, text_bytes(a, bytes), text_count(b, bytes),
               note[0] != '\0' ? "  " : "", note);
}

static void print_memory(const show_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], note[96];
    out_printf(o, "  Memory       context %s, %s, %s\n", text_count(a, s->options->context),
               text_counted(b, s->options->sessions, "session"), load_kv_name(s->options->kv));
    print_memory_row(o, "weights", s->memory.weights, "the file, mapped");
    print_memory_row(o, "model", s->memory.model, "");
    snprintf(note, sizeof note, "%s a token", text_bytes(a, s->token_bytes));
    print_memory_row(o, "pages", s->memory.kv_cache, note);
    snprintf(note, sizeof note, "%s a session", text_bytes(a, s->session_bytes));
    print_memory_row(o, "states", s->memory.recurrent_state, note);
    print_memory_row(o, "scratch", s->memory.scratch, "");
    print_memory_row(o, "total", s->memory.total, "");
}

static void print_text(const show_state *s)
{
    cli_out *o = s->call->out;
    print_facts(s);
    if (s->on.model != NULL) {
        show_chat_text(s->on.model, o);
        print_memory(s);
    }
    show_formats_text(&s->file, o);
    if (s->options->tensors)
        show_tensors_text(&s->file, o);
    if (s->options->metadata)
        show_metadata_text(&s->file, o, term_columns(STDOUT_FILENO));
}

static void write_model(json *j, const mote_model_info *info)
{
    json_begin_object(j);
    json_key_u64(j, "parameters", info->parameters);
    json_key_u64(j, "layers", info->layers);
    json_key_u64(j, "attention_layers", info->attention_layers);
    json_key_u64(j, "context", info->context);
    json_key_u64(j, "vocabulary", info->vocabulary);
    json_key_u64(j, "tokens", info->tokens);
    json_key_bool(j, "tied", info->tied);
    json_key_bool(j, "draft_head", info->draft_head);
    json_key_text(j, "isa", mote_isa_name(info->isa));
    json_key_u64(j, "private_bytes", info->private_bytes);
    json_end_object(j);
}

static void write_memory(json *j, const show_state *s)
{
    json_begin_object(j);
    json_key_u64(j, "context", s->options->context);
    json_key_u64(j, "sessions", s->options->sessions);
    json_key_text(j, "kv", load_kv_name(s->options->kv));
    json_key_u64(j, "weights", s->memory.weights);
    json_key_u64(j, "model", s->memory.model);
    json_key_u64(j, "pages", s->memory.kv_cache);
    json_key_u64(j, "states", s->memory.recurrent_state);
    json_key_u64(j, "scratch", s->memory.scratch);
    json_key_u64(j, "total", s->memory.total);
    json_key_u64(j, "bytes_per_token", s->token_bytes);
    json_key_u64(j, "bytes_per_session", s->session_bytes);
    json_end_object(j);
}

/* "model", "chat" and "memory" are null for a file that mote cannot run. */
static void print_json(const show_state *s)
{
    str name = show_file_text(&s->file, "general.name");
    str architecture = show_file_text(&s->file, "general.architecture");
    json j = {.to = s->call->out};
    json_begin_object(&j);
    json_key_text(&j, "file", s->path);
    json_key_u64(&j, "file_bytes", s->file.map.bytes);
    json_key_text(&j, "file_type", show_file_type(&s->file));
    json_key(&j, "name");
    json_bytes(&j, name.p, name.n);
    json_key(&j, "architecture");
    json_bytes(&j, architecture.p, architecture.n);
    json_key_u64(&j, "n_tensors", gguf_n_tensors(s->file.gguf));
    json_key_u64(&j, "n_metadata", gguf_n_kv(s->file.gguf));
    json_key(&j, "model");
    if (s->on.model != NULL)
        write_model(&j, &s->info);
    else
        json_absent(&j);
    if (s->on.model != NULL) {
        show_chat_json(s->on.model, &j);
    } else {
        json_key(&j, "chat");
        json_absent(&j);
    }
    json_key(&j, "memory");
    if (s->on.model != NULL)
        write_memory(&j, s);
    else
        json_absent(&j);
    show_formats_json(&s->file, &j);
    if (s->options->tensors)
        show_tensors_json(&s->file, &j);
    if (s->options->metadata)
        show_metadata_json(&s->file, &j);
    json_end_object(&j);
}

static int show(show_state *s)
{
    mote_error err;
    if (show_file_open(&s->file, s->path, &err) != MOTE_OK)
        return load_failed(s->path, &err);
    if (mote_model_open(&s->on.model, s->path, NULL, &s->why_not) == MOTE_OK) {
        mote_model_describe(s->on.model, &s->info);
        if (plan_memory(s, &err) != MOTE_OK)
            return msg_error(&err);
    }
    if (s->call->common.json)
        print_json(s);
    else
        print_text(s);
    out_flush(s->call->out);
    return s->on.model != NULL ? CLI_DONE : load_failed(s->path, &s->why_not);
}

static int run(const cli_call *call)
{
    show_state s = {.call = call, .options = call->options, .path = call->words[0]};
    int code = load_check_file(s.path);
    if (code == CLI_DONE)
        code = show(&s);
    load_close(&s.on);
    show_file_close(&s.file);
    return code;
}

const cli_command cmd_show = {
    .name = "show",
    .section = "Models",
    .summary = "what a model file is and what it needs",
    .usage = "FILE",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(show_options),
    .about =
        "Describes the model in FILE: its shape, its formats, how it converses, and the memory it "
        "takes to run it.",
    .examples = "mote show model.gguf\n"
                "mote show model.gguf -c 65536 --sessions 4\n"
                "mote show model.gguf --tensors --json",
    .run = run,
};
