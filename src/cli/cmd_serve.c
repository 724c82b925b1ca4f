/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_serve.c - `mote serve`: a model at an address, for programs that speak HTTP.
 *
 * Flags to options, the lines that say what was started and where, and the keys: they come from a
 * file or the environment, never from the command line, where everybody on the machine can
 * read them.
 */
#include "base/mem.h"
#include "base/os.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/pictures.h"
#include "cli/say.h"
#include "cli/text.h"
#include "cli/think_flag.h"
#include "cli/tower.h"
#include "media/worker.h"
#include "server/server.h"
#include "server/sight.h"

#include <stdio.h>
#include <stdlib.h>
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
    uint64_t log;
    bool strict;
    bool no_ext;
    const char *think;
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
     .help = "one key a line: KEY or sha256:HEX, then its scopes: infer,metrics,admin; without "
             "a file MOTE_API_KEY is the one key, with all scopes"},
    {.name = "new-key",
     .kind = FLAG_SWITCH,
     .at = AT(new_key),
     .help = "print a new key and the line for the file, and end"},
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
     .help = "answers written at the same time"},
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
     .help = "for everything together, in 10^9 bytes"},
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
    {.name = "positions",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 256,
     .max = 1ull << 32,
     .shown = "32768, or what the memory has room for",
     .at = AT(positions),
     .help = "tokens of all conversations together"},
};

static const cli_flag picture_flags[] = {
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
     .max = MOTE_PICTURE_TOKENS,
     .initial = PICTURES_TOKENS,
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
     .help = "what the model is called in replies"},
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
    FLAG_GROUP("Pictures", picture_flags, 0),
    FLAG_GROUP("Requests", request_flags, 0),
    FLAG_GROUP("Replies and log", reply_flags, 0),
    /* Without the first one, the context, which means something else here. */
    {"Machine", load_flags + 1, LOAD_N_FLAGS - 1, offsetof(serve_options, load)},
};

enum { LOG_TEXT, LOG_JSON, LOG_OFF };

/* ---- keys ---- */

typedef struct serve_keys {
    input_text file;
    char from_environment[600];
} serve_keys;

/* Lines of the file become terminated texts in place. */
static int keys_of_file(serve_keys *k, const char *path, server_options *o)
{
    int code = input_read(&k->file, path);
    if (code != CLI_DONE)
        return code;
    if (!input_add(&k->file, "\n", 1))
        return say_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the keys");
    for (size_t at = 0; at < k->file.n;) {
        char *line = k->file.p + at;
        char *end = memchr(line, '\n', k->file.n - at);
        *end = '\0';
        if (end > line && end[-1] == '\r')
            end[-1] = '\0';
        at = (size_t)(end - k->file.p) + 1;
        line += strspn(line, " \t");
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (o->n_keys == SERVER_MAX_KEYS)
            return say_usage("%s has more than %d keys", path, SERVER_MAX_KEYS);
        o->keys[o->n_keys++] = line;
    }
    if (o->n_keys == 0)
        return say_usage("there is no key in %s (mote serve --new-key makes one)", path);
    return CLI_DONE;
}

static int find_keys(serve_keys *k, const serve_options *f, server_options *o)
{
    const char *key = getenv("MOTE_API_KEY");
    if (f->key_file != NULL)
        return keys_of_file(k, f->key_file, o);
    if (key == NULL || key[0] == '\0')
        return CLI_DONE;
    if (strpbrk(key, " \t\r\n") != NULL || strlen(key) > 512)
        return say_usage("MOTE_API_KEY is one word of at most 512 bytes");
    snprintf(k->from_environment, sizeof k->from_environment, "%s infer,metrics,admin", key);
    o->keys[o->n_keys++] = k->from_environment;
    return CLI_DONE;
}

static int print_new_key(const cli_call *call)
{
    char key[SERVER_KEY_BYTES], line[SERVER_KEY_LINE_BYTES];
    mote_error err;
    if (server_new_key(key, line, &err) != MOTE_OK)
        return say_error(&err);
    out_printf(call->out, "%s\n", key);
    say_note("keep it, it is not shown again; the line for --api-key-file is");
    say_note("%s", line);
    return CLI_DONE;
}

/* ---- what was started ---- */

static void announce(const server *s, const mote_model *model, double seconds)
{
    const server_options *o = server_settings(s);
    const sched_options *at_work = sched_settings(server_sched(s));
    mote_model_info info;
    mote_memory memory;
    mote_model_describe(model, &info);
    sched_memory(server_sched(s), &memory);
    const uint64_t vision = server_sight(s) != NULL ? sight_memory(server_sight(s)) : 0;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], d[TEXT_NUMBER_BYTES];
    say_note("mote %s  %s  %s mapped, ready in %s  %s, %s", mote_version(), server_model_name(s),
             text_bytes(a, memory.weights), text_seconds(b, seconds), mote_isa_name(info.isa),
             text_counted(c, at_work->threads, "thread"));
    say_note("memory %s  context %s  parallel %u  queue %u%s", text_bytes(a, memory.total + vision),
             text_count(b, at_work->context), at_work->parallel, at_work->queue,
             vision > 0 ? "  pictures" : "");
    for (size_t i = 0; i < server_n_addresses(s); i++) {
        const char *address = server_address(s, i);
        bool local = strncmp(address, "unix:", 5) == 0;
        say_note("listening on %s%s  %s", local ? "" : "http://", address,
                 o->n_keys > 0        ? text_counted(d, o->n_keys, "key")
                 : o->unauthenticated ? "no key, for everybody who can reach it"
                                      : "no key, this machine only");
    }
}

/* ---- running ---- */

static void stop(void *with)
{
    server_stop(with);
}

static void fill(server_options *o, const serve_options *f, const mote_model *model,
                 const char *path)
{
    o->model = model;
    o->model_path = path;
    o->name = f->name;
    o->image_tokens = (uint32_t)f->image_tokens;
    o->sched.parallel = (uint32_t)f->parallel;
    o->sched.queue = (uint32_t)f->queue;
    o->sched.memory = (uint64_t)(f->memory * 1e9);
    o->sched.positions = f->positions;
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
        return err.status == MOTE_E_ARG ? say_usage("%s", err.text) : say_error(&err);
    interrupt_call(stop, s);
    int code = CLI_DONE;
    if (interrupt_came()) {
        code = interrupt_exit_code();
    } else {
        announce(s, o->model, os_now() - began);
        if (server_run(s, &err) != MOTE_OK)
            code = say_error(&err);
        else
            say_note("stopped");
    }
    interrupt_call(NULL, NULL);
    server_free(s);
    return code;
}

/* Pictures are decoded by a process that is forked while there is one thread. */
static int open_model(loaded *on, const serve_options *f, const char *path,
                      struct media_nursery **nursery)
{
    char tower[TOWER_PATH_BYTES], why[TOWER_WHY_BYTES];
    mote_error err;
    if (!tower_find(tower, why, path, f->mmproj))
        return say_usage("%s", why);
    if (why[0] != '\0')
        say_note("%s", why);
    if (tower[0] != '\0' && media_nursery_start(nursery, &err) != MOTE_OK)
        return say_error(&err);
    const int code = load_model(on, path, tower[0] != '\0' ? tower : NULL, (mote_isa)f->load.isa);
    return code == CLI_DONE ? load_warm(on) : code;
}

static int run(const cli_call *call)
{
    const serve_options *f = call->options;
    if (f->new_key)
        return print_new_key(call);
    if (call->n_words == 0)
        return say_usage("which model? mote serve FILE");
    double began = os_now();
    loaded on = {0};
    serve_keys keys = {0};
    server_options *o = mem_new(1, sizeof *o);
    if (o == NULL)
        return say_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for options");
    int code = think_flag_read(f->think, &o->think, &o->think_budget);
    if (code == CLI_DONE)
        code = find_keys(&keys, f, o);
    struct media_nursery *nursery = NULL;
    if (code == CLI_DONE)
        code = open_model(&on, f, call->words[0], &nursery);
    if (code == CLI_DONE) {
        o->nursery = nursery;
        fill(o, f, on.model, call->words[0]);
        code = serve(o, began);
    }
    load_close(&on);
    media_nursery_stop(nursery);
    input_text_free(&keys.file);
    mem_free(o);
    return code;
}

const cli_command cmd_serve = {
    .name = "serve",
    .section = "Server",
    .summary = "answer programs over HTTP",
    .usage = "FILE",
    .min_words = 0,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(serve_options),
    .about =
        "Serves the model in FILE to programs that speak the APIs of OpenAI, Anthropic or Ollama, "
        "many at once.\n"
        "Only this machine can reach it unless --listen says otherwise, and then a key is needed. "
        "Ctrl-C or SIGTERM lets running answers end.",
    .examples = "mote serve model.gguf\n"
                "mote serve model.gguf --listen 127.0.0.1:11434 --parallel 4\n"
                "mote serve model.gguf --listen 0.0.0.0:11435 --api-key-file keys --allow-host box",
    .run = run,
};
