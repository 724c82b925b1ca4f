/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_serve.c - `mote serve`: finds the API keys, opens the models, runs the server.
 *
 * API keys come from a file or the environment, never from a flag: every user of the machine can
 * read the command line of a process.
 */
#include "base/str.h"
#include "base/mem.h"
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/load/cache_cipher.h"
#include "cli/load/load.h"
#include "cli/serve/serve_flags.h"
#include "cli/serve/serve_models.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "disk_cache/disk_cache.h"
#include "server/auth/api_keys.h"
#include "server/models/served_model.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* What did not fit into the memory. `given`: the options of the user. */
static void serve_announce_reduced(const sched_options *used, const sched_options *given)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    const char *source = used->memory_source != NULL ? used->memory_source : "--memory";
    if (used->memory_source != NULL && used->kv_tokens < SCHED_DEFAULT_KV_TOKENS &&
        given->kv_tokens == 0)
        msg_note("KV cache reduced from %s to %s tokens: %s available (%s)",
                 text_count(a, SCHED_DEFAULT_KV_TOKENS), text_count(b, used->kv_tokens),
                 text_bytes(c, used->memory), source);
    if (used->spec == SPEC_OFF && given->spec == SPEC_AUTO)
        msg_note("no drafts (--spec off): %s available (%s)", text_bytes(c, used->memory), source);
}

static void serve_announce_model(const served_model *m, double seconds, const sched_options *given)
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
    serve_announce_reduced(used, given);
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
        serve_announce_model(server_model(s, i), seconds, &o->sched);
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

/* The directory must exist, and the key be read, before the sandbox is entered. Without a directory
 * prefixes stay in memory. */
static void serve_open_disk_cache(char *directory, size_t room, server_options *o)
{
    disk_cache *cache;
    mote_error err;
    if (o->sched.disk_bytes == 0 || !load_disk_directory(directory, room))
        return;
    if (disk_cache_open(&cache, directory, o->sched.disk_bytes, false, o->sched.disk_cipher,
                        &err) != MOTE_OK) {
        msg_note("disk cache off: %s", err.text);
        return;
    }
    disk_stats stats;
    disk_cache_read_stats(cache, &stats);
    disk_cache_close(cache);
    if (o->sched.disk_cipher != NULL && stats.plain > 0)
        msg_note("%llu records of the disk cache are not encrypted: they were written without "
                 "--cache-key (mote cache rm --all removes them)",
                 (unsigned long long)stats.plain);
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
                           .lora_files = &f->loras,
                           .catalog = {.config = call->config},
                           .isa = (mote_isa)f->load.isa};
    strbuf keys = {0}, system = {0};
    char disk[1024];
    disk_cipher *cipher = NULL;
    server_options *o = mem_new(1, sizeof *o);
    if (o == NULL)
        return msg_no_memory("the options of the server");
    think_flag_read(f->think, &o->defaults.think, &o->defaults.think_budget);
    o->keep_alive = call->n_words > 0 ? -1 : CATALOG_KEEP_ALIVE;
    if (f->keep_alive != NULL)
        str_duration(f->keep_alive, &o->keep_alive);
    int code = serve_read_system(&system, f->system, o);
    if (code == CLI_DONE && f->cache_disk > 0)
        code = cache_key_open(&cipher, f->cache_key);
    if (code == CLI_DONE)
        code = keys_find(&keys, f, o);
    if (code == CLI_DONE)
        code = models.n > 0 ? serve_models_open(&models, o, f->load.memory)
                            : serve_models_open_catalog(&models, o, f->load.memory, f->allow_pull);
    if (code == CLI_DONE) {
        serve_flags_apply(o, f);
        o->sched.disk_cipher = cipher;
        serve_open_disk_cache(disk, sizeof disk, o);
        o->defaults.strict = call->common.strict;
        code = serve_with(o, began);
    }
    serve_models_close(&models);
    cache_cipher_free(cipher);
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
