/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_show.c - `mote show`: describes a model file and the memory it needs.
 *
 * The GGUF file is read first and the model opened second, so a file that mote cannot run is
 * described too, with the reason at the end.
 */
#include "chat/prompt/chat_context.h"
#include "cli/args/command.h"
#include "cli/inspect/show_file.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- chat template and presets ---- */

static bool preset_is_default(const chat_preset *preset, const chat_template *how)
{
    return preset->thinking == how->thinks && preset->task == CHAT_TASK_GENERAL;
}

static void preset_print(cli_out *o, const chat_preset *preset, bool by_default)
{
    out_printf(o, "    %-24s  temperature %.1f  top_p %.2f  top_k %u  presence %.1f%s\n",
               preset->name, (double)preset->temperature, (double)preset->top_p, preset->top_k,
               (double)preset->presence, by_default ? "  default" : "");
}

static void show_chat_text(const mote_model *model, cli_out *o)
{
    chat_template how;
    mote_model_info info;
    mote_error err;
    mote_model_describe(model, &info);
    if (chat_template_of(&how, model, &err) != MOTE_OK) {
        out_printf(o, "  Chat         not available: %s\n", err.text);
        return;
    }
    char note[MOTE_TEMPLATE_NOTE];
    chat_template_note(&how, note);
    out_printf(o, "  Chat         template %s, thinking %s by default\n", how.style->name,
               how.thinks ? "on" : "off");
    if (note[0] != '\0')
        out_printf(o, "               %s\n", note);
    for (size_t i = 0; chat_preset_at(i) != NULL; i++)
        if (chat_preset_at(i)->size == chat_size_of(info.parameters))
            preset_print(o, chat_preset_at(i), preset_is_default(chat_preset_at(i), &how));
}

static void preset_write(strbuf *j, const chat_preset *preset, bool by_default)
{
    jw_open(j, '{');
    jw_key_text(j, "name", preset->name);
    jw_key_bool(j, "default", by_default);
    jw_key_float(j, "temperature", preset->temperature);
    jw_key_float(j, "top_p", preset->top_p);
    jw_key_uint(j, "top_k", preset->top_k);
    jw_key_float(j, "min_p", preset->min_p);
    jw_key_float(j, "presence_penalty", preset->presence);
    jw_key_float(j, "repetition_penalty", preset->repetition);
    jw_close(j, '}');
}

static void show_chat_json(const mote_model *model, strbuf *j)
{
    chat_template how;
    mote_model_info info;
    jw_key(j, "chat");
    mote_model_describe(model, &info);
    if (chat_template_of(&how, model, NULL) != MOTE_OK) {
        jw_null(j);
        return;
    }
    jw_open(j, '{');
    char note[MOTE_TEMPLATE_NOTE];
    chat_template_note(&how, note);
    jw_key_text(j, "template", how.style->name);
    jw_key_text(j, "template_origin", chat_origin_name(how.origin));
    jw_key_text(j, "template_note", note);
    jw_key_bool(j, "thinks", how.thinks);
    jw_key(j, "presets");
    jw_open(j, '[');
    for (size_t i = 0; chat_preset_at(i) != NULL; i++)
        if (chat_preset_at(i)->size == chat_size_of(info.parameters))
            preset_write(j, chat_preset_at(i), preset_is_default(chat_preset_at(i), &how));
    jw_close(j, ']');
    jw_close(j, '}');
}

/* ---- the command ---- */

typedef struct show_options {
    bool tensors;
    bool metadata;
    uint64_t context;
    uint64_t sessions;
    uint64_t kv;
} show_options;

#define AT(member) offsetof(show_options, member)

static const cli_flag flags[] = {
    {.name = "tensors",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(tensors),
     .help = "list every tensor"},
    {.name = "metadata",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(metadata),
     .help = "list every metadata entry"},
    {LOAD_CONTEXT_FLAG, .value = "N", .initial = "4096", .env = "MOTE_CONTEXT", .at = AT(context),
     .help = "plan memory for this many tokens per session"},
    {.name = "sessions",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4096,
     .initial = "1",
     .once = true,
     .at = AT(sessions),
     .help = "plan memory for this many sessions"},
    {LOAD_KV_FLAG, .at = AT(kv), .help = "plan memory for this type of the KV cache"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

typedef struct show_state {
    const cli_call *call;
    const show_options *options;
    found_model found;
    const char *path;
    show_file file;
    loaded on; /* model NULL: mote cannot run it */
    mote_error why_not;
    mote_model_info info;
    mote_memory memory;
    uint64_t token_bytes;   /* KV cache per token */
    uint64_t session_bytes; /* recurrent state per session */
    uint64_t draft_bytes;   /* what drafts need in addition; 0: no MTP head */
} show_state;

static mote_status show_plan(const show_state *s, uint64_t positions, uint64_t sessions,
                             bool drafts, mote_memory *out, mote_error *err)
{
    mote_engine_options engine = {.sessions = (uint32_t)sessions,
                                  .positions = positions,
                                  .kv = (mote_kv)s->options->kv,
                                  .drafts = drafts};
    return mote_engine_plan(s->on.model, &engine, out, err);
}

/* Costs are differences between plans; the step is a multiple of the KV page size. */
static mote_status show_plan_memory(show_state *s, mote_error *err)
{
    enum { STEP = 4096 };
    uint64_t n = s->options->sessions, positions = s->options->context * n;
    mote_memory more_tokens, more_sessions, with_drafts;
    TRY(show_plan(s, positions, n, false, &s->memory, err));
    TRY(show_plan(s, positions + STEP, n, false, &more_tokens, err));
    TRY(show_plan(s, positions, n + 1, false, &more_sessions, err));
    TRY(show_plan(s, positions, n, true, &with_drafts, err));
    s->draft_bytes = with_drafts.drafts;
    s->token_bytes = (more_tokens.kv_cache - s->memory.kv_cache) / STEP;
    s->session_bytes = more_sessions.recurrent_state - s->memory.recurrent_state;
    return MOTE_OK;
}

static void show_print_model(const show_state *s)
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
    if (s->on.model != NULL && info->experts > 0)
        out_printf(o, "\n  Experts      %u per layer, %u per token", info->experts,
                   info->experts_used);
    out_text(o, "\n");
}

/* Of a model that was given by name: where it is. */
static void show_print_place(const show_state *s)
{
    cli_out *o = s->call->out;
    char shown[4 * 200 + 1];
    if (s->found.origin == STORE_PATH)
        return;
    text_fit(shown, sizeof shown, s->found.name, strlen(s->found.name), 200);
    out_printf(o, "  Name         %s, %s", shown, store_origin_name(s->found.origin));
    if (s->found.sha256[0] != '\0')
        out_printf(o, ", sha256 %.12s", s->found.sha256);
    text_fit(shown, sizeof shown, s->path, strlen(s->path), 200);
    out_printf(o, "\n  Path         %s\n", shown);
    text_fit(shown, sizeof shown, s->found.mmproj, strlen(s->found.mmproj), 200);
    if (shown[0] != '\0')
        out_printf(o, "  Vision       %s\n", shown);
}

static void show_print_facts(const show_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    show_print_place(s);
    show_print_model(s);
    const char *type = gguf_file_type(s->file.gguf);
    const char *most = s->file.n_formats > 0 ? s->file.formats[0].name : "nothing";
    out_printf(o, "  File         %s%s, %s, %" PRIu64 " tensors, %" PRIu64 " metadata entries%s\n",
               type != NULL ? "" : "mostly ", type != NULL ? type : most,
               text_bytes(a, s->file.files.bytes), gguf_n_tensors(s->file.gguf),
               gguf_n_kv(s->file.gguf), s->info.draft_head ? ", draft head" : "");
    show_parts_text(&s->file, o);
    if (s->on.model == NULL)
        return;
    out_printf(o, "  Context      %s tokens trained\n", text_count(a, s->info.context));
    out_printf(o, "  Vocabulary   %s tokens, %s rows\n", text_count(a, s->info.tokens),
               text_count(b, s->info.vocabulary));
    out_printf(o, "  Kernels      %s\n", mote_isa_name(s->info.isa));
}

static void show_print_memory_row(cli_out *o, const char *what, uint64_t bytes, const char *note)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    out_printf(o, "    %-15s  %8s  %17s%s%s\n", what, text_bytes(a, bytes), text_count(b, bytes),
               note[0] != '\0' ? "  " : "", note);
}

static void show_print_memory(const show_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], note[96];
    out_printf(o, "  Memory       context %s, %s, %s\n", text_count(a, s->options->context),
               text_counted(b, s->options->sessions, "session"), load_kv_name(s->options->kv));
    show_print_memory_row(o, "weights", s->memory.weights, "the file, mapped");
    if (s->info.experts > 0) {
        show_print_memory_row(o, "  every token", s->memory.weights - s->memory.experts,
                              "of these, used by every token");
        snprintf(note, sizeof note, "of these, %s per token",
                 text_bytes(a, s->info.expert_bytes / s->info.experts * s->info.experts_used));
        show_print_memory_row(o, "  experts", s->memory.experts, note);
    }
    show_print_memory_row(o, "model", s->memory.model, "");
    snprintf(note, sizeof note, "%s per token", text_bytes(a, s->token_bytes));
    show_print_memory_row(o, "KV cache", s->memory.kv_cache, note);
    snprintf(note, sizeof note, "%s per session", text_bytes(a, s->session_bytes));
    show_print_memory_row(o, "recurrent state", s->memory.recurrent_state, note);
    show_print_memory_row(o, "scratch", s->memory.scratch, "");
    show_print_memory_row(o, "total", s->memory.total, "");
    if (s->draft_bytes > 0)
        show_print_memory_row(o, "drafts", s->draft_bytes, "in addition, if the MTP head is used");
}

static void show_print_text(const show_state *s)
{
    cli_out *o = s->call->out;
    show_print_facts(s);
    if (s->on.model != NULL) {
        show_chat_text(s->on.model, o);
        show_print_memory(s);
    }
    show_formats_text(&s->file, o);
    if (s->options->tensors)
        show_tensors_text(&s->file, o);
    if (s->options->metadata)
        show_metadata_text(&s->file, o, term_columns(STDOUT_FILENO));
}

static void show_write_model(strbuf *j, const mote_model_info *info)
{
    jw_open(j, '{');
    jw_key_uint(j, "parameters", info->parameters);
    jw_key_uint(j, "experts", info->experts);
    jw_key_uint(j, "experts_used", info->experts_used);
    jw_key_uint(j, "layers", info->layers);
    jw_key_uint(j, "attention_layers", info->attention_layers);
    jw_key_uint(j, "context", info->context);
    jw_key_uint(j, "vocabulary", info->vocabulary);
    jw_key_uint(j, "tokens", info->tokens);
    jw_key_bool(j, "tied", info->tied);
    jw_key_bool(j, "draft_head", info->draft_head);
    jw_key_text(j, "isa", mote_isa_name(info->isa));
    jw_key_uint(j, "private_bytes", info->private_bytes);
    jw_close(j, '}');
}

static void show_write_memory(strbuf *j, const show_state *s)
{
    jw_open(j, '{');
    jw_key_uint(j, "context", s->options->context);
    jw_key_uint(j, "sessions", s->options->sessions);
    jw_key_text(j, "kv", load_kv_name(s->options->kv));
    jw_key_uint(j, "weights", s->memory.weights);
    jw_key_uint(j, "experts", s->memory.experts);
    jw_key_uint(j, "model", s->memory.model);
    jw_key_uint(j, "kv_cache", s->memory.kv_cache);
    jw_key_uint(j, "recurrent_state", s->memory.recurrent_state);
    jw_key_uint(j, "scratch", s->memory.scratch);
    jw_key_uint(j, "total", s->memory.total);
    jw_key_uint(j, "drafts", s->draft_bytes);
    jw_key_uint(j, "bytes_per_token", s->token_bytes);
    jw_key_uint(j, "bytes_per_session", s->session_bytes);
    jw_close(j, '}');
}

/* The vision encoder that mote run would use; null: none, or the choice is ambiguous. */
static void show_write_mmproj(const show_state *s, strbuf *j)
{
    char path[MMPROJ_PATH_BYTES] = "", why[MMPROJ_WHY_BYTES];
    const bool found = find_mmproj(path, why, &s->found, NULL);
    jw_key_text(j, "mmproj", found && path[0] != '\0' ? path : NULL);
}

/* The file with the MTP head that is used; null: none, or the model has one inside. */
static void show_write_mtp(const show_state *s, strbuf *j)
{
    char path[MTP_PATH_BYTES] = "";
    if (s->on.model != NULL && s->info.draft_file_bytes > 0)
        find_mtp(path, &s->found);
    jw_key_text(j, "mtp", path[0] != '\0' ? path : NULL);
}

/* "model", "chat" and "memory" are null for a file that mote cannot run. */
static int show_write_json(const show_state *s)
{
    str name = show_file_text(&s->file, "general.name");
    str architecture = show_file_text(&s->file, "general.architecture");
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "file", s->path);
    jw_key_text(&j, "installed_as", s->found.origin != STORE_PATH ? s->found.name : NULL);
    jw_key_text(&j, "sha256", s->found.sha256[0] != '\0' ? s->found.sha256 : NULL);
    show_write_mmproj(s, &j);
    show_write_mtp(s, &j);
    jw_key_uint(&j, "file_bytes", s->file.files.bytes);
    show_parts_json(&s->file, &j);
    jw_key_text(&j, "file_type", gguf_file_type(s->file.gguf));
    jw_key_str(&j, "name", (str){name.p, name.n});
    jw_key_str(&j, "architecture", (str){architecture.p, architecture.n});
    jw_key_uint(&j, "n_tensors", gguf_n_tensors(s->file.gguf));
    jw_key_uint(&j, "n_metadata", gguf_n_kv(s->file.gguf));
    jw_key(&j, "model");
    if (s->on.model != NULL)
        show_write_model(&j, &s->info);
    else
        jw_null(&j);
    if (s->on.model != NULL) {
        show_chat_json(s->on.model, &j);
    } else {
        jw_key_null(&j, "chat");
    }
    jw_key(&j, "memory");
    if (s->on.model != NULL)
        show_write_memory(&j, s);
    else
        jw_null(&j);
    show_formats_json(&s->file, &j);
    if (s->options->tensors)
        show_tensors_json(&s->file, &j, s->call->out);
    if (s->options->metadata)
        show_metadata_json(&s->file, &j, s->call->out);
    jw_close(&j, '}');
    return out_json(s->call->out, &j);
}

static int show_file_and_model(show_state *s)
{
    mote_error err;
    if (show_file_open(&s->file, s->path, &err) != MOTE_OK)
        return load_failed(s->path, &err);
    if (load_open(&s->on, &s->found, NULL, MOTE_ISA_BEST, &s->why_not) == MOTE_OK) {
        mote_model_describe(s->on.model, &s->info);
        if (show_plan_memory(s, &err) != MOTE_OK)
            return msg_error(&err);
    }
    int code = CLI_DONE;
    if (s->call->common.json)
        code = show_write_json(s);
    else
        show_print_text(s);
    out_flush(s->call->out);
    if (code != CLI_DONE)
        return code;
    return s->on.model != NULL ? CLI_DONE : load_failed(s->path, &s->why_not);
}

static int show_run(const cli_call *call)
{
    show_state s = {.call = call, .options = call->options};
    s.path = s.found.path;
    int code = find_model(&s.found, call->words[0]);
    if (code == CLI_DONE)
        code = show_file_and_model(&s);
    load_close(&s.on);
    show_file_close(&s.file);
    return code;
}

const cli_command cmd_show = {
    .name = "show",
    .section = "Models",
    .summary = "describe a model and the memory it needs",
    .usage = "MODEL",
    .arguments = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(show_options),
    .about =
        "Describes a model: architecture, tensor formats, chat template, presets, and the memory "
        "needed to run it.\n" FIND_MODEL_HELP,
    .examples = "mote show qwen3.5:4b\n"
                "mote show model.gguf -c 65536 --sessions 4\n"
                "mote show model.gguf --tensors --json",
    .run = show_run,
};
