/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_serve.c - `mote serve`: opens the models, finds the API keys, runs the server.
 *
 * API keys come from a file or the environment, never from a flag: every user of the machine can
 * read the command line of a process.
 */
#include "base/str.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/ram.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/load/media_files.h"
#include "cli/serve/serve_catalog.h"
#include "cli/serve/serve_flags.h"
#include "cli/serve/serve_pull.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "disk_cache/disk_cache.h"
#include "media/sandbox/decoder.h"
#include "server/auth/api_keys.h"
#include "server/models/model_match.h"
#include "server/models/served_model.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- models ---- */

/* The models and their vision encoders. */
typedef struct serve_models {
    const char *const *arguments; /* [n], from the command line */
    size_t n;                     /* 0: the installed models, on request */
    const char *name;             /* --name, for a single model; NULL: from the file name */
    const char *mmproj;           /* --mmproj: a file for a single model, or "none"; NULL: search */
    mote_isa isa;

    found_model *found; /* [n] */
    serve_catalog catalog;
    serve_pull pull;
    loaded on[SERVER_MAX_MODELS];
    struct fork_server *fork_server;
    ram ram; /* before the models are opened */
} serve_models;

/* Requests select a model by name, so names must be unique. */
static int models_check_names(const serve_models *m)
{
    if (m->n != 1 && m->name != NULL)
        return msg_usage("--name needs a single model; with several, names come from the files");
    if (m->n != 1 && m->mmproj != NULL && strcmp(m->mmproj, "none") != 0)
        return msg_usage(
            "--mmproj FILE needs a single model; with several, each uses the mmproj file in "
            "its directory (--mmproj none: text only)");
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < i; k++)
            if (model_names_clash(m->found[i].name, m->found[k].name))
                return msg_usage("%s and %s would both be named %s; rename one of the files",
                                 m->arguments[k], m->arguments[i], m->found[i].name);
    return CLI_DONE;
}

static int models_find(serve_models *m)
{
    int code = CLI_DONE;
    m->found = mem_new(m->n + 1, sizeof *m->found);
    if (m->found == NULL)
        return msg_no_memory("the models");
    for (size_t i = 0; i < m->n && code == CLI_DONE; i++) {
        const char *aliased = config_alias(m->catalog.config, m->arguments[i]);
        code = find_model(&m->found[i], aliased != NULL ? aliased : m->arguments[i]);
        if (aliased != NULL)
            snprintf(m->found[i].name, sizeof m->found[i].name, "%s", m->arguments[i]);
    }
    return code;
}

static int models_find_mmproj(const serve_models *m, size_t i, char mmproj[MMPROJ_PATH_BYTES])
{
    char why[MMPROJ_WHY_BYTES];
    const bool found = find_mmproj(mmproj, why, &m->found[i], m->mmproj);
    if (!found && m->n > 1)
        return msg_usage(
            "%s: %s (with several models, only --mmproj none is possible: put each model "
            "and its mmproj file into a directory)",
            m->arguments[i], why);
    if (!found)
        return msg_usage("%s", why);
    if (why[0] != '\0' && m->n > 1)
        msg_note("%s: %s", m->arguments[i], why);
    else if (why[0] != '\0')
        msg_note("%s", why);
    return CLI_DONE;
}

static int models_open_one(serve_models *m, size_t i)
{
    char mmproj[MMPROJ_PATH_BYTES];
    mote_error err;
    int code = models_find_mmproj(m, i, mmproj);
    if (code != CLI_DONE)
        return code;
    const bool vision = mmproj[0] != '\0';
    if (vision && m->fork_server == NULL && fork_server_start(&m->fork_server, &err) != MOTE_OK)
        return msg_error(&err);
    code = load_model(&m->on[i], m->found[i].path, vision ? mmproj : NULL, m->isa);
    if (code != CLI_DONE && vision && m->n > 1)
        msg_note(
            "%s was opened with the vision encoder %s of its directory: put each model and its "
            "mmproj file into a directory, or use --mmproj none",
            m->arguments[i], mmproj);
    return code;
}

/* Bytes of all mapped files. */
static uint64_t models_mapped_bytes(const serve_models *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n; i++) {
        mote_model_info info;
        mote_model_describe(m->on[i].model, &info);
        sum += info.file_bytes + info.vision_file_bytes;
    }
    return sum;
}

/* Limits the plan to --memory, or else to the memory that is available. Called before the files are
 * read: a model that does not fit is refused at once. */
static int models_limit_memory(const serve_models *m, sched_options *o, uint64_t given)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    const char *source;
    const uint64_t mapped = models_mapped_bytes(m);
    const uint64_t budget = ram_budget(&m->ram, mapped, &source);
    if (given > 0 && given > budget)
        msg_note("--memory %s exceeds the %s available (%s); the machine may run out of memory",
                 text_bytes(a, given), text_bytes(b, budget), source);
    o->memory = given;
    if (given > 0 || budget == UINT64_MAX)
        return CLI_DONE;
    o->memory = budget;
    o->memory_source = source;
    if (mapped < budget)
        return CLI_DONE;
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                    "the weights need %s, %s are available (%s); use a smaller model, or set "
                    "--memory to try anyway",
                    text_bytes(a, mapped), text_bytes(b, budget), source);
}

/* Opens all models and enters them and the decoder process into the options. */
static int serve_models_open(serve_models *m, server_options *o, uint64_t memory)
{
    ram_find(&m->ram);
    int code = models_find(m);
    if (code == CLI_DONE)
        code = models_check_names(m);
    for (size_t i = 0; i < m->n && code == CLI_DONE; i++) {
        code = models_open_one(m, i);
        o->models[o->n_models++] =
            (model_to_serve){.model = m->on[i].model,
                             .path = m->found[i].path,
                             .name = m->name != NULL ? m->name : m->found[i].name};
    }
    o->fork_server = m->fork_server;
    if (code == CLI_DONE)
        code = models_limit_memory(m, &o->sched, memory);
    for (size_t i = 0; i < m->n && code == CLI_DONE; i++)
        code = load_prefault(&m->on[i], UINT64_MAX);
    return code;
}

/* Enters the installed models into the options; none is opened. `pull`: --allow-pull. */
static int serve_models_open_catalog(serve_models *m, server_options *o, uint64_t memory, bool pull)
{
    mote_error err;
    const char *source = NULL;
    ram_find(&m->ram);
    int code = models_check_names(m);
    if (code == CLI_DONE && pull)
        code = serve_pull_open(&m->pull, &o->pull);
    if (code == CLI_DONE)
        code = serve_catalog_open(&m->catalog);
    if (code != CLI_DONE)
        return code;
    const uint64_t budget = ram_budget(&m->ram, 0, &source);
    /* With a source, a plan has its default size instead of all of the memory. */
    o->sched.memory_source = memory > 0 ? "--memory" : source;
    o->sched.memory = memory > 0 ? memory : budget < UINT64_MAX ? budget : 0;
    o->catalog = (model_catalog){.list = serve_catalog_list, .with = &m->catalog};
    o->isa = m->isa;
    o->directories = (const char *const *)m->catalog.directories;
    o->n_directories = m->catalog.n;
    const bool images = m->mmproj == NULL;
    if (images && fork_server_start(&m->fork_server, &err) != MOTE_OK)
        return msg_error(&err);
    o->fork_server = m->fork_server;
    return CLI_DONE;
}

static void serve_models_close(serve_models *m)
{
    mem_free(m->found);
    serve_catalog_close(&m->catalog);
    serve_pull_close(&m->pull);
    for (size_t i = 0; i < m->n; i++)
        load_close(&m->on[i]);
    fork_server_stop(m->fork_server);
}

/* ---- keys ---- */

/* A readable key file is acceptable if it holds hashes; a writable one never is. */
static void keys_warn_writable(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && info.st_mode & (S_IWGRP | S_IWOTH))
        msg_note("other users can write to %s and add keys (chmod go-w %s)", path, path);
}

/* Reads the API keys from --api-key-file or MOTE_API_KEY into `text`. Sets o->key_file too: the
 * server reads the file again when it changes, unless it is a pipe. */
static int keys_find(strbuf *text, const serve_options *f, server_options *o)
{
    static const char all_scopes[] = " infer,metrics,admin";
    const char *key = getenv("MOTE_API_KEY");
    int code = CLI_DONE;
    if (f->key_file != NULL) {
        code = input_read(text, f->key_file);
        if (code == CLI_DONE)
            keys_warn_writable(f->key_file);
        o->key_file = strcmp(f->key_file, "-") == 0 ? "/dev/stdin" : f->key_file;
    } else if (key != NULL && key[0] != '\0') {
        if (strpbrk(key, " \t\r\n") != NULL || strlen(key) > 512)
            return msg_usage("MOTE_API_KEY must be one word of at most 512 bytes");
        if (!text_add(text, key, strlen(key)) || !text_add(text, all_scopes, sizeof all_scopes - 1))
            return msg_no_memory("API keys");
    }
    o->keys = (str){text->p, text->n};
    return code;
}

static int keys_print_new(const cli_call *call)
{
    char key[API_KEY_BYTES], line[API_KEY_LINE_BYTES];
    mote_error err;
    if (api_keys_generate(key, line, call->n_words > 0 ? call->words[0] : NULL, &err) != MOTE_OK)
        return msg_error(&err);
    out_printf(call->out, "%s\n", key);
    msg_note("store the key now, it is not shown again; its line for --api-key-file:");
    msg_note("%s", line);
    return CLI_DONE;
}

/* ---- start-up messages ---- */

/* `fixed`: the user set --kv-tokens. */
static void serve_announce_model(const served_model *m, double seconds, bool fixed)
{
    const sched_options *used = sched_settings(served_model_sched(m));
    mote_model_info info;
    mote_memory memory;
    mote_model_describe(served_model_weights(m), &info);
    sched_memory(served_model_sched(m), &memory);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    msg_note("mote %s  %s  %s mapped, ready in %s  %s, %s", mote_version(), served_model_name(m),
             text_bytes(a, memory.weights), text_seconds(b, seconds), mote_isa_name(info.isa),
             text_counted(c, used->threads, "thread"));
    msg_note("memory %s  context %s  parallel %u  queue %u%s",
             text_bytes(a, served_model_memory(m)), text_count(b, used->context), used->parallel,
             used->queue, served_model_vision(m) != NULL ? "  images" : "");
    if (used->memory_source != NULL && used->kv_tokens < SCHED_DEFAULT_KV_TOKENS && !fixed)
        msg_note("KV cache reduced from %s to %s tokens: %s available (%s)",
                 text_count(a, SCHED_DEFAULT_KV_TOKENS), text_count(b, used->kv_tokens),
                 text_bytes(c, used->memory), used->memory_source);
}

static void serve_announce_sandbox(const server_sandbox *s, server_sandbox_mode mode)
{
    char landlock[32] = "";
    if (s->landlock > 0)
        snprintf(landlock, sizeof landlock, "%sLandlock %d", s->seccomp ? ", " : "", s->landlock);
    if (mode == SERVER_SANDBOX_OFF)
        msg_note("sandbox off (--sandbox off)");
    else
        msg_note("sandbox %s: %s%s%s%s%s", server_sandbox_name(s), s->seccomp ? "seccomp" : "",
                 landlock, s->reason[0] != '\0' ? " (" : "", s->reason,
                 s->reason[0] != '\0' ? ")" : "");
}

static void serve_announce_catalog(const server *s)
{
    model_registry_stats stats;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    server_registry_stats(s, &stats);
    msg_note("mote %s  %s, loaded on request  memory %s", mote_version(),
             text_counted(a, stats.installed, "installed model"),
             stats.limit > 0 ? text_bytes(b, stats.limit) : "without limit");
    if (stats.installed == 0)
        msg_note("no model is installed (try: mote pull qwen3.5:4b)");
    if (server_settings(s)->pull.start != NULL && server_n_keys(s) > 0)
        msg_note("clients with the scope admin can pull models (--allow-pull)");
    else if (server_settings(s)->pull.start != NULL)
        msg_note("--allow-pull: no client can pull, because that needs an API key with the scope "
                 "admin: set MOTE_API_KEY, or write a key file (mote serve --new-key) and use "
                 "--api-key-file");
}

static void serve_announce(const server *s, double seconds)
{
    const server_options *o = server_settings(s);
    char text[TEXT_NUMBER_BYTES];
    uint64_t memory = 0;
    if (o->catalog.list != NULL)
        serve_announce_catalog(s);
    for (size_t i = 0; i < server_n_models(s); i++) {
        serve_announce_model(server_model(s, i), seconds, o->sched.kv_tokens > 0);
        memory += served_model_memory(server_model(s, i));
    }
    if (server_n_models(s) > 1)
        msg_note("%zu models, %s in total; unknown model names use %s", server_n_models(s),
                 text_bytes(text, memory), served_model_name(server_model(s, 0)));
    serve_announce_sandbox(server_sandbox_state(s), o->sandbox);
    for (size_t i = 0; i < server_n_addresses(s); i++) {
        const char *address = server_address(s, i);
        bool local = strncmp(address, "unix:", 5) == 0;
        msg_note("listening on %s%s  %s", local ? "" : "http://", address,
                 server_n_keys(s) > 0 ? text_counted(text, server_n_keys(s), "API key")
                 : o->unauthenticated ? "no API key, open to all clients"
                                      : "no API key, localhost only");
    }
}

/* ---- running ---- */

static void serve_stop(void *with)
{
    server_stop(with);
}

static int serve_with(const server_options *o, double began)
{
    server *s;
    mote_error err;
    if (server_new(&s, o, &err) != MOTE_OK)
        return err.status == MOTE_E_ARG ? msg_usage("%s", err.text) : msg_error(&err);
    interrupt_set_handler(serve_stop, s);
    int code = CLI_DONE;
    if (interrupt_pending()) {
        code = interrupt_exit_code();
    } else {
        serve_announce(s, os_now() - began);
        if (server_run(s, &err) != MOTE_OK)
            code = msg_error(&err);
        else
            msg_note("stopped");
    }
    interrupt_set_handler(NULL, NULL);
    server_free(s);
    return code;
}

/* o->defaults.system points into *text, which is terminated. */
static int serve_read_system(strbuf *text, const char *given, server_options *o)
{
    if (given == NULL || given[0] == '\0')
        return CLI_DONE;
    int code = input_text_or_file(text, given);
    if (code == CLI_DONE && !text_add(text, "", 1))
        return input_no_memory();
    if (code == CLI_DONE && strlen(text->p) + 1 < text->n)
        return msg_usage("--system contains a zero byte");
    o->defaults.system = code == CLI_DONE ? text->p : NULL;
    return code;
}

/* The directory must exist before the sandbox is entered. Without it prefixes stay in memory. */
static void serve_open_disk_cache(char *directory, size_t room, server_options *o)
{
    disk_cache *cache;
    mote_error err;
    if (o->sched.disk_bytes == 0 || !disk_cache_directory(directory, room, getenv("MOTE_CACHE"),
                                                          getenv("XDG_CACHE_HOME"), getenv("HOME")))
        return;
    if (disk_cache_open(&cache, directory, o->sched.disk_bytes, false, &err) != MOTE_OK) {
        msg_note("disk cache off: %s", err.text);
        return;
    }
    disk_cache_close(cache);
    o->sched.disk_directory = directory;
}

enum { CATALOG_KEEP_ALIVE = 300 }; /* seconds, without models on the command line */

static int serve_run(const cli_call *call)
{
    const serve_options *f = call->options;
    if (f->new_key)
        return keys_print_new(call);
    if (f->allow_pull && call->n_words > 0)
        return msg_usage("--allow-pull is for installed models: start mote serve without MODEL");
    double began = os_now();
    serve_models models = {.arguments = call->words,
                           .n = call->n_words,
                           .name = f->name,
                           .mmproj = f->mmproj,
                           .catalog = {.config = call->config},
                           .isa = (mote_isa)f->load.isa};
    strbuf keys = {0}, system = {0};
    char disk[1024];
    server_options *o = mem_new(1, sizeof *o);
    if (o == NULL)
        return msg_no_memory("the options of the server");
    think_flag_read(f->think, &o->defaults.think, &o->defaults.think_budget);
    o->keep_alive = call->n_words > 0 ? -1 : CATALOG_KEEP_ALIVE;
    if (f->keep_alive != NULL)
        str_duration(f->keep_alive, &o->keep_alive);
    int code = serve_read_system(&system, f->system, o);
    if (code == CLI_DONE)
        code = keys_find(&keys, f, o);
    if (code == CLI_DONE)
        code = models.n > 0 ? serve_models_open(&models, o, f->load.memory)
                            : serve_models_open_catalog(&models, o, f->load.memory, f->allow_pull);
    if (code == CLI_DONE) {
        serve_flags_apply(o, f);
        serve_open_disk_cache(disk, sizeof disk, o);
        o->defaults.strict = call->common.strict;
        code = serve_with(o, began);
    }
    serve_models_close(&models);
    strbuf_fini(&keys);
    strbuf_fini(&system);
    mem_free(o);
    return code;
}

const cli_command cmd_serve = {
    .name = "serve",
    .section = "Server",
    .summary = "serve models over HTTP",
    .usage = "[MODEL...]",
    .arguments = "MODEL...",
    .min_words = 0,
    .max_words = SERVER_MAX_MODELS,
    .groups = serve_flag_groups,
    .n_groups = SERVE_N_FLAG_GROUPS,
    .options_bytes = sizeof(serve_options),
    .about =
        "Serves models over HTTP with the OpenAI, Anthropic and Ollama APIs. Requests select a "
        "model by name. With MODEL, the models are loaded at the start, and unknown names use the "
        "first one. Without, every installed model is served: it is loaded when a request needs "
        "it, and unloaded when it is idle (--keep-alive) or another model needs the memory "
        "(--memory), least recently used first.\n"
        "Listens on localhost unless --listen is given; other addresses require an API key. Ctrl-C "
        "or "
        "SIGTERM stops the server after running requests end.",
    .examples = "mote serve\n"
                "mote serve model.gguf\n"
                "mote serve model.gguf --listen 127.0.0.1:11434 --parallel 4\n"
                "mote serve small.gguf large.gguf --memory 12GB\n"
                "mote serve model.gguf --listen 0.0.0.0:11435 --api-key-file keys --allow-host box",
    .run = serve_run,
};
