/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_serve.c - `mote serve`: models at an address, for programs that speak HTTP.
 *
 * Flags to options, the lines that say what was started and where, and the keys: they come from a
 * file or the environment, never from the command line, where everybody on the machine can
 * read them.
 */
#include "base/mem.h"
#include "base/os.h"
#include "cli/args/commands.h"
#include "cli/load/input.h"
#include "cli/term/interrupt.h"
#include "cli/load/load.h"
#include "cli/load/media_files.h"
#include "cli/term/output_messages.h"
#include "cli/serve/serve_models.h"
#include "cli/term/text.h"
#include "cli/load/think_flag.h"
#include "base/duration.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>

typedef struct serve_options {
    flag_list listen;
    const char *key_file;
    bool new_key;
    bool unauthenticated;
    flag_list hosts;
    flag_list origins;
    const char *name;
    uint64_t parallel;
    uint64_t queue;
    double memory;
    uint64_t positions;
    double drain;
    const char *keep_alive;
    uint64_t log;
    bool strict;
    bool no_ext;
    const char *think;
    uint64_t preset;
    const char *system;
    bool no_soft_switch;
    bool keep_volatile;
    flag_list limits;
    const char *mmproj;
    uint64_t image_tokens;
    load_options load;
} serve_options;

#define AT(member) offsetof(serve_options, member)

static const cli_flag door_flags[] = {
    {.name = "listen",
     .kind = FLAG_LIST,
     .value = "ADDRESS",
     .shown = "127.0.0.1:11435 and [::1]:11435",
     .env = "MOTE_HOST",
     .at = AT(listen),
     .help = "HOST:PORT, [V6]:PORT, unix:PATH or systemd; may be repeated"},
    {.name = "api-key-file",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .env = "MOTE_API_KEY_FILE",
     .at = AT(key_file),
     .help = "one key a line: KEY or sha256:HEX, then its scopes: infer,metrics,admin, then a name "
             "for logs and its limits rpm=N tpm=N par=N; without a file MOTE_API_KEY is the one "
             "key, with all scopes"},
    {.name = "new-key",
     .kind = FLAG_SWITCH,
     .at = AT(new_key),
     .help = "print a new key and the line for the file, and end; a NAME in place of the FILE is "
             "the key's"},
    {.name = "i-know-this-is-unauthenticated",
     .kind = FLAG_SWITCH,
     .at = AT(unauthenticated),
     .help = "listen beyond this machine without a key"},
    {.name = "allow-host",
     .kind = FLAG_LIST,
     .value = "NAME",
     .at = AT(hosts),
     .help = "a name that clients may use for this server; may be repeated"},
    {.name = "cors-origin",
     .kind = FLAG_LIST,
     .value = "ORIGIN",
     .at = AT(origins),
     .help = "pages of this origin may ask; may be repeated"},
    {.name = "limit",
     .kind = FLAG_LIST,
     .value = "NAME=VALUE",
     .at = AT(limits),
     .help = "another limit for strangers, such as connections=4096 or body-bytes=33554432; a "
             "wrong name lists all of them"},
    {.name = "drain",
     .kind = FLAG_NUMBER,
     .value = "SECONDS",
     .initial = "30",
     .min = 0.1,
     .max = 86400,
     .at = AT(drain),
     .help = "time for running answers after Ctrl-C or SIGTERM; a second one ends at once"},
};

static const cli_flag work_flags[] = {
    {.name = "parallel",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 256,
     .shown = "8",
     .env = "MOTE_PARALLEL",
     .at = AT(parallel),
     .help = "answers that a model writes at the same time"},
    {.name = "queue",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 65536,
     .shown = "256",
     .env = "MOTE_QUEUE",
     .at = AT(queue),
     .help = "requests that may wait; more are told to come again"},
    {.name = "memory",
     .kind = FLAG_NUMBER,
     .value = "GB",
     .min = 0.01,
     .max = 65536,
     .shown = "what the other numbers need",
     .env = "MOTE_MEMORY",
     .at = AT(memory),
     .help = "for everything together, whatever the number of models, in 10^9 bytes"},
    {.name = "context",
     .letter = 'c',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4194304,
     .shown = "the model's, as far as --positions goes",
     .env = "MOTE_CONTEXT",
     .at = AT(load.context),
     .help = "tokens of one conversation; a limit, not a reservation"},
    {.name = "keep-alive",
     .kind = FLAG_TEXT,
     .value = "DUR",
     .shown = "for ever",
     .env = "MOTE_KEEP_ALIVE",
     .at = AT(keep_alive),
     .help = "unload a model nobody asked for so long, as 5m or 1h30m; what is kept of its "
             "conversations goes with it"},
    {.name = "positions",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 256,
     .max = 1ull << 32,
     .shown = "32768, or what the memory has room for",
     .at = AT(positions),
     .help = "tokens of all conversations together"},
};

static const cli_flag image_flags[] = {
    {.name = "mmproj",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .shown = "mmproj*.gguf beside the model",
     .at = AT(mmproj),
     .help = "the model's picture tower; none: pictures are refused"},
    {.name = "image-tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = MOTE_IMAGE_MAX_TOKENS,
     .initial = IMAGES_TOKENS,
     .at = AT(image_tokens),
     .help = "of a picture at most, at 1,024 pixels each, unless a request says otherwise; with "
             "--limit picture-tokens=N whatever it says"},
};

static const cli_flag request_flags[] = {
    {.name = "think",
     .kind = FLAG_TEXT,
     .value = "HOW",
     .shown = "auto",
     .env = "MOTE_THINK",
     .at = AT(think),
     .help = "where a request does not say: " THINK_FLAG_HELP},
    {.name = "preset",
     .kind = FLAG_CHOICE,
     .value = "auto|general|coding|reasoning|vision",
     .initial = "auto",
     .at = AT(preset),
     .help = "where a request names none: sampling as the model's makers advise for this"},
    {.name = "system",
     .kind = FLAG_TEXT,
     .value = "TEXT|@FILE",
     .at = AT(system),
     .help = "what the model is told before a conversation that has no system message"},
    {.name = "no-soft-switch",
     .kind = FLAG_SWITCH,
     .at = AT(no_soft_switch),
     .help = "/think and /no_think at the end of a question are words like others"},
    {.name = "keep-volatile",
     .kind = FLAG_SWITCH,
     .at = AT(keep_volatile),
     .help = "leave a billing header in front of the system text, so that nothing is found again"},
    {.name = "strict", .kind = FLAG_SWITCH, .at = AT(strict), .help = "unknown fields are errors"},
};

static const cli_flag reply_flags[] = {
    {.name = "name",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .shown = "the file's",
     .at = AT(name),
     .help = "what the model is called in replies; of one model only"},
    {.name = "no-ext",
     .kind = FLAG_SWITCH,
     .at = AT(no_ext),
     .help = "replies without the `mote` object"},
    {.name = "log",
     .kind = FLAG_CHOICE,
     .value = "text|json|off",
     .initial = "text",
     .env = "MOTE_LOG",
     .at = AT(log),
     .help = "a line for each request on stderr; never with a prompt in it"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Who may ask", door_flags, 0),
    FLAG_GROUP("How much at once", work_flags, 0),
    FLAG_GROUP("Pictures", image_flags, 0),
    FLAG_GROUP("Requests", request_flags, 0),
    FLAG_GROUP("Replies and log", reply_flags, 0),
    /* Without the first one, the context, which means something else here. */
    {"Machine", load_flags + 1, LOAD_N_FLAGS - 1, offsetof(serve_options, load)},
};

enum { LOG_TEXT, LOG_JSON, LOG_OFF };

/* ---- keys ---- */

/* Hashes may be read, but whoever can write the file can let himself in. */
static void warn_of_writers(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && info.st_mode & (S_IWGRP | S_IWOTH))
        msg_note("others may write %s and so let themselves in (chmod go-w %s)", path, path);
}

/* The server looks at the file again, whatever its name; never at a pipe. */
static int find_keys(input_text *text, const serve_options *f, server_options *o)
{
    static const char all_scopes[] = " infer,metrics,admin";
    const char *key = getenv("MOTE_API_KEY");
    int code = CLI_DONE;
    if (f->key_file != NULL) {
        code = input_read(text, f->key_file);
        if (code == CLI_DONE)
            warn_of_writers(f->key_file);
        o->key_file = strcmp(f->key_file, "-") == 0 ? "/dev/stdin" : f->key_file;
    } else if (key != NULL && key[0] != '\0') {
        if (strpbrk(key, " \t\r\n") != NULL || strlen(key) > 512)
            return msg_usage("MOTE_API_KEY is one word of at most 512 bytes");
        if (!input_add(text, key, strlen(key)) ||
            !input_add(text, all_scopes, sizeof all_scopes - 1))
            return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                            "no memory for the keys");
    }
    o->keys = (str){text->p, text->n};
    return code;
}

static int print_new_key(const cli_call *call)
{
    char key[SERVER_KEY_BYTES], line[SERVER_KEY_LINE_BYTES];
    mote_error err;
    if (server_new_key(key, line, call->n_words > 0 ? call->words[0] : NULL, &err) != MOTE_OK)
        return msg_error(&err);
    out_printf(call->out, "%s\n", key);
    msg_note("keep it, it is not shown again; the line for --api-key-file is");
    msg_note("%s", line);
    return CLI_DONE;
}

/* ---- what was started ---- */

static void announce_model(const served_model *m, double seconds)
{
    const sched_options *at_work = sched_settings(served_model_sched(m));
    mote_model_info info;
    mote_memory memory;
    mote_model_describe(served_model_weights(m), &info);
    sched_memory(served_model_sched(m), &memory);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    msg_note("mote %s  %s  %s mapped, ready in %s  %s, %s", mote_version(), served_model_name(m),
             text_bytes(a, memory.weights), text_seconds(b, seconds), mote_isa_name(info.isa),
             text_counted(c, at_work->threads, "thread"));
    msg_note("memory %s  context %s  parallel %u  queue %u%s",
             text_bytes(a, served_model_memory(m)), text_count(b, at_work->context),
             at_work->parallel, at_work->queue, served_model_vision(m) != NULL ? "  pictures" : "");
}

static void announce(const server *s, double seconds)
{
    const server_options *o = server_settings(s);
    char text[TEXT_NUMBER_BYTES];
    uint64_t memory = 0;
    for (size_t i = 0; i < server_n_models(s); i++) {
        announce_model(server_model(s, i), seconds);
        memory += served_model_memory(server_model(s, i));
    }
    if (server_n_models(s) > 1)
        msg_note("%zu models take %s together; %s answers for names that none of them has",
                 server_n_models(s), text_bytes(text, memory),
                 served_model_name(server_model(s, 0)));
    for (size_t i = 0; i < server_n_addresses(s); i++) {
        const char *address = server_address(s, i);
        bool local = strncmp(address, "unix:", 5) == 0;
        msg_note("listening on %s%s  %s", local ? "" : "http://", address,
                 server_n_keys(s) > 0 ? text_counted(text, server_n_keys(s), "key")
                 : o->unauthenticated ? "no key, for everybody who can reach it"
                                      : "no key, this machine only");
    }
}

/* ---- running ---- */

static void stop(void *with)
{
    server_stop(with);
}

static void fill(server_options *o, const serve_options *f)
{
    o->image_tokens = (uint32_t)f->image_tokens;
    o->sched.parallel = (uint32_t)f->parallel;
    o->sched.queue = (uint32_t)f->queue;
    o->sched.memory = (uint64_t)(f->memory * 1e9);
    o->sched.kv_tokens = f->positions;
    o->sched.context = f->load.context;
    o->sched.threads = (uint32_t)f->load.threads;
    o->sched.kv = (mote_kv)f->load.kv;
    o->sched.yarn = (float)f->load.yarn;
    o->sched.pin = (mote_pin)f->load.pin;
    for (size_t i = 0; i < f->listen.n; i++)
        o->listen[o->n_listen++] = f->listen.items[i];
    for (size_t i = 0; i < f->hosts.n; i++)
        o->hosts[o->n_hosts++] = f->hosts.items[i];
    for (size_t i = 0; i < f->origins.n; i++)
        o->origins[o->n_origins++] = f->origins.items[i];
    for (size_t i = 0; i < f->limits.n; i++)
        o->limits[o->n_limits++] = f->limits.items[i];
    o->unauthenticated = f->unauthenticated;
    o->strict = f->strict;
    o->no_ext = f->no_ext;
    o->preset = (uint32_t)f->preset;
    o->no_soft_switch = f->no_soft_switch;
    o->keep_volatile = f->keep_volatile;
    o->log_json = f->log == LOG_JSON;
    o->log_level = f->log == LOG_OFF ? 0 : 1;
    o->drain_seconds = f->drain;
}

static int serve(const server_options *o, double began)
{
    server *s;
    mote_error err;
    if (server_new(&s, o, &err) != MOTE_OK)
        return err.status == MOTE_E_ARG ? msg_usage("%s", err.text) : msg_error(&err);
    interrupt_call(stop, s);
    int code = CLI_DONE;
    if (interrupt_came()) {
        code = interrupt_exit_code();
    } else {
        announce(s, os_now() - began);
        if (server_run(s, &err) != MOTE_OK)
            code = msg_error(&err);
        else
            msg_note("stopped");
    }
    interrupt_call(NULL, NULL);
    server_free(s);
    return code;
}

/* *text keeps it, with a zero behind. */
static int read_system(input_text *text, const char *given, server_options *o)
{
    if (given == NULL || given[0] == '\0')
        return CLI_DONE;
    int code = input_text_or_file(text, given);
    if (code == CLI_DONE && !input_add(text, "", 1))
        return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for a text");
    if (code == CLI_DONE && strlen(text->p) + 1 < text->n)
        return msg_usage("--system has a zero byte in it");
    o->system = code == CLI_DONE ? text->p : NULL;
    return code;
}

static int run(const cli_call *call)
{
    const serve_options *f = call->options;
    if (f->new_key)
        return print_new_key(call);
    if (call->n_words == 0)
        return msg_usage("which model? mote serve FILE...");
    double began = os_now();
    serve_models models = {.paths = call->words,
                           .n = call->n_words,
                           .name = f->name,
                           .mmproj = f->mmproj,
                           .isa = (mote_isa)f->load.isa};
    input_text keys = {0}, system = {0};
    server_options *o = mem_new(1, sizeof *o);
    if (o == NULL)
        return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for options");
    int code = think_flag_read(f->think, &o->think, &o->think_budget);
    o->keep_alive = -1;
    if (code == CLI_DONE && f->keep_alive != NULL && !duration_read(f->keep_alive, &o->keep_alive))
        code = msg_usage("--keep-alive takes a time, as 90s, 5m or 1h30m, or -1; not '%s'",
                         f->keep_alive);
    if (code == CLI_DONE)
        code = read_system(&system, f->system, o);
    if (code == CLI_DONE)
        code = find_keys(&keys, f, o);
    if (code == CLI_DONE)
        code = serve_models_open(&models, o);
    if (code == CLI_DONE) {
        fill(o, f);
        code = serve(o, began);
    }
    serve_models_close(&models);
    input_text_free(&keys);
    input_text_free(&system);
    mem_free(o);
    return code;
}

const cli_command cmd_serve = {
    .name = "serve",
    .section = "Server",
    .summary = "answer programs over HTTP",
    .usage = "FILE...",
    .min_words = 0,
    .max_words = SERVER_MAX_MODELS,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(serve_options),
    .about =
        "Serves the model in FILE, or several, to programs that speak the APIs of OpenAI, "
        "Anthropic "
        "or Ollama, many at once. Requests choose a model by name; the first answers the rest.\n"
        "Only this machine can reach it unless --listen says otherwise, and then a key is needed. "
        "Ctrl-C or SIGTERM lets running answers end.",
    .examples = "mote serve model.gguf\n"
                "mote serve model.gguf --listen 127.0.0.1:11434 --parallel 4\n"
                "mote serve small.gguf large.gguf --memory 12\n"
                "mote serve model.gguf --listen 0.0.0.0:11435 --api-key-file keys --allow-host box",
    .run = run,
};
