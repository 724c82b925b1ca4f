/* SPDX-License-Identifier: Apache-2.0 */
/* serve_flags.c - implements serve_flags.h. */
#include "cli/serve/serve_flags.h"

#include "base/str.h"
#include "cli/load/cache_cipher.h"
#include "cli/load/media_files.h"

#include <stddef.h>

#define AT(member) offsetof(serve_options, member)

static const cli_flag access_flags[] = {
    {.name = "listen",
     .kind = FLAG_LIST,
     .value = "ADDRESS",
     .shown = "127.0.0.1:11435 and [::1]:11435",
     .env = "MOTE_HOST",
     .at = AT(listen),
     .help = "HOST:PORT, [IPV6]:PORT, unix:PATH or systemd; repeatable"},
    {.name = "api-key-file",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .env = "MOTE_API_KEY_FILE",
     .at = AT(key_file),
     .help =
         "one API key per line: KEY or sha256:HEX, then its scopes (infer,metrics,admin), a name "
         "for logs, and its limits rpm=N tpm=N par=N. Without a file, MOTE_API_KEY is the only "
         "key, with all scopes"},
    {.name = "new-key",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(new_key),
     .help = "print a new key and its line for the key file, and exit; an argument is the name of "
             "the key"},
    {.name = "i-know-this-is-unauthenticated",
     .kind = FLAG_SWITCH,
     .at = AT(unauthenticated),
     .help = "allow other addresses than localhost without an API key"},
    {.name = "sandbox",
     .kind = FLAG_CHOICE,
     .value = "on|require|off",
     .initial = "on",
     .at = AT(sandbox),
     .help = "limit files (Landlock) and system calls (seccomp) of the server after its start; on: "
             "as far as the kernel allows, require: do not start otherwise"},
    {.name = "allow-pull",
     .kind = FLAG_SWITCH,
     .at = AT(allow_pull),
     .help = "POST /api/pull downloads models, for clients with the scope admin; without MODEL. "
             "Variables as for mote pull: HF_TOKEN, HF_ENDPOINT, HF_HOME ..."},
    {.name = "files",
     .kind = FLAG_TEXT,
     .value = "DIR",
     .shown = "none: /v1/files and /v1/batches reply with 501",
     .at = AT(files),
     .help = "store files of /v1/files and batches of /v1/batches in this directory, which is "
             "created with mode 0700"},
    {.name = "allow-host",
     .kind = FLAG_LIST,
     .value = "NAME",
     .at = AT(hosts),
     .help = "accept this name in the Host header; repeatable"},
    {.name = "cors-origin",
     .kind = FLAG_LIST,
     .value = "ORIGIN",
     .at = AT(origins),
     .help = "accept requests from web pages of this origin; repeatable"},
    {.name = "no-web",
     .kind = FLAG_SWITCH,
     .at = AT(no_web),
     .help = "no chat page for browsers at /"},
    {.name = "limit",
     .kind = FLAG_LIST,
     .value = "NAME=VALUE",
     .at = AT(limits),
     .help = "set a limit, such as connections=4096 or body-bytes=33554432; an unknown name lists "
             "all of them; repeatable"},
    {.name = "drain",
     .kind = FLAG_NUMBER,
     .value = "SECONDS",
     .initial = "30",
     .min = 0.1,
     .max = 86400,
     .at = AT(drain),
     .help = "how long running requests may take after Ctrl-C or SIGTERM; a second signal exits at "
             "once"},
    {.name = "drain-delay",
     .kind = FLAG_NUMBER,
     .value = "SECONDS",
     .initial = "0",
     .min = 0,
     .max = 3600,
     .at = AT(drain_delay),
     .help =
         "how long to accept requests after the signal while /health returns 503; behind a load "
         "balancer: longer than its health check takes"},
};

static const char *keep_alive_check(const char *text)
{
    double seconds;
    return str_duration(text, &seconds) ? NULL : "a time such as 90s, 5m or 1h30m, or -1";
}

static const cli_flag capacity_flags[] = {
    {LOAD_PARALLEL_FLAG, .shown = "8", .env = "MOTE_PARALLEL", .at = AT(parallel),
     .help = "requests generated at the same time, per model"},
    {.name = "queue",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 65536,
     .shown = "256",
     .env = "MOTE_QUEUE",
     .at = AT(queue),
     .help = "requests waiting per model; more get 429"},
    {LOAD_MEMORY_FLAG, .shown = "what the other settings need, at most what is available",
     .at = AT(load.memory),
     .help = "memory limit for all models together, such as 8GB, 500MB or 4GiB; may exceed what "
             "is available"},
    {LOAD_CONTEXT_FLAG, .value = "N|auto", .word = "auto",
     .shown = "auto: that of the model, at most --kv-tokens", .env = "MOTE_CONTEXT",
     .at = AT(load.context),
     .help = "maximum context of a request, in tokens; not reserved in advance"},
    {.name = "keep-alive",
     .kind = FLAG_TEXT,
     .value = "TIME",
     .shown = "never; without MODEL: 5m",
     .env = "MOTE_KEEP_ALIVE",
     .check = keep_alive_check,
     .at = AT(keep_alive),
     .help = "unload a model and drop its prefix cache after this idle time, such as 5m or 1h30m"},
    {KV_TOKENS_FLAG, .at = AT(kv_tokens),
     .help = "size of the KV cache in tokens, shared by all requests of a model"},
    {LOAD_CACHE_DISK_FLAG, .at = AT(cache_disk),
     .help = "prefix cache on disk, which survives restarts: the most bytes in its directory "
             "(mote cache stats)"},
    {CACHE_KEY_FLAG, .at = AT(cache_key)},
    {SPEC_FLAG, .at = AT(spec), .help = SPEC_FLAG_HELP "; a request can lower it"},
};

static const cli_flag image_flags[] = {
    {MMPROJ_FLAG, .at = AT(mmproj),
     .help = "vision encoder (mmproj) of the model; none: images are rejected"},
    {.name = "image-tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = MOTE_IMAGE_MAX_TOKENS,
     .initial = MEDIA_FILES_TOKENS,
     .at = AT(image_tokens),
     .help = "maximum tokens per image, 1,024 pixels each; a request may set another value, up to "
             "--limit image-tokens=N"},
};

static const cli_flag request_flags[] = {
    {THINK_FLAG, .at = AT(think), .help = "thinking, unless the request sets it: " THINK_FLAG_HELP},
    {REQUEST_PRESET_FLAG, .at = AT(preset)},
    {.name = "system",
     .kind = FLAG_TEXT,
     .value = "TEXT|@FILE",
     .at = AT(system),
     .help = "system prompt for requests without a system message"},
    {.name = "no-soft-switch",
     .kind = FLAG_SWITCH,
     .at = AT(no_soft_switch),
     .help = "treat /think and /no_think at the end of a message as plain text"},
    {.name = "keep-billing-header",
     .kind = FLAG_SWITCH,
     .at = AT(keep_billing_header),
     .help =
         "keep the billing header that some clients put before the system prompt; it changes with "
         "every request and prevents prefix reuse"},
};

static const cli_flag adapter_flags[] = {{SERVED_LORA_FLAG, .at = AT(loras)}};

static const cli_flag reply_flags[] = {
    {.name = "name",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .shown = "from the file name",
     .at = AT(name),
     .help = "name of the model in requests and replies; with a single model"},
    {.name = "no-ext",
     .kind = FLAG_SWITCH,
     .at = AT(no_ext),
     .help = "omit the `mote` object from replies"},
    {.name = "log",
     .kind = FLAG_CHOICE,
     .value = "text|json|off",
     .initial = "text",
     .env = "MOTE_LOG",
     .at = AT(log),
     .help = "one line per request on stderr; never contains prompts"},
};

const flag_group serve_flag_groups[SERVE_N_FLAG_GROUPS] = {
    FLAG_GROUP("Access", access_flags, 0),
    FLAG_GROUP("Capacity", capacity_flags, 0),
    FLAG_GROUP("Images", image_flags, 0),
    FLAG_GROUP("Requests", request_flags, 0),
    TEMPLATE_FLAG_GROUP(offsetof(serve_options, template)),
    FLAG_GROUP("Adapters", adapter_flags, 0),
    FLAG_GROUP("Replies and log", reply_flags, 0),
    /* Without the first two flags: --context and --memory have other meanings here. */
    {"Machine", load_flags + 2, LOAD_N_FLAGS - 2, offsetof(serve_options, load)},
};

/* ---- options of the server ---- */

enum { LOG_TEXT, LOG_JSON, LOG_OFF };

/* In the order of --sandbox. */
static const server_sandbox_mode sandbox_modes[] = {SERVER_SANDBOX_ON, SERVER_SANDBOX_REQUIRE,
                                                    SERVER_SANDBOX_OFF};

void serve_flags_apply(server_options *o, const serve_options *f)
{
    o->image_tokens = (uint32_t)f->image_tokens;
    o->sched.parallel = (uint32_t)f->parallel;
    o->sched.queue = (uint32_t)f->queue;
    o->sched.kv_tokens = f->kv_tokens;
    o->sched.context = f->load.context;
    o->sched.threads = (uint32_t)f->load.threads;
    o->sched.kv = (mote_kv)f->load.kv;
    o->sched.yarn = (float)f->load.yarn;
    o->sched.pin = (mote_pin)f->load.pin;
    o->sched.spec = spec_flag_read(f->spec);
    o->sched.disk_bytes = f->cache_disk;
    for (size_t i = 0; i < f->listen.n; i++)
        o->listen[o->n_listen++] = f->listen.items[i];
    for (size_t i = 0; i < f->hosts.n; i++)
        o->hosts[o->n_hosts++] = f->hosts.items[i];
    for (size_t i = 0; i < f->origins.n; i++)
        o->origins[o->n_origins++] = f->origins.items[i];
    for (size_t i = 0; i < f->limits.n; i++)
        o->limits[o->n_limits++] = f->limits.items[i];
    o->web = !f->no_web;
    o->unauthenticated = f->unauthenticated;
    o->chat_template = f->template.name;
    o->defaults.official = f->template.official == 1;
    o->sandbox = sandbox_modes[f->sandbox];
    o->files = f->files;
    o->defaults.no_ext = f->no_ext;
    o->defaults.preset = (uint32_t)f->preset;
    o->defaults.no_soft_switch = f->no_soft_switch;
    o->defaults.keep_billing_header = f->keep_billing_header;
    o->log.json = f->log == LOG_JSON;
    o->log.level = f->log == LOG_OFF ? 0 : 1;
    o->drain_seconds = f->drain;
    o->drain_delay = f->drain_delay;
}
